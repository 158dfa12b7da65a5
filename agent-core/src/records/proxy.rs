//! The statement about a node's service proxy (kube-proxy, Cilium) in its Lease.

use std::{collections::BTreeMap, fmt};

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

/// The state of a proxy, for the ready endpoints of one Service on its node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Delivers {
    Yes,
    /// The port could not be reached for too long. The proxy may have stopped.
    Unreached,
    /// The port was not reached yet. A Lease does not state it: to other nodes, it is a no.
    Unanswered,
    No,
    /// No port of this proxy has ever been reached. It may have none.
    Silent,
    Starting,
}

/// The state of a node's proxy. Without a statement, the `EndpointSlice`s alone count.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Proxy {
    /// It has not been healthy since the node booted.
    Starting,
    /// No port was ever reached, and one for too long.
    Silent,
    /// Its ports, each with [`Delivers::Yes`], `Unreached` or `Unanswered`. It does not deliver for others.
    Delivers(BTreeMap<HealthPort, Delivers>),
}

impl Proxy {
    /// Reads the text of [`Display`](fmt::Display). Returns none for one that no agent writes.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "starting" => Some(Self::Starting),
            "?" => Some(Self::Silent),
            "" => Some(Self::Delivers(BTreeMap::new())),
            ports => {
                let parse = |text: &str| match text.strip_suffix('?') {
                    Some(port) => Some((HealthPort::parse(port)?, Delivers::Unreached)),
                    None => Some((HealthPort::parse(text)?, Delivers::Yes)),
                };
                let ports: Option<BTreeMap<_, _>> = ports.split(',').map(parse).collect();
                ports.filter(|ports| ports.len() <= MOST_PORTS).map(Self::Delivers)
            }
        }
    }

    /// Returns what a node's statement says of a Service with this port, or with none.
    pub(crate) fn delivers(stated: Option<&Self>, port: Option<HealthPort>) -> Delivers {
        match (stated, port) {
            (Some(Self::Starting), _) => Delivers::Starting,
            (None, _) | (Some(Self::Silent | Self::Delivers(_)), None) => Delivers::Yes,
            (Some(Self::Silent), Some(_)) => Delivers::Silent,
            (Some(Self::Delivers(ports)), Some(port)) => ports.get(&port).copied().unwrap_or(Delivers::No),
        }
    }

    /// Returns the part that a Lease states.
    pub(crate) fn stated(&self) -> Self {
        let mut stated = self.clone();
        if let Self::Delivers(ports) = &mut stated {
            ports.retain(|_, delivers| *delivers != Delivers::Unanswered);
        }
        stated
    }
}

impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Starting => f.write_str("starting"),
            Self::Silent => f.write_str("?"),
            Self::Delivers(ports) => {
                let text = |(port, delivers): (&HealthPort, &Delivers)| match delivers {
                    Delivers::Unreached => format!("{port}?"),
                    _ => port.to_string(),
                };
                f.write_str(&ports.iter().map(text).collect::<Vec<_>>().join(","))
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
            Proxy::Delivers(ports.iter().map(|of| (port(of), Delivers::Yes)).collect())
        };
        let six = HealthPort { number: 30_001, is_ipv6: true };
        let table = [
            ("starting", Some(Proxy::Starting)),
            ("", Some(ports(&[]))),
            ("30001", Some(ports(&[(30_001, false)]))),
            ("30001,30001/6,31000", Some(ports(&[(30_001, false), (30_001, true), (31_000, false)]))),
            ("?", Some(Proxy::Silent)),
            ("30001/6?", Some(Proxy::Delivers([(six, Delivers::Unreached)].into()))),
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
