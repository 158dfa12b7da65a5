//! The two families of addresses, so that one test runs in both.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Family {
    /// IPv4, with ARP.
    V4,
    /// IPv6, with neighbour discovery.
    V6,
}

impl Family {
    pub const BOTH: [Self; 2] = [Self::V4, Self::V6];

    pub const fn of(address: IpAddr) -> Self {
        if address.is_ipv4() { Self::V4 } else { Self::V6 }
    }

    /// Returns the address with this last byte in the test network, 192.0.2.0/24 or `2001:db8::/64`. In
    /// IPv6 it is the last byte in decimal digits: 10 is `2001:db8::10`.
    pub fn ip(self, last: u8) -> IpAddr {
        let [hundreds, tens, ones] = [last / 100, last / 10 % 10, last % 10].map(u16::from);
        match self {
            Self::V4 => Ipv4Addr::new(192, 0, 2, last).into(),
            Self::V6 => Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, hundreds << 8 | tens << 4 | ones).into(),
        }
    }

    /// Returns that address with the prefix length of its network.
    pub fn net(self, last: u8) -> IpNet {
        let len = if self == Self::V4 { 24 } else { 64 };
        IpNet::new(self.ip(last), len).expect("invariant: the length fits the family")
    }

    /// Returns the VIP of most tests.
    pub fn vip(self) -> IpAddr {
        self.ip(10)
    }

    /// Returns that VIP of both families.
    pub fn vips() -> [IpAddr; 2] {
        Self::BOTH.map(Self::vip)
    }

    /// Returns the address that stands for none.
    pub const fn unspecified(self) -> IpAddr {
        match self {
            Self::V4 => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            Self::V6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        }
    }

    /// Returns the name of a neighbour's setting below /proc/sys.
    pub fn neighbour_sysctl(self, interface: &str, setting: &str) -> String {
        let family = if self == Self::V4 { "ipv4" } else { "ipv6" };
        format!("net/{family}/neigh/{interface}/{setting}")
    }
}
