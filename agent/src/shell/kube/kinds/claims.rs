//! Claims as `VirtualIP` objects: reading them, and writing them.

mod conditions;
mod known;
mod reading;
mod writing;

#[cfg(test)]
mod tests;

pub use self::reading::ClaimError;
pub(crate) use self::{
    known::{Known, KnownClaims},
    reading::{read, read_with_metadata},
    writing::{creation, is_kept_by_others, letting_go, patch, reservation, reserving, showing},
};
