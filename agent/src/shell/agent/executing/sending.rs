//! Sends announcements of held VIPs, and probes.

use std::{
    collections::BTreeSet,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use tracing::{debug, warn};
use vipward_common::{MacAddr, VipKey};
use vipward_core::{
    agent::{Outcome, Shared},
    segment::{announce::Command, frame::Frame, rivals::Hold},
};

use crate::shell::{
    agent::event_loop::EventLoop,
    kernel::{
        bpf::{BpfError, DataPlane, Maps},
        clock,
        packet::{PacketError, Sent},
    },
    logging::errors::chain,
};

impl EventLoop {
    /// Sends an announcement if the maps show that this node holds the VIP. Sends nothing if they
    /// cannot be read.
    pub(super) fn announce(
        &mut self,
        command: Command,
        is_taken_back: bool,
        shared_state: &mut SharedState,
    ) -> Option<Outcome> {
        let (Command::Send { key, mac, .. } | Command::Repeat { key, mac, .. }) = command;
        let vip = key.addr;
        let yields_settled = self.agent.host().yields_settled();
        let maps = self.plane.maps();
        let shared = shared_state.shared(&self.plane, yields_settled);
        let is_held = || shared.is_some_and(|shared| is_held(&shared, maps, key, mac, is_taken_back));
        let round = match command {
            Command::Send { round, .. } => round,
            Command::Repeat { former, .. } => {
                // The segment has received the announcement; the next repeat or refresh is another try.
                if is_held() && self.packets.repeat_to(key.ifindex, former, mac, vip).is_err() {
                    self.metrics.announcements.failed();
                }
                return None;
            }
        };
        let interface = self.name(key.ifindex);
        match self.packets.send(key.ifindex, mac, vip, is_held) {
            Ok(Sent::Both) => {
                self.metrics.announcements.sent(vip);
                debug!(%vip, interface, %mac, %round, "the VIP is announced");
                return Some(Outcome::Announced { key, round });
            }
            Ok(Sent::Stopped { .. }) => {
                self.metrics.announcements.stopped();
                let why = "it is not held, or the lease deadline has passed";
                debug!(%vip, interface, why, "the VIP is not announced");
            }
            // The carrier's return, or the next refresh, announces again.
            Err(error) => {
                self.metrics.announcements.failed();
                warn!(%vip, interface, error = chain(&error), "the VIP is not announced");
            }
        }
        None
    }

    /// Probes a VIP that this node holds. A node that has lost it does not probe from its address.
    pub(super) fn probe_held(&mut self, key: VipKey, is_taken_back: bool, shared_state: &mut SharedState) {
        let Some(mac) = self.agent.view().interfaces.get(&key.ifindex).map(|interface| interface.mac) else {
            return;
        };
        let shared = shared_state.shared(&self.plane, self.agent.host().yields_settled());
        if shared.is_some_and(|shared| is_held(&shared, self.plane.maps(), key, mac, is_taken_back)) {
            self.probe(key, self.source_for(key));
        }
    }

    /// Asks a host by unicast in the name of each VIP that this node holds, and then in the name of its own
    /// address. A host that answers the last question has room for the others. Returns the VIPs in whose names
    /// a question was sent.
    pub(super) fn ask_as(
        &self,
        (ifindex, host, mac): (u32, IpAddr, MacAddr),
        vips: Vec<IpAddr>,
        own: IpAddr,
        shared_state: &mut SharedState,
    ) -> BTreeSet<IpAddr> {
        let mut sent = BTreeSet::new();
        let maps = self.plane.maps();
        let Some(interface) = self.agent.view().interfaces.get(&ifindex) else { return sent };
        let Some(shared) = shared_state.shared(&self.plane, self.agent.host().yields_settled()) else {
            return sent;
        };
        let is_taken_back = |vip| self.agent.segment().is_taken_back(vip);
        let is_held = |vip: &IpAddr| {
            is_held(&shared, maps, VipKey::new(ifindex, *vip), interface.mac, is_taken_back(*vip))
        };
        let ask = |source: IpAddr| {
            let sent = self.packets.question_to(ifindex, (mac, host), interface.mac, source);
            let failed = |error: &PacketError| {
                debug!(%source, %host, interface = %interface.name, error = chain(error), "no question left");
            };
            sent.inspect_err(failed).is_ok()
        };
        sent.extend(vips.into_iter().filter(|vip| is_held(vip) && ask(*vip)));
        let is_vip = || !matches!(maps.entry(&VipKey::new(ifindex, own)), Ok(None));
        if own == sender_of_probes(host) || interface.has(own) && !is_vip() {
            ask(own);
        }
        sent
    }

    /// States to a peer which of these VIPs this node holds.
    pub(super) fn state_holds(
        &self,
        (ifindex, to): (u32, MacAddr),
        mut holds: Vec<Hold>,
        shared_state: &mut SharedState,
    ) {
        let Some(mac) = self.agent.view().interfaces.get(&ifindex).map(|interface| interface.mac) else {
            return;
        };
        let yields_settled = self.agent.host().yields_settled();
        let Some(shared) = shared_state.shared(&self.plane, yields_settled) else { return };
        holds.retain(|(vip, _)| {
            let is_taken_back = self.agent.segment().is_taken_back(*vip);
            is_held(&shared, self.plane.maps(), VipKey::new(ifindex, *vip), mac, is_taken_back)
        });
        if !holds.is_empty()
            && let Err(error) = self.packets.state(ifindex, to, mac, &holds)
        {
            debug!(interface = self.name(ifindex), %to, error = %error, "the holds are not stated");
        }
    }

    /// Returns the source address of a request for a held VIP. Without one, a rival's answer about an
    /// IPv6 address would go to all hosts, and they would believe it.
    fn source_for(&self, key: VipKey) -> Option<IpAddr> {
        let interfaces = &self.agent.view().interfaces;
        let interface = interfaces.get(&key.ifindex).filter(|_| key.addr.is_ipv6())?;
        let entry = |vip| self.plane.maps().entry(&VipKey::new(key.ifindex, vip));
        interface.source_for(key.addr, |vip| !matches!(entry(vip), Ok(None)))
    }

    /// Asks a host for an address by unicast. Returns true if the request was sent.
    pub(super) fn ask_host(&self, key: VipKey, mac: MacAddr) -> bool {
        let Some(interface) = self.agent.view().interfaces.get(&key.ifindex) else { return false };
        let vip = key.addr;
        let is_vip =
            |address| !matches!(self.plane.maps().entry(&VipKey::new(key.ifindex, address)), Ok(None));
        let source = interface.source_for(vip, is_vip);
        let questions = Frame::questions_to(mac, interface.mac, source, vip);
        if questions.is_empty() {
            debug!(%vip, %mac, "the host is not asked: the interface has no address of that family");
            return false;
        }
        match questions.iter().try_for_each(|question| self.packets.ask(key.ifindex, vip, question)) {
            Ok(()) => {
                debug!(%vip, interface = %interface.name, %mac, "the host is asked by unicast");
                true
            }
            Err(error) => {
                warn!(%vip, interface = %interface.name, error = chain(&error), "the host is not asked");
                false
            }
        }
    }

    /// Sends a probe for an address, or a request from `source`. Returns true if it was sent.
    pub(super) fn probe(&self, key: VipKey, source: Option<IpAddr>) -> bool {
        let Some(interface) = self.agent.view().interfaces.get(&key.ifindex) else { return false };
        let vip = key.addr;
        match self.packets.probe(key.ifindex, interface.mac, vip, source) {
            Ok(()) => {
                debug!(%vip, interface = %interface.name, "the address is probed");
                true
            }
            Err(error) => {
                warn!(%vip, interface = %interface.name, error = chain(&error), "the address is not probed");
                false
            }
        }
    }
}

/// The pinned state that all VIPs share, read once for those that are announced together.
#[derive(Default)]
pub(in crate::shell::agent) enum SharedState {
    #[default]
    Unread,
    Unreadable,
    Read(Shared),
}

impl SharedState {
    /// Returns the state, or none if it cannot be read.
    fn shared(&mut self, plane: &DataPlane, yields_settled: u64) -> Option<Shared> {
        if let Self::Unread = self {
            *self = read(plane.maps(), yields_settled).map_or(Self::Unreadable, Self::Read);
        }
        match self {
            Self::Read(shared) => Some(*shared),
            Self::Unread | Self::Unreadable => None,
        }
    }
}

fn read(maps: &Maps, yields_settled: u64) -> Result<Shared, BpfError> {
    let has_yielded = maps.yields()?.total != yields_settled;
    Ok(Shared { lease_deadline: maps.lease_deadline()?, notified: maps.wire().expiry_notice()?, has_yielded })
}

/// Returns true if the pinned maps allow this node to announce a VIP with `mac` now.
fn is_held(shared: &Shared, maps: &Maps, key: VipKey, mac: MacAddr, is_taken_back: bool) -> bool {
    let held = || {
        let now_ns = clock::monotonic_ns().ok()?;
        let entry = maps.entry(&key).ok()??;
        let record = || maps.state(entry.slot).ok().map(|state| state.yielded);
        Some(shared.may_announce(&entry, record, mac, is_taken_back, now_ns))
    };
    held().unwrap_or(false)
}

/// Returns the sender of a question without a source.
pub(super) const fn sender_of_probes(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    }
}
