//! The configuration: the YAML file of a standalone agent, validated, with every default filled in.
//!
//! docs/CONFIGURATION.md describes every key. Whatever is wrong with a file is said all at once, each fault with the
//! value, where it stands, and the way out.

mod fault;
mod raw;
mod segment;
#[cfg(test)]
mod tests;
mod values;

use std::{net::Ipv4Addr, time::Duration};

use serde::{Serialize, Serializer};
use vipward_common::{MacAddr, Policy};

pub use self::{
    fault::{ConfigError, Fault, FaultKind},
    segment::{conflict_quiet, probe_repeat, probe_timing},
    values::{InterfaceName, InterfacePattern},
};
use super::{announce, conflict, heartbeat, probing};

/// A validated configuration.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Config {
    /// What this node calls itself in logs.
    pub node: String,
    /// The interfaces to attach to; empty means every up Ethernet interface that is not excluded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub interfaces: Vec<InterfacePattern>,
    /// The VIPs, in the file's order.
    pub vips: Vec<VipConfig>,
    /// MACs of hosts that may take a VIP over when the fence has lapsed.
    pub peers: Vec<MacAddr>,
    /// How the program is attached.
    pub xdp: XdpMode,
    /// Until when the program may answer without the agent.
    #[serde(serialize_with = "fence")]
    pub fence: heartbeat::Settings,
    /// How VIPs are announced.
    #[serde(serialize_with = "segment::announce")]
    pub announce: announce::Settings,
    /// How addresses are probed before they are used, and while they are.
    #[serde(serialize_with = "segment::probe")]
    pub probe: probing::Settings,
    /// How conflicts are dealt with.
    #[serde(serialize_with = "segment::conflicts")]
    pub conflicts: conflict::Settings,
    /// What becomes of the VIPs when the agent is told to end.
    pub shutdown: Shutdown,
}

/// One entry of `vips`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct VipConfig {
    /// The VIP.
    pub address: Ipv4Addr,
    /// The interface that it belongs to; none means the one whose subnet contains it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interface: Option<InterfacePattern>,
    /// The interface that the address is put on for local delivery.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bind: Option<InterfaceName>,
    /// Set for a VIP that lives elsewhere and is guarded here: where it lives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mac: Option<MacAddr>,
    /// Whether it is held although its address is in use: nobody is asked.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
}

/// How the program is attached.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum XdpMode {
    /// Native where it works, else generic.
    #[default]
    Auto,
    /// In the driver only.
    Native,
    /// In the network stack only.
    Generic,
}

/// What becomes of the VIPs when the agent is told to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Shutdown {
    /// The pinned program answers on, under the fence's policy.
    #[default]
    Keep,
    /// Nothing is answered any more.
    Withdraw,
}

impl Config {
    /// Reads a file's `text`. `source` names it in errors; `host` is the node's name unless the file has another.
    pub fn parse(text: &str, source: &str, host: &str) -> Result<Self, ConfigError> {
        let raw = raw::read(text, source)?;
        let mut faults = Vec::new();
        let config = values::validate(raw, host, &mut faults);
        match config {
            Some(config) if faults.is_empty() => Ok(config),
            Some(_) | None => {
                faults.sort_by_key(|fault| fault.place);
                Err(ConfigError::Values { file: source.to_owned(), faults })
            }
        }
    }

    /// The effective configuration, with every default; reading it again gives the same.
    pub fn to_yaml(&self) -> String {
        serde_saphyr::to_string(self).expect("invariant: nothing in a configuration is beyond YAML")
    }
}

fn duration(duration: Duration) -> String {
    humantime::format_duration(duration).to_string()
}

fn fence<S: Serializer>(fence: &heartbeat::Settings, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Fence {
        duration: String,
        heartbeat: String,
        policy: &'static str,
        hold_for: String,
    }
    let policy = match fence.policy {
        Policy::Stop => "stop",
        Policy::Hold => "hold",
    };
    let heartbeat::Settings { duration: length, heartbeat, policy: _, hold_for } = *fence;
    let (length, heartbeat, hold_for) = (duration(length), duration(heartbeat), duration(hold_for));
    Fence { duration: length, heartbeat, policy, hold_for }.serialize(serializer)
}
