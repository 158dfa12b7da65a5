//! The Services that have a VIP, together or alone, and how many VIPs a namespace has.

mod members;
mod quota;
mod reservations;

pub(super) use self::{
    members::{Consent, Consents, Kept, Member, admit, by_seniority, combine, has_heir},
    quota::{Quotas, Rank},
    reservations::Reservations,
};
