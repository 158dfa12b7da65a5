//! Configuration of a standalone agent: a YAML file, validated, with every default filled in.
//!
//! docs/CONFIGURATION.md describes every key. All faults of a file's values
//! are reported at once. Each has the value, its place and the remedy.

mod announcing;
mod conflicts;
mod fault;
mod probe;
mod raw;
#[cfg(test)]
mod tests;
mod values;

use std::{net::IpAddr, time::Duration};

use serde::{Serialize, Serializer};
use vipward_common::{MacAddr, Policy};

pub use self::{
    conflicts::conflict_quiet,
    fault::{ConfigError, Fault, FaultKind},
    probe::{probe_repeat, probe_timing},
    values::{InterfaceName, InterfacePattern},
};
use super::{announce, attaching::Attach, conflict, heartbeat, probing};

/// A validated configuration.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Config {
    /// This node's name in logs.
    pub node: String,
    /// The interfaces to attach to. If empty: every Ethernet interface that is up and not excluded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub interfaces: Vec<InterfacePattern>,
    /// The VIPs, in the file's order.
    pub vips: Vec<VipConfig>,
    /// MACs of hosts that may take a VIP over while the fence has lapsed.
    pub peers: Vec<MacAddr>,
    /// The hook of the program.
    pub attach: Attach,
    /// Settings of the fence.
    #[serde(serialize_with = "fence")]
    pub fence: heartbeat::Settings,
    /// Settings of announcing.
    #[serde(serialize_with = "announcing::serialize")]
    pub announce: announce::Settings,
    /// Settings of probing.
    #[serde(serialize_with = "probe::serialize")]
    pub probe: probing::Settings,
    /// Settings of conflicts.
    #[serde(serialize_with = "conflicts::serialize")]
    pub conflicts: conflict::Settings,
    /// The fate of a yielded VIP for which no peer answers.
    #[serde(rename = "yield")]
    pub yields: OnYield,
    /// The fate of the VIPs when the agent ends.
    pub shutdown: Shutdown,
}

/// An entry of `vips`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct VipConfig {
    /// The VIP.
    pub address: IpAddr,
    /// Its interface. If none: the interface whose subnet contains the VIP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interface: Option<Box<InterfacePattern>>,
    /// The ID of its VLAN, whose device it is on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vlan: Option<u16>,
    /// The interface that gets the address, for local delivery.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bind: Option<InterfaceName>,
    /// The holder's MAC, for a VIP that this node guards for another host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mac: Option<MacAddr>,
    /// True to take the VIP without probing, even if its address is in use.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
}

/// The fate of a VIP that the program has yielded under the policy `hold`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum OnYield {
    /// The segment is asked, and the VIP is taken back if no peer answers.
    #[default]
    Ask,
    /// The VIP stays with the peer until an operator takes it back.
    Keep,
}

/// The fate of the VIPs when the agent ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Shutdown {
    /// The pinned program goes on answering, under the fence's policy.
    #[default]
    Keep,
    /// Every VIP is withdrawn.
    Withdraw,
}

impl Config {
    /// Parses a file's `text`. `source` is its name in errors.
    /// `host` is the node's name if the file names none.
    ///
    /// Fails if the text is empty, or is no YAML of this
    /// form. Otherwise fails with all faults of the values.
    ///
    /// # Examples
    ///
    /// ```
    /// use vipward_core::config::{Config, ConfigError};
    ///
    /// let config = Config::parse("vips:\n  - address: 192.0.2.10\n", "vipward.yaml", "node-a")?;
    /// assert_eq!(config.node, "node-a");
    /// assert_eq!(config.vips[0].address.to_string(), "192.0.2.10");
    ///
    /// let wrong = "vips:\n  - address: 192.0.2\n";
    /// let error = Config::parse(wrong, "vipward.yaml", "node-a").unwrap_err();
    /// assert!(error.to_string().starts_with("vipward.yaml:2:"));
    /// # Ok::<(), ConfigError>(())
    /// ```
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

    /// Returns the effective configuration, with every default.
    /// Parsing it again gives the same configuration.
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
