//! Holds figures against their bars, and shows them as tables, drawings and files.

mod figures;
mod machine;
mod output;
mod plot;
mod recorded;
mod stats;

pub(crate) use self::{
    figures::{Group, Item, Limit, MIB, Report, Unit, count, push, push_time},
    machine::Machine,
    output::{Options, write_files},
    plot::replies,
    recorded::{Row, record, today},
    stats::Samples,
};
