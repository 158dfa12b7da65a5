//! The difference between answering and silent VIPs, with the reason for the silence.

use std::net::IpAddr;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize, Serializer};
use vipward_common::{DeadlineState, Proof, Role, VipFault};

use crate::{base::schema, host::net::InterfaceFault};

#[cfg(test)]
mod tests;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    Held,
    /// This node answers with its successor's MAC.
    Handover,
    /// This node answers for the VIP, and its clients do not get the answers.
    Failing(VipFault),
    /// This node has the VIP, and does not answer for it, or not alone.
    Silent(Silence),
    Foreign,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Silence {
    LeaseDeadline,
    Interface(InterfaceFault),
    /// A peer answers for the VIP too. The program answers all the same.
    Doubled,
}

/// A VIP that this host is to hold and does not hold.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Waiting {
    /// The VIP.
    pub address: IpAddr,
    /// The interface where it waits, or `null` when it has none.
    pub interface: Option<String>,
    /// Why it waits.
    pub because: String,
    /// What to do.
    pub remedy: String,
    /// The MAC of the host that has the address, or `null`.
    pub mac: Option<String>,
}

impl Waiting {
    /// Returns the name of the interface, for a column of names.
    pub fn label(&self) -> &str {
        self.interface.as_deref().unwrap_or("-")
    }
}

/// The proof that a VIP is answered, for users.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answering {
    Yes,
    /// This node answers, and has received no frame that shows that it is heard or hears.
    Unproven,
    /// The program does not see the requests.
    Blind,
    Failing(VipFault),
    /// Another host answers too.
    Doubled,
    /// This node has the VIP, and does not answer for another reason.
    Silent,
    No,
}

impl Answering {
    pub const NAMES: [&'static str; 7] = [
        Self::Yes.name(),
        Self::Unproven.name(),
        Self::Blind.name(),
        Self::Failing(VipFault::Unheard).name(),
        Self::Doubled.name(),
        Self::Silent.name(),
        Self::No.name(),
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::Unproven => "unproven",
            Self::Blind => "blind",
            Self::Failing(fault) => fault.word(),
            Self::Doubled => "doubled",
            Self::Silent => "silent",
            Self::No => "no",
        }
    }
}

impl Part {
    pub const NAMES: [&'static str; 4] = [
        Self::Held.name(),
        Self::Handover.name(),
        Self::Silent(Silence::LeaseDeadline).name(),
        Self::Foreign.name(),
    ];

    /// Returns the part of an entry with this role. `trouble` is the fault of its interface, and `fault`
    /// the VIP's own.
    pub fn of(
        role: Role,
        lease_deadline: DeadlineState,
        trouble: Option<InterfaceFault>,
        fault: Option<VipFault>,
    ) -> Self {
        let answers = match role {
            Role::Held => Self::Held,
            Role::Handover => Self::Handover,
            Role::Foreign => return Self::Foreign,
        };
        if lease_deadline == DeadlineState::Over {
            return Self::Silent(Silence::LeaseDeadline);
        }
        match (trouble.filter(|trouble| trouble.silences(role)), fault) {
            (Some(trouble), _) => Self::Silent(Silence::Interface(trouble)),
            (None, Some(fault)) => Self::Failing(fault),
            (None, None) => answers,
        }
    }

    /// Returns the proof of the answers, where the agent has this finding about the segment.
    pub const fn answers(self, proof: Proof) -> Answering {
        match self {
            Self::Held | Self::Handover if matches!(proof, Proof::Unproven) => Answering::Unproven,
            Self::Held | Self::Handover => Answering::Yes,
            Self::Failing(fault) => Answering::Failing(fault),
            Self::Silent(Silence::Interface(InterfaceFault::Blind | InterfaceFault::Bypassed)) => {
                Answering::Blind
            }
            Self::Silent(Silence::Doubled) => Answering::Doubled,
            Self::Silent(Silence::LeaseDeadline | Silence::Interface(_)) => Answering::Silent,
            Self::Foreign => Answering::No,
        }
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::Held | Self::Failing(_) | Self::Silent(Silence::Doubled) => Role::Held.name(),
            Self::Handover => Role::Handover.name(),
            Self::Silent(Silence::LeaseDeadline | Silence::Interface(_)) => "silent",
            Self::Foreign => Role::Foreign.name(),
        }
    }

    /// Returns the reason why clients get no answer from this node, which has the VIP.
    pub const fn silent_because(self) -> Option<&'static str> {
        match self {
            Self::Silent(why) => Some(why.name()),
            Self::Failing(fault) => Some(fault.name()),
            Self::Held | Self::Handover | Self::Foreign => None,
        }
    }

    pub const fn is_ours(self) -> bool {
        match self {
            Self::Held | Self::Handover | Self::Failing(_) | Self::Silent(_) => true,
            Self::Foreign => false,
        }
    }

    pub const fn is_answering(self) -> bool {
        match self {
            Self::Held | Self::Handover => true,
            Self::Failing(_) | Self::Silent(_) | Self::Foreign => false,
        }
    }
}

impl Serialize for Answering {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// The keys of a [`Part`] in JSON.
#[derive(Serialize, JsonSchema)]
pub struct PartKeys {
    /// What this node does for the VIP: it answers with its own MAC; it answers with its
    /// successor's MAC; it has the VIP and does not answer; another node has it.
    #[schemars(schema_with = "roles")]
    role: &'static str,
    /// True while requests for it are answered, by this node alone, and nothing shows that the answers do not
    /// arrive.
    answering: bool,
    /// Why not, or `null`.
    #[schemars(schema_with = "silence_or_null")]
    silent_because: Option<&'static str>,
}

impl Serialize for Part {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let keys = PartKeys {
            role: self.name(),
            answering: self.is_answering(),
            silent_because: self.silent_because(),
        };
        keys.serialize(serializer)
    }
}

impl Silence {
    pub const fn name(self) -> &'static str {
        match self {
            Self::LeaseDeadline => "the lease deadline has passed",
            Self::Interface(trouble) => trouble.name(),
            Self::Doubled => "doubled (another host answers too)",
        }
    }
}

pub(crate) fn answering(_: &mut SchemaGenerator) -> Schema {
    schema::names(Answering::NAMES)
}

pub(crate) fn roles(_: &mut SchemaGenerator) -> Schema {
    schema::names(Part::NAMES)
}

pub(crate) fn role_or_null(generator: &mut SchemaGenerator) -> Schema {
    schema::or_null(roles(generator))
}

pub(crate) fn silence_or_null(_: &mut SchemaGenerator) -> Schema {
    let faults = InterfaceFault::ALL.map(InterfaceFault::name);
    let of_vips = VipFault::ALL.map(VipFault::name);
    let silences = [Silence::LeaseDeadline, Silence::Doubled].map(Silence::name);
    schema::or_null(schema::names(silences.into_iter().chain(faults).chain(of_vips)))
}
