//! A host on one segment for the tests of the parts, and a source that has one answer for all VIPs.

use std::{net::IpAddr, time::Duration};

use vipward_common::{Event, EventKind, MacAddr, OPER_REPLY, Role, VipEntry};

use super::segment::{Authority, Context, Settings};
use crate::{
    base::{
        samples::{HOLDER, key},
        time::Monotonic,
    },
    host::{
        net::{ConnectedRoute, Interface, NetView, Vital},
        stale::Stale,
    },
    segment::{announce, conflict, conflict::Right, probing},
};

/// The interface of [`key`].
pub(super) const ETH0: u32 = 3;
/// An interface without a subnet.
pub(super) const ETH1: u32 = 4;
pub(super) const PEER: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);
pub(super) const SETTINGS: Settings = Settings {
    announce: announce::Settings { refresh: Duration::from_mins(1), rate: 1_000 },
    probe: probing::Settings::DEFAULT,
    conflicts: conflict::Settings::DEFAULT,
};

pub(super) fn at(millis: u64) -> Monotonic {
    Monotonic::from_nanos(millis * 1_000_000)
}

pub(super) fn entry(role: Role, mac: MacAddr, generation: u16) -> VipEntry {
    VipEntry { mac: mac.0, generation, role, slot: 0, until_ns: 0 }
}

/// Returns an event about a VIP, with which this node has to do as its holder.
pub(super) fn event_about(host: u16, kind: EventKind, mac: MacAddr) -> Event {
    let IpAddr::V4(vip) = key(host).addr else { panic!("invariant: of IPv4") };
    Event {
        at_ns: 0,
        swallowed: 0,
        kind,
        ifindex: ETH0,
        oper: OPER_REPLY,
        vip: vip.to_ipv6_mapped().octets(),
        sha: mac.0,
        source: mac.0,
        holder: HOLDER.0,
        _pad: [0; 4],
    }
}

/// The source's answer for all VIPs.
#[expect(clippy::struct_excessive_bools, reason = "answers that do not depend on each other")]
pub(super) struct Source {
    pub(super) right: Right,
    pub(super) may_take_back: bool,
    pub(super) must_be_free: bool,
    pub(super) is_forced: bool,
    pub(super) is_vacant: bool,
    pub(super) is_known: bool,
    pub(super) may_begin: bool,
    pub(super) vital: Option<Vital>,
}

impl Authority for Source {
    fn right(&self, _vip: IpAddr, _mac: MacAddr, _now: Monotonic) -> Right {
        self.right
    }

    fn may_take_back(&self, _vip: IpAddr) -> bool {
        self.may_take_back
    }

    fn must_be_free(&self, _vip: IpAddr) -> bool {
        self.must_be_free
    }

    fn settles_by_age(&self) -> bool {
        self.right == Right::NoClaims
    }

    fn is_forced(&self, _vip: IpAddr) -> bool {
        self.is_forced
    }

    fn is_vacant(&self, _vip: IpAddr) -> bool {
        self.is_vacant
    }

    fn is_known(&self) -> bool {
        self.is_known
    }

    fn may_begin_answering(&self, _now: Monotonic) -> bool {
        self.may_begin
    }

    fn must_receive(&self) -> Option<Vital> {
        self.vital.clone()
    }
}

/// All that an input is judged by.
pub(super) struct Site {
    pub(super) view: NetView,
    pub(super) stale: Stale,
    pub(super) source: Source,
    pub(super) millis: u64,
}

impl Site {
    /// Returns a host whose first interface is in the VIPs' subnet. Its source wants each address free.
    pub(super) fn new() -> Self {
        let eth0 = Interface { mac: HOLDER, ..Interface::sample(ETH0, "eth0") };
        let interfaces = [(ETH0, eth0), (ETH1, Interface::sample(ETH1, "eth1"))].into();
        let prefix = "10.0.0.0/16".parse().expect("a subnet");
        let routes = vec![ConnectedRoute { prefix, interface: ETH0, metric: 0 }];
        let source = Source {
            right: Right::NoClaims,
            may_take_back: true,
            must_be_free: true,
            is_forced: false,
            is_vacant: false,
            is_known: true,
            may_begin: true,
            vital: None,
        };
        let view = NetView { interfaces, routes, ..NetView::default() };
        Self { view, stale: Stale::default(), source, millis: 0 }
    }

    pub(super) fn now(&self) -> Monotonic {
        at(self.millis)
    }

    pub(super) fn context(&self) -> Context<'_> {
        let Self { view, stale, source, .. } = self;
        Context { view, peers: &[PEER], stale, authority: source, now: self.now() }
    }

    pub(super) fn interface(&mut self, ifindex: u32) -> &mut Interface {
        self.view.interfaces.get_mut(&ifindex).expect("invariant: the host has it")
    }
}
