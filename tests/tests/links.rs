//! Interfaces that lose carrier, change, vanish, come late and come in numbers: ordinary events.

#[path = "links/changes.rs"]
mod changes;
#[path = "links/numbers.rs"]
mod numbers;
