//! Tells a host from a router that answers for addresses of others, and both from a silent host.

use std::{
    collections::BTreeSet,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use ipnet::IpNet;
use vipward_common::{MacAddr, ND_OVERRIDE};

use super::Answerer;
use crate::{
    base::address::{self, mix},
    segment::frame::Frame,
};

/// Number of addresses that no host should have. A host may have one of them all the same.
const CONTROLS: usize = 2;
/// Number of addresses that are tried for them.
const TRIED: u64 = 64;

/// Requests to one MAC, and what it answered.
///
/// - A host answers a probe, which has no sender address. Linux does not for another's address
///   (`arp_process`).
/// - A host answers for its own addresses, and not for any other of the subnet.
/// - An advertisement of a proxy lacks the flag Override (RFC 4861, 7.2.8).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Telling {
    /// The MAC that is asked.
    pub mac: MacAddr,
    pub address: IpAddr,
    /// This host's address for requests.
    pub source: Option<IpAddr>,
    /// Addresses that no host should have.
    pub controls: Vec<IpAddr>,
    answers: bool,
    answers_as_owner: bool,
    answers_as_proxy: bool,
    answered_controls: BTreeSet<IpAddr>,
}

impl Telling {
    pub fn new(mac: MacAddr, address: IpAddr, source: Option<IpAddr>, controls: Vec<IpAddr>) -> Self {
        Self {
            mac,
            address,
            source,
            controls,
            answers: false,
            answers_as_owner: false,
            answers_as_proxy: false,
            answered_controls: BTreeSet::new(),
        }
    }

    /// Returns the requests of one round, from the interface's MAC.
    pub fn questions(&self, own: MacAddr) -> Vec<Frame> {
        let to = |source, address| Frame::questions_to(self.mac, own, source, address);
        let as_client = to(self.source, self.address);
        let probe = match (self.address, self.source) {
            (IpAddr::V4(_), Some(_)) => to(None, self.address),
            (IpAddr::V4(_), None) | (IpAddr::V6(_), _) => Vec::new(),
        };
        let controls = self.controls.iter().flat_map(|control| to(self.source, *control));
        as_client.into_iter().chain(probe).chain(controls).collect()
    }

    pub fn on_frame(&mut self, frame: &Frame) {
        let Some(said) = frame.said().filter(|said| said.is_answer && said.mac == self.mac) else { return };
        let Some(claimed) = said.claimed else { return };
        if claimed != self.address {
            if self.controls.contains(&claimed) {
                self.answered_controls.insert(claimed);
            }
            return;
        }
        match frame {
            Frame::Arp(frame) if frame.tpa() != Ipv4Addr::UNSPECIFIED.octets() => self.answers = true,
            // An agent on this host may probe by broadcast meanwhile, which a proxy answers.
            Frame::Arp(_) => {
                self.answers |= self.source.is_none();
                self.answers_as_owner = true;
            }
            Frame::Nd(frame) => {
                self.answers = true;
                let overrides = frame.flags() & ND_OVERRIDE != 0;
                self.answers_as_owner |= overrides;
                self.answers_as_proxy |= !overrides && frame.link_layer().is_some();
            }
        }
    }

    /// Returns true if no later answer to these requests should change the finding.
    pub fn is_settled(&self) -> bool {
        self.answers_as_owner || self.answered_controls.len() == CONTROLS
    }

    /// Returns the finding, by the answers so far.
    pub fn answerer(&self) -> Answerer {
        let for_all = !self.controls.is_empty() && self.answered_controls.len() == self.controls.len();
        let not_as_owner = match self.address {
            IpAddr::V4(_) => self.source.is_some() && !self.answers_as_owner,
            IpAddr::V6(_) => self.answers_as_proxy && !self.answers_as_owner,
        };
        match self.answers {
            false => Answerer::Proxy,
            true if for_all || not_as_owner => Answerer::Router,
            true => Answerer::Host,
        }
    }
}

/// Returns addresses of a VIP's subnet that no host should have: none of `is_used`, and none near each
/// other. They are always the same ones.
pub fn controls(vip: IpAddr, subnet: IpNet, is_used: impl Fn(IpAddr) -> bool) -> Vec<IpAddr> {
    let host_bits = u32::from(subnet.max_prefix_len() - subnet.prefix_len());
    if host_bits < 2 || !subnet.contains(&vip) {
        return Vec::new();
    }
    let mask = u128::MAX.checked_shl(host_bits).map_or(u128::MAX, |mask| !mask);
    let candidate = |number: u64| {
        let chance = mix(address::number(vip) ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let offset = u128::from(chance) & mask;
        let address = match subnet.network() {
            IpAddr::V4(network) => {
                let offset = u32::try_from(offset).ok()?;
                IpAddr::from(Ipv4Addr::from_bits(network.to_bits() | offset))
            }
            IpAddr::V6(network) => IpAddr::from(Ipv6Addr::from_bits(network.to_bits() | offset)),
        };
        let is_hosts = address != subnet.network() && address != subnet.broadcast() && address != vip;
        (is_hosts && !is_used(address)).then_some(address)
    };
    let mut controls = Vec::new();
    for address in (1..=TRIED).filter_map(candidate) {
        if controls.len() < CONTROLS && !controls.contains(&address) {
            controls.push(address);
        }
    }
    if controls.len() < CONTROLS { Vec::new() } else { controls }
}
