//! Asks a host by unicast, to tell it from a router and from a proxy.

use std::{net::IpAddr, time::Duration};

use tokio::time::{Instant, sleep_until};
use vipward_common::{MacAddr, VipKey};
use vipward_core::{
    host::net::NetView,
    segment::confirming::{Answerer, Telling, controls},
};

use super::segment::{Receiving, Segment, SegmentError};

/// Number of rounds of requests.
const ROUNDS: u32 = 3;
/// Time between two rounds.
const INTERVAL: Duration = Duration::from_millis(250);
/// Time from the last round to the end. Hosts that save power answer late.
const PATIENCE: Duration = Duration::from_secs(2);

/// The requests, and where they are sent. The answers are received by a socket of its own, which ends with
/// the task.
#[derive(Debug)]
pub struct Asking {
    ifindex: u32,
    interface: String,
    own: MacAddr,
    telling: Telling,
}

impl Asking {
    /// Returns the requests to the host with this MAC about an address. `used` has the addresses of
    /// neighbours. Returns none if the interface is gone.
    pub fn of(
        view: &NetView,
        key: VipKey,
        mac: MacAddr,
        used: &[IpAddr],
        is_vip: impl Fn(IpAddr) -> bool,
    ) -> Option<Self> {
        let interface = view.interfaces.get(&key.ifindex)?;
        let is_own =
            |address| view.interfaces.values().any(|it| it.addresses.iter().any(|net| net.addr() == address));
        let is_used = |address| {
            used.contains(&address) || view.next_hops.contains(&address) || is_own(address) || is_vip(address)
        };
        let subnets = view.routes.iter().filter(|route| route.interface == key.ifindex);
        let subnets = subnets.map(|route| route.prefix).filter(|prefix| prefix.contains(&key.addr));
        let subnet = subnets.max_by_key(ipnet::IpNet::prefix_len);
        let controls = subnet.map(|subnet| controls(key.addr, subnet, is_used)).unwrap_or_default();
        let source = interface.source_for(key.addr, &is_vip);
        Some(Self {
            ifindex: key.ifindex,
            interface: interface.name.clone(),
            own: interface.mac,
            telling: Telling::new(mac, key.addr, source, controls),
        })
    }

    /// Returns true if the interface has an address that requests for the address can have.
    pub fn has_source(&self) -> bool {
        self.telling.source.is_some()
    }

    /// Sends the requests, and returns the finding. Takes up to three seconds.
    pub async fn run(mut self) -> Result<Answerer, SegmentError> {
        let receiving = if self.telling.address.is_ipv4() { Receiving::Arp } else { Receiving::Nd };
        let segment = Segment::open(self.ifindex, &self.interface, receiving)?;
        let questions = self.telling.questions(self.own);
        for round in 1..=ROUNDS {
            questions.iter().try_for_each(|question| segment.send(question))?;
            let end = Instant::now() + if round == ROUNDS { PATIENCE } else { INTERVAL };
            loop {
                tokio::select! {
                    // The end comes first, or a flood of frames would put it off.
                    biased;
                    () = sleep_until(end) => break,
                    frame = segment.receive() => self.telling.on_frame(&frame?),
                }
                if round == ROUNDS && self.telling.is_settled() {
                    break;
                }
            }
        }
        Ok(self.telling.answerer())
    }
}
