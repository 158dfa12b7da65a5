//! Plays one schedule or many, and finds the part of one that breaks a promise.

pub mod campaign;

mod run;
mod shrink;

pub use self::{
    run::{Report, run},
    shrink::shrink,
};
