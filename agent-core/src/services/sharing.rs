//! The Services that have a VIP, together or alone, and how many VIPs a namespace has.

mod grants;
mod members;
mod quota;

pub(super) use self::{
    grants::Grants,
    members::{Consent, Consents, Kept, Member, admit, by_seniority, combine, has_heir},
    quota::{Quotas, Rank},
};
