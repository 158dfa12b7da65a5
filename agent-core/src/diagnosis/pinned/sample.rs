//! Sample of the pinned state for tests. A test changes the part that it examines.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    path::PathBuf,
};

use vipward_common::{
    Counters, DEFAULT_MAX_VIPS, Defence, LeaseDeadline, MacAddr, Policy, Proof, Role, VipCounters, VipKey,
};

use super::{Contents, Entry, LinkIds, PinnedLink, Plane, State, Wire};
use crate::{
    diagnosis::fact::Fact,
    host::{
        attaching::Mode,
        net::{Interface, NetView},
    },
    liveness::{Counts, Thread, Traffic},
    ownership::{WireNodeView, WireView},
};

const SECOND_NS: u64 = 1_000_000_000;

impl State {
    pub const SAMPLE_IFINDEX: u32 = 2;
    pub const SAMPLE_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
    /// The peer on the interface of the sample, which holds the other VIP.
    pub const SAMPLE_PEER: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);

    /// Returns the state 100 s after the machine's start. On eth0, this host answers for
    /// 192.0.2.10, and a peer has 192.0.2.11. The lease deadline is in 3 s. The grace period after
    /// it lasts an hour.
    pub fn sample() -> Self {
        let ids = LinkIds { link: Some(7), program: 40 };
        let interface =
            Interface { xdp_programs: vec![ids.program], ..Interface::sample(Self::SAMPLE_IFINDEX, "eth0") };
        let now_ns = 100 * SECOND_NS;
        Self {
            dir: PathBuf::from("/sys/fs/bpf/vipward"),
            links: BTreeMap::from([(interface.index, (Mode::Native, ids))]),
            contents: Contents {
                now_ns,
                lease_deadline: LeaseDeadline {
                    deadline_ns: now_ns + 3 * SECOND_NS,
                    grace_until_ns: now_ns + 3_600 * SECOND_NS,
                    yields_settled: 0,
                    session: 0,
                    notices_settled: 0,
                    policy: Policy::Hold,
                    defence: Defence::Match,
                },
                entries: vec![
                    Entry::sample([192, 0, 2, 10], Role::Held, Self::SAMPLE_MAC),
                    Entry::sample([192, 0, 2, 11], Role::Foreign, Self::SAMPLE_PEER),
                ],
                max_vips: DEFAULT_MAX_VIPS,
                vlans: BTreeMap::new(),
                own_macs: BTreeMap::from([(interface.index, interface.mac)]),
                proofs: BTreeMap::from([(interface.index, Proof::Proven)]),
                twins: BTreeMap::new(),
                peers: BTreeSet::from([(interface.index, Self::SAMPLE_PEER)]),
                counters: Counters::default(),
                counters_v6: Counters::default(),
                wire: Wire::default(),
                yields: 0,
            },
            network: NetView {
                interfaces: BTreeMap::from([(interface.index, interface)]),
                ..NetView::default()
            },
        }
    }

    /// Takes the state apart into its plane and the interfaces.
    pub fn into_parts(self) -> (Plane, NetView) {
        let link = |(ifindex, (mode, ids))| PinnedLink { ifindex, mode, ids: Fact::Read(ids) };
        let links = self.links.into_iter().map(link).collect();
        (Plane { missing: Vec::new(), links, contents: Fact::Read(self.contents) }, self.network)
    }
}

impl Contents {
    /// Returns the contents of the sample with other entries.
    pub fn sample(entries: Vec<Entry>) -> Self {
        Self { entries, ..State::sample().contents }
    }

    /// Moves the lease deadline into the past. Under the policy `hold`, the grace period has begun.
    pub fn pass_deadline(&mut self) {
        self.now_ns = self.lease_deadline.deadline_ns;
    }

    /// Moves the lease deadline and the end of the grace period into the past.
    pub fn pass_hold(&mut self) {
        self.now_ns = self.lease_deadline.grace_until_ns;
    }
}

impl Entry {
    /// Returns an entry on the interface of the sample. Its counters are zero.
    pub fn sample(address: impl Into<IpAddr>, role: Role, mac: MacAddr) -> Self {
        let key = VipKey::new(State::SAMPLE_IFINDEX, address.into());
        Self { key, role, mac, yielded: false, fault: None, count: Some(VipCounters::default()) }
    }
}

impl WireView {
    /// Returns the view of a node that takes part, with the monitors n2 and n3. It votes about n2.
    pub fn sample() -> Self {
        let node = |node: &str, session: &str, watched| WireNodeView {
            node: node.to_owned(),
            session: session.to_owned(),
            watched,
            pings: true,
            unresponsive: false,
        };
        Self {
            scale: 2,
            unresponsive_after_seconds: 0.6,
            wid: Some("0000000000000001".to_owned()),
            key: Some(1),
            quiet: None,
            round: 1,
            invited: vec!["n2".to_owned(), "n3".to_owned()],
            set: vec!["n2".to_owned(), "n3".to_owned()],
            quorum: 2,
            slow_for_seconds: None,
            one_way: Vec::new(),
            without_contact: Vec::new(),
            nodes: vec![node("n2", "02", true), node("n3", "03", false)],
        }
    }
}

impl Thread {
    /// Returns the thread of that node. It has counted nothing.
    pub fn sample(peers: Vec<Traffic>) -> Self {
        Self {
            not_first: None,
            not_locked: None,
            peers,
            counts: Counts::default(),
            frames_unsent: 0,
            frames_refused: 0,
            peers_left_out: 0,
        }
    }
}

impl Traffic {
    /// Returns the traffic with n2.
    pub fn sample() -> Self {
        Self {
            session: "02".to_owned(),
            answered_seconds_ago: Some(0.05),
            round_trip_seconds: Some(0.0003),
            sent: 1_000,
            lost: 3,
        }
    }
}
