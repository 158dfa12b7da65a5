//! The Services that have a VIP, together or alone, and how many VIPs a namespace has.

mod members;
mod quota;
mod reservations;

pub(super) use self::{
    members::{Consent, Consents, Kept, Member, Ports, admit, combine, has_heir, in_order},
    quota::{Quotas, Rank},
    reservations::Reservations,
};
