//! What a node states in its Lease about its service proxy (kube-proxy, Cilium).

use std::{collections::BTreeSet, fmt};

/// Largest number of ports in a Lease. A node with more states nothing.
pub const MOST_PORTS: usize = 512;

/// `spec.healthCheckNodePort` of a Service, in one family. A proxy answers there for each family.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct HealthPort {
    pub number: u16,
    pub is_ipv6: bool,
}

impl HealthPort {
    /// The least one in the order.
    pub(crate) const FIRST: Self = Self { number: 0, is_ipv6: false };

    fn parse(text: &str) -> Option<Self> {
        let (number, is_ipv6) = match text.strip_suffix("/6") {
            Some(number) => (number, true),
            None => (text, false),
        };
        Some(Self { number: number.parse().ok()?, is_ipv6 })
    }
}

impl fmt::Display for HealthPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.number, if self.is_ipv6 { "/6" } else { "" })
    }
}

/// The state of a node's proxy. Without a statement, the `EndpointSlice`s alone count.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Proxy {
    /// It has not been healthy since the node booted.
    Starting,
    /// It delivers to the node's ready endpoints of the Services with these ports.
    Delivers(BTreeSet<HealthPort>),
}

impl Proxy {
    /// Reads the text of [`Display`](fmt::Display). Returns none for one that no agent writes.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "starting" => Some(Self::Starting),
            "" => Some(Self::Delivers(BTreeSet::new())),
            ports => {
                let ports: Option<BTreeSet<_>> = ports.split(',').map(HealthPort::parse).collect();
                ports.filter(|ports| ports.len() <= MOST_PORTS).map(Self::Delivers)
            }
        }
    }

    /// Returns true if it delivers to a ready endpoint of the node.
    pub(crate) fn delivers(&self, port: Option<HealthPort>) -> bool {
        match self {
            Self::Starting => false,
            Self::Delivers(ports) => port.is_none_or(|port| ports.contains(&port)),
        }
    }

    /// Returns true if two statements differ for a port.
    pub(crate) fn differ(one: Option<&Self>, other: Option<&Self>, port: Option<HealthPort>) -> bool {
        let starts = |proxy: Option<&Self>| proxy == Some(&Self::Starting);
        let delivers = |proxy: Option<&Self>| proxy.is_none_or(|proxy| proxy.delivers(port));
        starts(one) != starts(other) || delivers(one) != delivers(other)
    }
}

impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Starting => f.write_str("starting"),
            Self::Delivers(ports) => {
                f.write_str(&ports.iter().map(HealthPort::to_string).collect::<Vec<_>>().join(","))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_read_as_it_was_written() {
        let ports = |ports: &[(u16, bool)]| {
            let port = |(number, is_ipv6): &(u16, bool)| HealthPort { number: *number, is_ipv6: *is_ipv6 };
            Proxy::Delivers(ports.iter().map(port).collect())
        };
        let table = [
            ("starting", Some(Proxy::Starting)),
            ("", Some(ports(&[]))),
            ("30001", Some(ports(&[(30_001, false)]))),
            ("30001,30001/6,31000", Some(ports(&[(30_001, false), (30_001, true), (31_000, false)]))),
            ("30001,", None),
            ("70000", None),
            ("good", None),
        ];
        for (text, proxy) in table {
            assert_eq!(Proxy::parse(text), proxy, "{text}");
            if let Some(proxy) = proxy {
                assert_eq!(proxy.to_string(), text);
            }
        }
        let many: Vec<_> = (0..=MOST_PORTS).map(|port| port.to_string()).collect();
        assert_eq!(Proxy::parse(&many.join(",")), None, "too many");
    }
}
