//! The last known state of each claim's object, for the next write to it.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard},
};

use k8s_openapi::jiff::Timestamp;
use vipward_core::records::{Epoch, NoAnswer, NodeName, Reservation, Version};

use crate::shell::kube::kinds::condition::{Condition, Truth};

/// The parts of a claim's object that a write of it rests on, or carries over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Known {
    pub(crate) version: Version,
    pub(crate) uid: Option<Arc<str>>,
    pub(super) epoch: Epoch,
    /// The nodes that the claim names: the holder, and in an offer the node that offers.
    pub(super) nodes: Box<[NodeName]>,
    /// The Service that the address is reserved for.
    pub(crate) reservation: Option<Box<Reservation>>,
    pub(super) finalizers: Box<[String]>,
    pub(super) held: Option<(Truth, Timestamp)>,
    /// Reason why no node answers for the VIP, as the object gives it.
    pub(super) unanswered: Option<Box<NoAnswer>>,
    pub(super) trouble: Option<(Truth, Timestamp)>,
    pub(super) conflict: Option<Box<Condition>>,
}

impl Known {
    /// Returns true if the claim names a node.
    pub(crate) fn names_nodes(&self) -> bool {
        !self.nodes.is_empty()
    }
}

/// The last known state of each claim's object, from a read or a write, for the queues that write: a
/// patch names what it keeps. The core's records have everything else about a claim.
///
/// The states are boxed, because a map that is filled in order leaves half of its slots empty.
#[derive(Debug, Default)]
pub(crate) struct KnownClaims(Mutex<BTreeMap<IpAddr, Box<Known>>>);

impl KnownClaims {
    fn all(&self) -> MutexGuard<'_, BTreeMap<IpAddr, Box<Known>>> {
        self.0.lock().expect("invariant: no thread panics with this lock")
    }

    /// Records an object. Versions are not compared, since the store may have gone back.
    pub(crate) fn learn(&self, vip: IpAddr, known: Known) {
        self.all().insert(vip, Box::new(known));
    }

    /// Records an object from the answer to a request, if `before` is still the last known version. A
    /// version that a watch has delivered meanwhile is newer.
    pub(crate) fn learn_since(&self, before: Option<&Version>, vip: IpAddr, known: Known) {
        let mut all = self.all();
        if all.get(&vip).map(|known| &known.version) == before {
            all.insert(vip, Box::new(known));
        }
    }

    /// Returns true if no claim is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.all().is_empty()
    }

    pub(crate) fn forget(&self, vip: IpAddr) {
        self.all().remove(&vip);
    }

    /// Returns the last known state of the object.
    pub(crate) fn latest(&self, vip: IpAddr) -> Option<Known> {
        self.all().get(&vip).map(|known| Known::clone(known))
    }
}
