//! What a Service requests, and whether it is served.

mod fields;
mod selection;

pub(super) use self::{
    fields::{Limits, Reading, Wanted, Wish},
    selection::{Selection, Unselected, select},
};
