//! The last known state of each claim's object, for the next write to it.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{Mutex, MutexGuard},
};

use k8s_openapi::jiff::Timestamp;
use vipward_core::{
    records::{Epoch, NodeName, Reservation, Version},
    reports::unanswered::Unanswered,
};

use crate::shell::kube::kinds::{
    condition::{Condition, Truth},
    text,
};

/// The parts of a claim's object that its record does not have, and a write needs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Known {
    pub(crate) version: Version,
    pub(crate) uid: Option<Box<str>>,
    pub(super) epoch: Epoch,
    /// The nodes that the claim names: the holder, and in an offer the node that offers.
    pub(super) nodes: Box<[NodeName]>,
    /// The Service that the address is reserved for.
    pub(crate) reservation: Option<Box<Reservation>>,
    /// All finalizers, unless the agents' is the only one.
    pub(super) finalizers: Option<Box<[String]>>,
    pub(super) held: Option<(Truth, Timestamp)>,
    /// Reason why no node answers for the VIP, as the object gives it.
    pub(super) unanswered: Option<Box<Reason>>,
    /// True if the object's state, condition and words fit its claim and each other.
    pub(super) is_consistent: bool,
    pub(super) trouble: Option<(Truth, Timestamp)>,
    pub(super) conflict: Option<Box<Condition>>,
}

/// Reason why no node answers for a VIP, as an object gives it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Reason {
    /// The condition's reason, for programs.
    pub(super) word: String,
    /// The condition's message, for people.
    pub(super) message: String,
}

impl Known {
    /// Returns true if the claim names a node.
    pub(crate) fn names_nodes(&self) -> bool {
        !self.nodes.is_empty()
    }
}

impl Reason {
    pub(super) fn of(unanswered: &Unanswered) -> Self {
        let message = text::message(&unanswered.to_string());
        Self { word: unanswered.reason().to_owned(), message }
    }
}

/// The last known state of each claim's object, from a read or a write. The states are boxed,
/// because a map that is filled in order leaves half of its slots empty.
#[derive(Debug, Default)]
pub(crate) struct KnownClaims(Mutex<BTreeMap<IpAddr, Box<Known>>>);

impl KnownClaims {
    fn all(&self) -> MutexGuard<'_, BTreeMap<IpAddr, Box<Known>>> {
        self.0.lock().expect("invariant: no thread panics with this lock")
    }

    /// Remembers an object. Versions are not compared, since the store may have gone back.
    pub(crate) fn learn(&self, vip: IpAddr, known: Known) {
        self.all().insert(vip, Box::new(known));
    }

    /// Forgets an object that is gone.
    pub(crate) fn forget(&self, vip: IpAddr) {
        self.all().remove(&vip);
    }

    /// Returns the last known state of the object.
    pub(crate) fn latest(&self, vip: IpAddr) -> Option<Known> {
        self.all().get(&vip).map(|known| Known::clone(known))
    }

    /// Returns the conflict that the object shows.
    pub(crate) fn conflict(&self, vip: IpAddr) -> Option<String> {
        let all = self.all();
        let conflict = all.get(&vip)?.conflict.as_deref()?;
        (conflict.status == Truth::True).then(|| conflict.message.clone())
    }

    /// Returns the reason why no node answers for the VIP, as the object gives it.
    pub(crate) fn unanswered(&self, vip: IpAddr) -> Option<String> {
        Some(self.all().get(&vip)?.unanswered.as_ref()?.message.clone())
    }

    /// Returns true if the object is known, and shows exactly this.
    pub(crate) fn shows_unanswered(&self, vip: IpAddr, unanswered: Option<&Unanswered>) -> bool {
        let shown = unanswered.map(Reason::of);
        let is_shown = |known: &Known| known.is_consistent && known.unanswered.as_deref() == shown.as_ref();
        self.all().get(&vip).is_some_and(|known| is_shown(known))
    }
}
