//! Faulty input: the message names the fault and the remedy, the
//! exit code fits, and the rest continues.

mod file;
mod neighbours;
mod privileges;
mod programs;
