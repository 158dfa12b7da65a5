//! The shell: one kind of I/O in each module, and no decisions.

pub mod bind;
pub mod bpf;
mod bulletin;
mod causes;
pub mod clock;
pub mod cluster_status;
pub mod controller;
pub mod doctor;
mod ethtool;
pub mod explain;
pub mod file_watch;
pub mod groups;
mod host_network;
pub mod kube;
mod lines;
pub mod live;
pub mod logging;
pub mod metrics;
pub mod netlink;
pub mod packet;
pub mod pages;
pub mod pool_tables;
pub mod preflight;
pub mod run;
pub mod segment;
pub mod status;
mod tables;
pub mod terminal;
pub mod who_has;
pub mod wire;

#[cfg(test)]
mod documented;
#[cfg(test)]
mod testing;
