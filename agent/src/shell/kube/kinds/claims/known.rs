//! The last known state of each claim's object, for the next write to it.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{Mutex, MutexGuard},
};

use k8s_openapi::jiff::Timestamp;
use vipward_core::{
    agent::cluster::Shows,
    base::legible::message,
    records::{Epoch, NodeName, Reservation, Version},
    reports::unanswered::Unanswered,
};

use crate::shell::kube::kinds::condition::{Condition, Truth};

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
        Self { word: unanswered.reason().to_owned(), message: message(&unanswered.to_string()) }
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

    /// Returns the reason why no node answers for the VIP, as the object gives it.
    pub(crate) fn unanswered(&self, vip: IpAddr) -> Option<String> {
        Some(self.all().get(&vip)?.unanswered.as_ref()?.message.clone())
    }

    /// Returns what the object shows for people. Returns `None` if it shows nothing, or is not known.
    pub(crate) fn shows(&self, vip: IpAddr) -> Option<Shows> {
        let all = self.all();
        let known = all.get(&vip)?;
        let conflict = known.conflict.as_deref().filter(|conflict| conflict.status == Truth::True);
        let shows = Shows {
            conflict: conflict.map(|conflict| conflict.message.clone()),
            unanswered: known.unanswered.as_ref().map(|why| (why.word.clone(), why.message.clone())),
            is_torn: !known.is_consistent,
        };
        (shows != Shows::default()).then_some(shows)
    }
}
