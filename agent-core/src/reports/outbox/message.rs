//! Messages that become Events: their objects, reasons and texts.

use std::{
    fmt,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    net::IpAddr,
    sync::Arc,
};

use crate::{
    base::legible::Legible,
    ownership::Notice,
    records::{NodeName, ServiceName, object_name},
    services::{Problem, ProblemReason},
};

#[cfg(test)]
mod tests;

/// The API's limit for a note, in bytes.
const MAX_NOTE: usize = 1_024;

/// The object that an Event is about.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Object {
    Service(ServiceName),
    /// A VIP's claim.
    VirtualIp(IpAddr),
    Other(ApiObject),
}

/// An object, by the fields with which an Event names it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ApiObject {
    /// The group and version of its type.
    pub version: &'static str,
    pub kind: &'static str,
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    pub uid: Arc<str>,
}

/// A fault of an object: a part of it has no effect.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ObjectFault {
    pub reason: ProblemReason,
    pub words: String,
}

impl ObjectFault {
    /// Returns the fault of an object that is not used, or in part. Without words it has none.
    pub fn unused(words: String) -> Option<Self> {
        (!words.is_empty()).then_some(Self { reason: ProblemReason::ObjectNotUsed, words })
    }
}

impl fmt::Display for ApiObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.kind)?;
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}

impl fmt::Display for Object {
    /// Writes the object's name without its namespace.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Service(service) => f.write_str(&service.name),
            Self::VirtualIp(vip) => f.write_str(&object_name(*vip)),
            Self::Other(object) => f.write_str(&object.name),
        }
    }
}

/// The type of an Event. Warnings come first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// A fault or an obstacle.
    Warning,
    /// A change without a fault.
    Normal,
}

impl Kind {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Warning => "Warning",
            Self::Normal => "Normal",
        }
    }
}

/// Reason of an Event, in one word for programs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Reason {
    /// A node announces a VIP that had no holder.
    Announced,
    /// A VIP has moved to another node.
    Moved,
    /// No node can hold a VIP.
    NoHolder,
    /// A VIP cannot be moved to the node that an operator named.
    CannotMove,
    /// Another host claims a VIP.
    Conflict,
    /// One more host claims a VIP in conflict.
    ConflictGrows,
    ConflictOver,
    /// The holder has taken back a VIP that another host announced in a peer's name.
    TakenBack,
    /// A problem of a Service, or a fault of another object.
    Problem(ProblemReason),
}

impl Reason {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Announced => "Announced",
            Self::Moved => "Moved",
            Self::NoHolder => "NoHolder",
            Self::CannotMove => "CannotMove",
            Self::Conflict => "Conflict",
            Self::ConflictGrows => "ConflictGrows",
            Self::ConflictOver => "ConflictOver",
            Self::TakenBack => "TakenBack",
            Self::Problem(reason) => reason.name(),
        }
    }

    pub const fn kind(self) -> Kind {
        match self {
            Self::Announced | Self::Moved | Self::ConflictOver => Kind::Normal,
            Self::NoHolder
            | Self::CannotMove
            | Self::Conflict
            | Self::ConflictGrows
            | Self::TakenBack
            | Self::Problem(_) => Kind::Warning,
        }
    }
}

/// The topic of a message. Newer news of one topic about an object replaces older news. A Service may
/// have several VIPs.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Topic {
    Holder(Option<IpAddr>),
    /// Other hosts that claim a VIP.
    Conflict(Option<IpAddr>),
    /// A problem of a Service, as its text. A Service may have several problems.
    Problem(Arc<str>),
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Message {
    pub object: Object,
    /// The object's uid, by which `kubectl describe` finds its Events.
    pub uid: Option<Arc<str>>,
    pub reason: Reason,
    /// The VIP that it is about, unless it is a problem.
    vip: Option<IpAddr>,
    note: Arc<str>,
}

impl Message {
    /// Returns a message. Makes its note legible, and cuts it to the API's limit.
    pub fn new(object: Object, uid: Option<Arc<str>>, reason: Reason, note: &str) -> Self {
        Self { object, uid, reason, vip: None, note: clipped(note) }
    }

    /// Returns the same message as news about a VIP.
    #[must_use]
    pub fn about(self, vip: IpAddr) -> Self {
        Self { vip: Some(vip), ..self }
    }

    pub fn of_problem(service: ServiceName, uid: Option<Arc<str>>, problem: &Problem) -> Self {
        Self::new(Object::Service(service), uid, Reason::Problem(problem.reason()), &problem.to_string())
    }

    /// Returns the message about a fault of an object.
    pub fn of_fault(object: ApiObject, fault: &ObjectFault) -> Self {
        let uid = Some(Arc::clone(&object.uid));
        Self::new(Object::Other(object), uid, Reason::Problem(fault.reason), &fault.words)
    }

    pub fn note(&self) -> &str {
        &self.note
    }

    /// Returns the name of its Event. All nodes use the same name. Another message has another
    /// name, and so has an object that was created anew.
    pub(super) fn event_name(&self) -> String {
        // The name may differ between versions of the agent. Then there are two Events.
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        format!("{}.{:016x}", self.object, hasher.finish())
    }

    /// Returns true if the message is about a VIP's holder. Such news grows old. A
    /// conflict or a problem stands until it is over.
    pub(super) fn is_about_holder(&self) -> bool {
        matches!(self.topic(), Topic::Holder(_))
    }

    pub(super) fn topic(&self) -> Topic {
        match self.reason {
            Reason::Announced | Reason::Moved | Reason::NoHolder | Reason::CannotMove => {
                Topic::Holder(self.vip)
            }
            Reason::Conflict | Reason::ConflictGrows | Reason::ConflictOver | Reason::TakenBack => {
                Topic::Conflict(self.vip)
            }
            Reason::Problem(_) => Topic::Problem(Arc::clone(&self.note)),
        }
    }
}

impl Topic {
    pub(super) fn of_problem(problem: &Problem) -> Self {
        Self::of_words(&problem.to_string())
    }

    pub(super) fn of_words(words: &str) -> Self {
        Self::Problem(clipped(words))
    }
}

fn clipped(note: &str) -> Arc<str> {
    let note = Legible(note).to_string();
    note[..note.floor_char_boundary(MAX_NOTE)].into()
}

/// A notice of the ownership engine, as the text of an Event.
#[derive(PartialEq, Eq, Debug)]
pub struct News<'a> {
    pub vip: IpAddr,
    pub services: &'a [ServiceName],
    pub reason: Reason,
    pub note: String,
}

impl<'a> News<'a> {
    /// Returns the news in a notice from the engine on `node`.
    /// Returns none if the notice is for the log only.
    pub fn of(notice: &'a Notice, node: &NodeName) -> Option<Self> {
        let (vip, services, reason, note) = match notice {
            Notice::Holds { vip, services, from: Some(from), cause } => {
                let note = format!("{vip} moved from {from} to {node}, because {cause}");
                (vip, services, Reason::Moved, note)
            }
            Notice::Holds { vip, services, from: None, cause } => {
                (vip, services, Reason::Announced, format!("{vip} is announced from {node}: {cause}"))
            }
            Notice::NoHolder { vip, services, why } => {
                (vip, services, Reason::NoHolder, format!("no node can hold {vip}: {why}"))
            }
            Notice::CannotMove { vip, services, to, why } => {
                (vip, services, Reason::CannotMove, format!("{vip} cannot be moved to {to}: {why}"))
            }
            Notice::Repaired { .. }
            | Notice::WentBack
            | Notice::SessionEnded { .. }
            | Notice::WireSlow { .. }
            | Notice::FalseEnd { .. }
            | Notice::WireContact { .. }
            | Notice::NotAlone { .. } => {
                return None;
            }
        };
        Some(Self { vip: *vip, services, reason, note })
    }
}
