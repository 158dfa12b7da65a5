//! The mark of the addresses and proxies that the agent adds.

use ipnet::IpNet;

use super::messages::Address;

/// `IFA_LABEL` of every IPv4 address that the agent adds (`ip address show label vipward`).
pub(crate) const LABEL: &str = "vipward";
/// `IFA_PROTO` of every IPv6 address that the agent adds (`ip -6 address show proto 0x76`).
pub(crate) const PROTOCOL: u8 = b'v';

impl Address {
    pub(crate) fn is_ours(&self) -> bool {
        match self.net {
            IpNet::V4(_) => self.label == LABEL,
            IpNet::V6(_) => self.protocol == PROTOCOL,
        }
    }
}
