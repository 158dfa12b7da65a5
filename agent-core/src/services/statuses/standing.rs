//! Whether the addresses in a status bind Vipward, by their writer.
//!
//! A field manager may be gone for years. So what another one has written binds only where
//! nothing shows that the Service is Vipward's, or that the addresses are of no use.

use std::net::IpAddr;

use super::super::{Ingress, Place, ServiceRecord, Settings, StatusOwner};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Standing {
    /// The status is empty, or Vipward's own.
    Own,
    /// It is another controller's. Vipward announces its addresses, and writes none.
    Bound,
    /// It is left over. Vipward announces its addresses until the Service has others, which replace
    /// them.
    Left(Why),
}

/// Reason why a status does not bind, although another field manager has written it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Why {
    /// A person has written it.
    Person,
    /// The Service is of Vipward's class.
    Class,
    /// The Service names a pool or an address for Vipward.
    Named,
    /// No node can hold any of its addresses.
    Unusable,
}

/// Evaluates a status. `asked` has the addresses that the Service requests, with their place.
/// `is_usable` returns true for an entry whose address a node can hold.
pub(crate) fn standing(
    record: &ServiceRecord,
    asked: Option<(Place, &[IpAddr])>,
    is_usable: impl Fn(&Ingress) -> bool,
    settings: &Settings,
) -> Standing {
    let manager = match record.status_owner() {
        StatusOwner::Absent | StatusOwner::Vipward => return Standing::Own,
        StatusOwner::Other(manager) => manager,
    };
    // The address 0.0.0.0 leaves the choice to the other controller.
    if asked.is_some_and(|(_, addresses)| addresses.iter().all(IpAddr::is_unspecified)) {
        return Standing::Bound;
    }
    if manager.is_some_and(|manager| manager.starts_with("kubectl")) {
        Standing::Left(Why::Person)
    } else if record.class.as_ref() == Some(&settings.class) {
        Standing::Left(Why::Class)
    } else if asked.is_some_and(|(place, _)| place.is_for_vipward(settings)) || names_pool(record, settings) {
        Standing::Left(Why::Named)
    } else if !record.ingress.iter().any(is_usable) {
        Standing::Left(Why::Unusable)
    } else {
        Standing::Bound
    }
}

/// Returns true if the Service names a pool that no other controller knows.
fn names_pool(record: &ServiceRecord, settings: &Settings) -> bool {
    let annotations = &record.annotations;
    let theirs = annotations.metallb_pool.as_deref().filter(|_| settings.metallb);
    [annotations.pool.as_deref(), theirs].into_iter().flatten().any(|name| !name.trim().is_empty())
}
