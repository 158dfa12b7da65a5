//! `vipward watch`: reads the status again and again, for a screen or for lines.
//!
//! Every reading opens the pins anew, and so works after an agent replaces its maps.

mod draw;
mod plain;
mod screen;
mod watching;

#[cfg(test)]
mod tests;

#[cfg(test)]
pub(super) use self::plain::Line;
pub use self::{
    plain::plain,
    screen::screen,
    watching::{Lines, LiveError, Watching},
};
