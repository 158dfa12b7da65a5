//! Runs the agent under test, and provides ready scenes with it.
//!
//! - [`Agent`]: the program in a host, killed and started again at will.
//! - [`Bpffs`]: a private place for its pins.
//! - [`Scene`], [`Pair`]: a client, a node with the agent, and a rogue.
//! - [`Node`]: a host with an agent that holds VIPs, and a client.

mod bpffs;
mod log;
mod node;
mod program;
mod scene;

pub use self::{
    bpffs::{Bpffs, remove_bpffs},
    log::LogLine,
    node::{Attachment, HOLDS_ONE, Node, ask},
    program::{Agent, AgentOptions, Capability, ClusterMember, LeftAgent},
    scene::{
        CLIENT, NODE, PATIENCE, Pair, ROGUE, Scene, VIP, add_addresses, answers_in, answers_to,
        answers_to_odd, belief, clients_request, counter, empty_map, ip, map_dump, net, overwrite,
        request_of_client, send_datagram, start_agent, vip_status, wait_until_received, wait_until_running,
    },
};
