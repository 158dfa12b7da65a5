//! The examples in docs/reference/json.

use std::net::{IpAddr, Ipv4Addr};

use vipward_common::{EventKind, MacAddr, Offender, OffenderKey, VipKey};
use vipward_core::{
    diagnosis::{
        explain::{Attached, Explanation, ServiceExplanation, link},
        finding::{self, Finding},
        live::Change,
        overview::{MoveRow, NodeRow, Overview, VipRow, VipState},
        pinned::{On, State, Status, WireReceived, WireStatus},
        who_has::{self, Latency, Relation, Row, Seen},
    },
    host::{
        answering::{Part, Silence, Waiting},
        attaching::Mode,
        net::InterfaceFault,
    },
    pools::{AddressRow, FamilyRow, PoolList, PoolRow},
};

use crate::shell::commands::doctor::Report;

const VIP: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 10));
const UNKNOWN_HOST: MacAddr = MacAddr([2, 0, 0, 0, 0, 0x66]);

fn text(text: &str) -> String {
    text.to_owned()
}

pub(super) fn who_has() -> who_has::Report {
    let latency =
        Latency { first_seconds: 0.00025, min_seconds: 0.00021, max_seconds: 0.0003, coarse: false };
    let row = Row {
        order: 1,
        mac: State::SAMPLE_PEER.to_string(),
        vendor: text("locally administered"),
        relation: Relation::Holder,
        seen: Seen::Wire,
        answering: true,
        silent_because: None,
        ethernet_source: None,
        answered: 3,
        first: 3,
        replies: 3,
        announcements: 0,
        latency: Some(latency),
    };
    who_has::Report {
        address: IpAddr::from([192, 0, 2, 10]),
        interface: text("eth0"),
        vlan: None,
        ifindex: State::SAMPLE_IFINDEX,
        asked_from: State::SAMPLE_MAC.to_string(),
        questions: 3,
        timeout_seconds: 1.0,
        verdict: who_has::Verdict::One,
        answers: vec![row],
        probing: Vec::new(),
        agent: true,
        expected: Some(State::SAMPLE_PEER.to_string()),
        notes: Vec::new(),
        vendors_of: "2026-10-17",
    }
}

pub(super) fn explain() -> Explanation {
    let remedy =
        text("start the agent again, or see in its log why it cannot renew (no API server, no CPU time)");
    let because = text("the driver has no native XDP; each answer costs more");
    let step = Finding {
        subject: link::LEASE_DEADLINE,
        interface: None,
        state: finding::State::Red,
        found: text("over since 5s: it is not answered"),
        details: Vec::new(),
        remedy: Some(remedy.clone()),
    };
    Explanation {
        address: VIP,
        broken: Some(link::LEASE_DEADLINE),
        remedy: Some(remedy),
        attached: Some(Attached { interface: text("eth0"), mode: Mode::Tc, because: Some(because) }),
        steps: vec![step],
    }
}

pub(super) fn explain_service() -> ServiceExplanation {
    let remedy = text("the reason names the remedy; the address then comes by itself");
    let step = Finding {
        subject: link::POOL,
        interface: None,
        state: finding::State::Red,
        found: text(
            "no IPv4 address is free in VIPPool lan; add addresses to one of them, or release some (vipward pools)",
        ),
        details: vec![text("VIPPool lan: serves it with priority 0, 0 of 30 IPv4 addresses are free")],
        remedy: Some(remedy.clone()),
    };
    ServiceExplanation {
        service: text("apps/web"),
        broken: Some(link::POOL),
        remedy: Some(remedy),
        steps: vec![step],
        addresses: Vec::new(),
    }
}

pub(super) fn doctor() -> Report {
    let check = Finding {
        subject: "link",
        interface: Some(text("eth0")),
        state: finding::State::Red,
        found: text("down, driver ixgbe"),
        details: Vec::new(),
        remedy: Some(text("ip link set eth0 up")),
    };
    Report::new(vec![check], false)
}

pub(super) fn status() -> Status {
    let state = State::sample();
    let key = OffenderKey { vip: VipKey::new(State::SAMPLE_IFINDEX, VIP), mac: UNKNOWN_HOST };
    let last_ns = state.contents.now_ns - 1_500_000_000;
    let offender = Offender {
        first_ns: last_ns,
        last_ns,
        claims: 7,
        kind: EventKind::Conflict,
        oper: 2,
        source: UNKNOWN_HOST.0,
        answered: 0,
        strays: 0,
        defended_ns: 0,
    };
    let mut status = Status::of(&state, &[(key, offender)].into());
    status.vips.truncate(1);
    status.waiting = Some(vec![Waiting {
        address: IpAddr::from([192, 0, 2, 12]),
        interface: Some(text("eth0")),
        because: text("02:00:00:00:00:66 (locally administered) answers for it: a host has the address"),
        remedy: text("give that host another address"),
        mac: Some(UNKNOWN_HOST.to_string()),
    }]);
    status.counters = [("answered", 1_969), ("claim_conflict", 7)].into();
    status.wire = Some(WireStatus {
        wid: text("3c1fe0a94b7d6258"),
        scale: Some(2),
        keys: vec![1],
        peers: vec![On {
            interface: text("eth0"),
            vlan: None,
            of: WireReceived {
                ifindex: State::SAMPLE_IFINDEX,
                id: text("5f2b8c9d01e4a673"),
                answered_seconds_ago: Some(0.08),
                round_trip_seconds: Some(0.0003),
                received_seconds_ago: Some(0.08),
            },
        }],
    });
    status.wire_counters = [("ping_answered", 86_400), ("refused_tag", 2)].into();
    status.claims_defended = 5;
    status
}

pub(super) fn cluster() -> Overview {
    let since = text("2026-10-17T08:15:00.000000Z");
    let vip = VipRow {
        address: VIP,
        holder: Some(text("n1")),
        state: VipState::Held,
        offered_by: None,
        mac: Some(State::SAMPLE_MAC.to_string()),
        interface: Some(text("eth0")),
        epoch: 3,
        services: vec![text("shop/web")],
        conflict: None,
        trouble: None,
        unanswered: None,
    };
    let node = NodeRow {
        node: text("n1"),
        vips: 1,
        session: Some(text("5f2b8c9d01e4a673")),
        lease_age_seconds: 0.4,
        renewed: true,
        lease_duration_seconds: 3.0,
        leaving: false,
        voters: vec![text("n2"), text("n3"), text("n4")],
        quorum: 2,
        found_by_lease: None,
    };
    let last_move =
        MoveRow { since, address: VIP, holder: text("n1"), cause: text("n2 was asked to hand it over") };
    Overview { vips: vec![vip], nodes: vec![node], last_moves: vec![last_move] }
}

pub(super) fn watch() -> [Change; 4] {
    const SILENT: Part = Part::Silent(Silence::Interface(InterfaceFault::NoCarrier));
    let silent_because = SILENT.silent_because();
    [
        Change::Start { lease_deadline: "valid", interfaces: 1, held: 1, handover: 0, silent: 0, foreign: 1 },
        Change::Link { interface: text("eth0"), what: text("has no carrier") },
        Change::Answering { vip: VIP, interface: text("eth0"), silent_because },
        Change::Rates { answered: 12.0, conflicts: 0.0, suppressed: 0.5, frames: 40.0 },
    ]
}

pub(super) fn pools() -> PoolList {
    PoolList {
        pools: vec![PoolRow {
            pool: text("lan"),
            addresses: vec![text("192.0.2.8/29")],
            families: vec![FamilyRow {
                family: text("IPv4"),
                used: text("1"),
                kept: text("1"),
                free: text("4"),
                total: text("6"),
            }],
            auto_assign: true,
            priority: 0,
            problem: None,
        }],
        addresses: vec![
            AddressRow {
                address: IpAddr::from([192, 0, 2, 9]),
                service: text("apps/old"),
                pool: Some(text("lan")),
                in_pool: true,
                kept_until: Some(text("2026-10-18T08:15:00Z")),
                releasing: false,
            },
            AddressRow {
                address: VIP,
                service: text("apps/web"),
                pool: Some(text("lan")),
                in_pool: true,
                kept_until: None,
                releasing: false,
            },
        ],
    }
}
