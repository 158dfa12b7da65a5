//! Reasons why a Service does not share an address with another one of its key.

use std::{net::IpAddr, sync::Arc};

use crate::records::{Port, ServiceName, Shown};

/// The reason why a Service does not share an address with another one of its key.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Apart {
    /// Both have this port.
    Port(Port),
    /// The Service names another pool, or none, and this pool is for those that name it.
    OtherPool { pool: Arc<str>, named: Option<Arc<str>> },
    /// The pool's namespaces or selectors leave the Service out.
    NotServed { pool: Arc<str> },
    /// The pool lets nobody share, or only Services of one namespace.
    Unshared { pool: Arc<str> },
    /// They are of two namespaces, without consent.
    NoConsent,
    /// No node can announce the address for the Service.
    NotAnnounced,
    /// No node has endpoints of all Services that would share it.
    NoCommonNode,
    /// It keeps this address, which it had before.
    HasOwn(IpAddr),
}

impl Apart {
    /// Returns the reason and the remedy. Service `with` has the address, or the port.
    pub(super) fn of(&self, with: &ServiceName) -> String {
        match self {
            Self::Port(port) => format!(
                "its port {port} is that of Service {with}; change the port, or give it a key of its own"
            ),
            Self::OtherPool { pool, named: Some(named) } => format!(
                "that is an address of {}, and the Service names {}; have both name one pool, or give it a key of \
                 its own",
                Shown(pool),
                Shown(named)
            ),
            Self::OtherPool { pool, named: None } => format!(
                "{} is for Services that name it (autoAssign: false); name it, or give the Service a key of its own",
                Shown(pool)
            ),
            Self::NotServed { pool } => format!(
                "{} is not for this Service; have the pool serve it, or give it a key of its own",
                Shown(pool)
            ),
            Self::Unshared { pool } => format!(
                "spec.sharing of {} forbids it; change that, or give the Service a key of its own",
                Shown(pool)
            ),
            Self::NoConsent => format!(
                "it is of namespace {0}; have the Namespace {0} list this Service's namespace in its annotation \
                 vipward.io/share-with, and both Services have the annotation vipward.io/share, or give it a key of \
                 its own",
                with.namespace
            ),
            Self::NotAnnounced => {
                "no node can announce that for this Service; have its endpoints and its annotations \
                                   for nodes and interfaces leave one, or give it a key of its own"
                    .to_owned()
            }
            Self::NoCommonNode => format!(
                "with externalTrafficPolicy Local no node has endpoints of both it and Service {with}; have one, or \
                 give it a key of its own"
            ),
            Self::HasOwn(own) => {
                format!(
                    "it keeps its own. To have it share: vipward release {own}; or give it a key of its own"
                )
            }
        }
    }
}
