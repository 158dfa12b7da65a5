//! A report of each kind in which nothing is left out, and others in which is null what can be.

use std::{collections::BTreeMap, net::Ipv4Addr};

use serde_json::Value;
use vipward_common::{EventKind, MacAddr, Offender, OffenderKey, Role};

use crate::{
    core::{
        doctor::{Check, State},
        explain::{Attached, Explanation, Link, Mode, Step, Verdict},
        overview::{MoveRow, NodeRow, Overview, VipRow, VipState},
        watch::Change,
        who_has::{self, Latency, Prober, Relation, Row, Seen},
    },
    shell::{
        bpf,
        doctor::Report,
        live::Line,
        status::{
            FENCE_IS_OVER, FenceStatus, InterfaceStatus, OffenderStatus, PeerStatus, Status, VipStatus,
        },
        terminal::Colours,
    },
};

const VIP: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 10);
const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

/// A text that stands for any other.
fn text() -> String {
    "text".to_owned()
}

pub(super) fn who_has() -> (who_has::Report, Vec<who_has::Report>) {
    let latency = Latency { first_seconds: 0.5, min_seconds: 0.5, max_seconds: 0.5, coarse: true };
    let row = Row {
        order: 1,
        mac: text(),
        vendor: text(),
        relation: Relation::ThisHost,
        seen: Seen::ThisHost,
        answering: false,
        silent_because: Some(FENCE_IS_OVER),
        ethernet_source: Some(text()),
        answered: 1,
        first: 1,
        replies: 1,
        announcements: 1,
        latency: Some(latency),
    };
    let bare = Row { silent_because: None, ethernet_source: None, latency: None, ..row.clone() };
    let full = who_has::Report {
        address: VIP,
        interface: text(),
        ifindex: 2,
        asked_from: text(),
        questions: 1,
        timeout_seconds: 0.5,
        verdict: who_has::Verdict::One,
        answers: vec![row],
        probing: vec![Prober { mac: text(), vendor: text(), probes: 1 }],
        agent: true,
        expected: Some(text()),
        notes: vec![text()],
        vendors_of: "2026-10-17",
    };
    let bare = who_has::Report { answers: vec![bare], expected: None, ..full.clone() };
    (full, vec![bare])
}

pub(super) fn explain() -> (Explanation, Vec<Explanation>) {
    let attached = Attached { interface: text(), mode: Mode::Generic, because: Some(text()) };
    let step = Step {
        link: Link::Segment,
        verdict: Verdict::Broken,
        says: text(),
        details: vec![text()],
        remedy: Some(text()),
    };
    let native = Attached { because: None, ..attached.clone() };
    let full = Explanation {
        address: VIP,
        broken: Some(Link::Segment),
        remedy: Some(text()),
        attached: Some(attached),
        steps: vec![step.clone()],
    };
    let steps = vec![Step { remedy: None, ..step }];
    let bare = Explanation { broken: None, remedy: None, attached: Some(native), steps, ..full.clone() };
    let detached = Explanation { attached: None, ..full.clone() };
    (full, vec![bare, detached])
}

pub(super) fn doctor() -> (Report, Vec<Report>) {
    let check = Check {
        check: "link",
        interface: Some(text()),
        state: State::NotApplicable,
        found: text(),
        remedy: Some(text()),
    };
    let bare = Check { interface: None, remedy: None, ..check.clone() };
    let report = |check| Report::new(vec![check], true, Colours::NONE);
    (report(check), vec![report(bare)])
}

fn vip_status() -> VipStatus {
    VipStatus {
        address: VIP,
        interface: text(),
        role: Role::Handover,
        mac: Some(MAC),
        yielded: false,
        answering: true,
        silent_because: Some(FENCE_IS_OVER),
        answered: Some(1),
        conflicts: Some(1),
        suppressed: Some(1),
    }
}

fn interface() -> InterfaceStatus {
    InterfaceStatus {
        name: Some(text()),
        ifindex: 2,
        attached: true,
        mode: bpf::Mode::Generic,
        link_id: 1,
        program_id: 1,
        mac: Some(MAC),
        carrier: true,
    }
}

fn offender() -> OffenderStatus {
    let kind = EventKind::Probed;
    let key = OffenderKey { ifindex: 2, vlan: 0, mac: MAC.0, addr: VIP.octets() };
    let record = Offender { first_ns: 1, last_ns: 1, claims: 1, kind, oper: 1, source: MAC.0, _pad: 0 };
    OffenderStatus {
        address: VIP,
        interface: text(),
        mac: text(),
        vendor: text(),
        eth_source: text(),
        kind: kind.name(),
        claims: 1,
        last_seconds_ago: 0.5,
        record: (key, record),
    }
}

pub(super) fn status() -> (Status, Vec<Status>) {
    let of = |interface, vip| Status {
        pin_dir: "/sys/fs/bpf/vipward".into(),
        abi_version: 3,
        fence: FenceStatus { state: "valid", policy: "hold", left_seconds: 0.5, hold_left_seconds: 0.5 },
        entries: 1,
        max_vips: 1,
        interfaces: vec![interface],
        vips: vec![vip],
        peers: vec![PeerStatus { interface: text(), mac: text() }],
        offenders: vec![offender()],
        counters: BTreeMap::from([("answered", 1)]),
        events_lost: 1,
    };
    let bare = VipStatus {
        mac: None,
        silent_because: None,
        answered: None,
        conflicts: None,
        suppressed: None,
        ..vip_status()
    };
    let gone = InterfaceStatus { name: None, mac: None, ..interface() };
    (of(interface(), vip_status()), vec![of(gone, bare)])
}

pub(super) fn cluster() -> (Overview, Vec<Overview>) {
    let vip = VipRow {
        address: VIP,
        holder: Some(text()),
        state: VipState::SessionEnded,
        offered_by: Some(text()),
        mac: Some(text()),
        interface: Some(text()),
        epoch: 1,
        services: vec![text()],
        conflict: Some(text()),
        trouble: Some(text()),
    };
    let node = NodeRow {
        node: text(),
        vips: 1,
        session: Some(text()),
        lease_age_seconds: 0.5,
        renewed: true,
        lease_duration_seconds: 0.5,
        leaving: false,
    };
    let bare = VipRow {
        holder: None,
        offered_by: None,
        mac: None,
        interface: None,
        conflict: None,
        trouble: None,
        ..vip.clone()
    };
    let blank = NodeRow { session: None, ..node.clone() };
    let last_move = MoveRow { since: text(), address: VIP, holder: text(), cause: text() };
    let of = |vip, node| Overview { vips: vec![vip], nodes: vec![node], last_moves: vec![last_move.clone()] };
    (of(vip, node), vec![of(bare, blank)])
}

/// A line of each event.
pub(super) fn watch() -> (Vec<Value>, Vec<Value>) {
    let (vip, interface, role) = (VIP, text, Role::Held.name());
    let full = [
        Change::Start { fence: "valid", interfaces: 1, held: 1, handover: 1, foreign: 1 },
        Change::Fence { from: "valid", to: "held over" },
        Change::Link { interface: interface(), what: text() },
        Change::Role {
            vip,
            interface: interface(),
            from: Some(role),
            to: Some(role),
            yielded: true,
            mac: Some(text()),
        },
        Change::Answering { vip, interface: interface(), silent_because: Some(FENCE_IS_OVER) },
        Change::Offender {
            vip,
            interface: interface(),
            mac: text(),
            vendor: text(),
            source: text(),
            kind: EventKind::Conflict.name(),
            claims: 1,
            total: 1,
        },
        Change::EventsLost { events: 1 },
        Change::Rates { answered: 0.5, conflicts: 0.5, suppressed: 0.5, frames: 0.5 },
        Change::Unread { error: text() },
    ];
    let bare = [
        Change::Role { vip, interface: interface(), from: None, to: None, yielded: false, mac: None },
        Change::Answering { vip, interface: interface(), silent_because: None },
    ];
    let line = |change: &Change| serde_json::to_value(Line { time: text(), change }).expect("it serialises");
    (full.iter().map(line).collect(), bare.iter().map(line).collect())
}
