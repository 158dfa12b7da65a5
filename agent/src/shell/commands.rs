//! The commands that read facts and print what the core makes of them.

pub mod cluster_status;
pub mod doctor;

#[cfg(test)]
mod documented;
pub mod explain;
pub mod live;
pub mod pool_tables;
pub mod status;
mod tables;
pub mod terminal;
pub mod who_has;
