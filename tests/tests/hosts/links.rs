//! Interfaces that lose carrier, change, vanish, come late and come in numbers: ordinary events.

mod changes;
mod numbers;
