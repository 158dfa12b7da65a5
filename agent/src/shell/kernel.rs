//! The host's kernel, which the shell reads and changes by system calls, sockets and files.

pub mod bind;
pub mod bpf;
pub mod clock;
pub(crate) mod ethtool;
pub mod file;
pub mod file_watch;
pub mod groups;
pub(crate) mod host_network;
pub mod liveness;
pub(crate) mod netdev;
pub mod netlink;
pub mod other_pins;
pub mod packet;
pub mod preflight;
pub mod segment;
pub mod statements;
pub mod status;
pub mod systemd;
pub mod telling;
