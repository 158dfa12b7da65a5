//! Decides whether an address may be a VIP, and whether the VIP or something else came first.

mod precedence;
mod refusal;
mod reserved;

pub use self::refusal::Refusal;
pub(super) use self::{
    precedence::{ClaimSummary, Holders, Order, Precedence},
    reserved::{Reserved, Verdict, judge},
};
