//! Lists and watches objects, and turns them into news.

pub(crate) mod alarm;
pub(crate) mod events;
pub(crate) mod objects;
pub(crate) mod overload;
pub(crate) mod read_error;
pub(crate) mod reader;
pub(crate) mod seen;
pub(crate) mod shared;
