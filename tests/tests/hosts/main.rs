//! Hosts on one LAN: the agent and its commands in network namespaces.
#![forbid(unsafe_code)]

mod announcing;
mod answering;
mod bad_input;
mod commands;
mod conflicts;
mod doctor;
mod exit_codes;
mod explain;
mod guarding;
mod life;
mod links;
mod metrics;
mod nobody;
mod proof;
mod proving;
mod receiving;
mod reload;
mod removed;
mod traffic_control;
mod watch;
mod who_has;
