//! Interfaces that lose carrier, change, vanish, come late, and are many: ordinary events.

mod changes;
mod numbers;
