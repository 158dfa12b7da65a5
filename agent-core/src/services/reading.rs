//! What a Service requests, and whether it is served.

mod fields;
mod oversights;
mod selection;

pub use self::oversights::oversights_on;
pub(super) use self::{
    fields::{Limits, Reading, Wanted, Wish, named_pool},
    oversights::oversights,
    selection::{Selection, Unselected, select},
};
