//! The text of the log's lines, row by row.

use std::{collections::BTreeMap, net::Ipv4Addr, time::Duration};

use vipward_common::{OPER_REPLY, Role, VipKey};
use vipward_core::{
    agent::{FileSource, Network, Source, Start},
    config::Config,
    host::{
        attaching::{Attachments, Mode as Hook, OwnProgram},
        net::Interface,
    },
    ownership::Fault,
    records::{Epoch, Session},
    reports::claim_findings::Aspect,
    segment::conflict::End,
};

use super::*;
use crate::{
    cli::LogFormat,
    shell::{endpoints::metrics::Mode, logging::log_of},
};

const ETH0: u32 = 3;
const HOLDER: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const OTHER: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

/// The time of all lines: a host that has run for a while.
const NOW: Monotonic = Monotonic::from_nanos(1_000_000_000_000);

fn vip(host: u8) -> IpAddr {
    Ipv4Addr::new(192, 0, 2, host).into()
}

fn at(seconds: u64) -> Monotonic {
    Monotonic::from_nanos(seconds * 1_000_000_000)
}

/// Returns an agent of a host with one interface.
fn agent() -> Agent {
    let text = "interfaces: [eth0]\nvips: [{address: 192.0.2.10}]\n";
    let config = Config::parse(text, "a test", "node-a").expect("a configuration");
    let interfaces = [(ETH0, Interface::sample(ETH0, "eth0"))].into();
    let view = NetView { interfaces, ..NetView::default() };
    let start = Start {
        network: Network { view, attachments: Attachments::default(), name_servers: BTreeSet::new() },
        max_vips: 16,
        yields_settled: 0,
        proofs: BTreeMap::new(),
        source: Source::File(FileSource::start(&config, Duration::from_millis(4), at(0))),
        seed: 0,
        config,
    };
    Agent::start(start, at(0))
}

/// Returns the lines that are logged for these, without their times.
fn words(lines: &[Line]) -> Vec<String> {
    let (agent, metrics) = (agent(), Metrics::new(Mode::Standalone, 16));
    let text = log_of(LogFormat::Text, false, || {
        let mut log = Log::start(NOW);
        for line in lines {
            log.line(line, &agent, &metrics, NOW);
        }
    });
    let without_time = |line: &str| line.split_once(' ').map(|(_, words)| words.trim().to_owned());
    text.lines().filter_map(without_time).collect()
}

fn answerer(answerer: Answerer, takes: bool) -> Line {
    Line::Segment(Note::Answerer { vip: vip(10), mac: OTHER, answerer, takes })
}

fn conflict_of(what: What) -> Conflict {
    let offender = Offender {
        mac: OTHER,
        source: OTHER,
        oper: OPER_REPLY,
        first: at(1),
        last: at(61),
        claims: 5,
        answerer: None,
    };
    Conflict {
        key: VipKey::new(ETH0, vip(10)),
        what,
        holder: HOLDER,
        begun: at(1),
        last: at(61),
        claims: 5,
        offenders: vec![offender],
        more: false,
        defences: 2,
        doubled: false,
    }
}

fn sight(what: What, source: MacAddr, right: Right) -> Sight {
    let key = VipKey::new(ETH0, vip(10));
    Sight { key, what, mac: OTHER, source, oper: OPER_REPLY, holder: HOLDER, times: 1, at: at(1), right }
}

fn began(what: What) -> Line {
    let sight = sight(what, OTHER, Right::NoClaims);
    Line::Conflict(Box::new(conflict::Line::Began { conflict: conflict_of(what), sight }))
}

fn entry(role: Role) -> VipEntry {
    VipEntry { mac: HOLDER.0, generation: 1, role, slot: 0, until_ns: 0 }
}

fn silent(begun: Vec<(IpAddr, Option<String>)>) -> Line {
    Line::Silences { begun, over: Vec::new(), gone: Vec::new() }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn a_line_names_its_subject_what_happened_and_what_follows() {
    let received = |passed| Received { frames: 3, counted: 0, passed };
    let of_conflict = |line| Line::Conflict(Box::new(line));
    let ended = conflict::Line::Ended { conflict: conflict_of(What::Held), why: End::Quiet };
    let entry_changed = Line::Entry {
        key: VipKey::new(ETH0, vip(10)),
        from: None,
        to: Some(entry(Role::Held)),
        cause: Cause::Configured,
    };
    let proof =
        |to, passed| Line::Proof { segment: ETH0, from: Proof::Unproven, to, received: received(passed) };
    let about = "kind=\"conflict\" what=\"held\" vip=192.0.2.10 interface=eth0";
    let rows = [
        (
            Line::Unobserved("no answer".to_owned()),
            "WARN the network could not be observed; trying again error=\"no answer\"".to_owned(),
        ),
        (Line::Overrun, "WARN network notifications were lost; everything is observed again".to_owned()),
        (
            Line::Removed {
                interface: "eth0".to_owned(),
                own: OwnProgram { mode: Hook::Tc, id: 6, on_ports: false },
                instead: Vec::new(),
            },
            "WARN another program has removed Vipward's from the interface; attaching it again \
             interface=\"eth0\" mode=tc program=6 instead=\"none\""
                .to_owned(),
        ),
        (
            entry_changed,
            "INFO a VIP's entry has changed vip=192.0.2.10 interface=eth0 from=\"none\" to=\"held\" \
             mac=\"02:00:00:00:00:01\" cause=configured"
                .to_owned(),
        ),
        (
            silent(vec![(vip(10), Some("the map is full".to_owned()))]),
            "WARN this node has the VIP and does not answer vip=192.0.2.10 why=\"the map is full\""
                .to_owned(),
        ),
        (
            Line::Silences { begun: Vec::new(), over: vec![vip(10)], gone: Vec::new() },
            "INFO the VIP is answered again vip=192.0.2.10".to_owned(),
        ),
        (
            Line::Silences { begun: Vec::new(), over: Vec::new(), gone: vec![vip(10)] },
            "INFO the VIP that was not answered is not this node's any more vip=192.0.2.10".to_owned(),
        ),
        (
            of_conflict(conflict::Line::GoesOn { conflict: conflict_of(What::Held), times: 4 }),
            format!(
                "WARN claims go on {about} times=4 macs=\"02:00:00:00:00:02\" more_macs=false defences=2"
            ),
        ),
        (
            of_conflict(ended),
            format!(
                "INFO claims are over {about} times=5 lasted_seconds=60 macs=\"02:00:00:00:00:02\" \
                 cause=\"no claims any more\""
            ),
        ),
        (
            Line::Segment(Note::FailedOver { ifindex: ETH0, vips: 2 }),
            "INFO the interface has failed over; its VIPs are announced interface=\"eth0\" vips=2".to_owned(),
        ),
        (
            answerer(Answerer::Proxy, true),
            "WARN the VIP is taken: a proxy answers for a host that does not answer itself (ARP or ND suppression of \
             a fabric, or a WLAN controller) (probe.proxied) vip=192.0.2.10 mac=02:00:00:00:00:02 vendor=locally \
             administered"
                .to_owned(),
        ),
        (
            answerer(Answerer::Host, false),
            "WARN the VIP waits: a host has the address vip=192.0.2.10 mac=02:00:00:00:00:02 sort=\"host\" \
             remedy=\"give that host another address\""
                .to_owned(),
        ),
        (
            Line::TakesBack([(vip(10), OTHER)].into()),
            "WARN no peer answers for the yielded VIP; this node takes it back vip=192.0.2.10 \
             mac=02:00:00:00:00:02"
                .to_owned(),
        ),
        (
            proof(Proof::Blind, None),
            "ERROR bypassed: the kernel receives frames on the interface that the program does not see; no VIP \
             is answered interface=\"eth0\" from=\"unproven\" received=3"
                .to_owned(),
        ),
        (
            proof(Proof::Bypassed, Some(vip(10))),
            "ERROR bypassed: a request for a VIP got past the program to the kernel interface=\"eth0\" \
             from=\"unproven\" counted=0 vip=\"192.0.2.10\""
                .to_owned(),
        ),
        (
            Line::Late(Late { by: Duration::from_millis(1_500), lapsed: true }, 3_000),
            "WARN heartbeat is late late_by_ms=1500 deadline_ms=3000 lapsed=true".to_owned(),
        ),
    ];
    for (line, expected) in rows {
        assert_eq!(words(&[line]), [expected]);
    }
}

#[test]
fn a_line_about_the_cluster_names_the_object_and_the_cause() {
    let session = Session::from_number(7).expect("not zero");
    let notice = |notice| Line::Notice(notice, None);
    let holds = Notice::Holds {
        vip: vip(10),
        services: Vec::new(),
        from: Some("node-b".into()),
        cause: "node-b's session has ended".to_owned(),
    };
    let rows = [
        (
            notice(holds),
            "INFO this node holds the VIP vip=192.0.2.10 from=\"node-b\" cause=\"node-b's session has \
             ended\""
                .to_owned(),
        ),
        (
            Line::Notice(Notice::Repaired { what: "192.0.2.10".to_owned(), fault: Fault::Edited }, Some(3)),
            "WARN the claim or Lease is written again what=\"192.0.2.10\" fault=edited by hand not_logged=3"
                .to_owned(),
        ),
        (
            notice(Notice::NotAlone { session }),
            format!("ERROR another agent runs under this node's name session={session}"),
        ),
        (
            Line::NotShown(vip(10), Aspect::Conflict, "no right".to_owned()),
            "WARN the claim is not up to date; trying again vip=192.0.2.10 about=\"conflict\" problem=no \
             right"
                .to_owned(),
        ),
    ];
    for (line, expected) in rows {
        assert_eq!(words(&[line]), [expected]);
    }
}

#[test]
fn the_beginning_of_a_conflict_says_whose_claim_it_is_and_what_becomes_of_it() {
    let rows = [
        (What::Held, Right::NoClaims, "conflict: an unknown host claims the VIP, and the claim is dropped"),
        (
            What::Guarded,
            Right::NoClaims,
            "conflict: an unknown host claims the VIP, and the claim is dropped",
        ),
        (
            What::InUse,
            Right::NoClaims,
            "conflict: the address is in use by an unknown host; the VIP waits until it is free",
        ),
        (What::Sighted, Right::NoClaims, "sighted: an unknown host claims a VIP whose holder is not known"),
        (
            What::Contested,
            Right::NoClaims,
            "contested: a peer claims a VIP that this node holds, and the claim is dropped",
        ),
        (What::Moved, Right::NoClaims, "moved: a peer announced the VIP"),
        (
            What::Moved,
            Right::NotGiven(Epoch(3)),
            "moved: a peer announced the VIP, and the VIP's claim does not name that peer",
        ),
        (
            What::Yielded,
            Right::NoClaims,
            "yielded: the VIP went to a peer after this node's lease deadline had passed; SIGHUP takes it back from a \
             peer that answers",
        ),
        (
            What::Yielded,
            Right::NotGiven(Epoch(3)),
            "yielded: the VIP went to a peer after this node's lease deadline had passed, and its claim does not name \
             that peer",
        ),
    ];
    for (what, right, expected) in rows {
        assert_eq!(beginning(&sight(what, OTHER, right)), expected);
    }
    let lines = words(&[began(What::Held)]);
    assert!(
        lines[0].starts_with("WARN conflict: an unknown host claims the VIP, and the claim is dropped kind=")
    );
    let rest = " mac=02:00:00:00:00:02 vendor=";
    assert!(
        lines[0].contains(rest) && lines[0].ends_with("oper=\"reply\" holder=\"02:00:00:00:00:01\" times=1")
    );
    for (doubled, expected) in [(true, "WARN doubled: a peer answers for"), (false, "INFO no longer doubled")]
    {
        let conflict = Conflict { doubled, ..conflict_of(What::Contested) };
        let line = words(&[Line::Conflict(Box::new(conflict::Line::Doubled { conflict }))]).remove(0);
        assert!(line.starts_with(expected) && line.contains("02:00:00:00:00:02"), "{line}");
    }
    let forged = beginning(&sight(What::Contested, HOLDER, Right::NoClaims));
    assert!(forged.starts_with("contested: a host claims, in a peer's name"), "{forged}");
}

#[test]
fn of_very_many_lines_one_says_the_number() {
    let silences = |vips: u8| (0..vips).map(|host| (vip(host), None)).collect();
    assert_eq!(words(&[silent(silences(64))]).len(), 64);
    let many = words(&[silent(silences(65))]);
    assert_eq!(many, ["WARN VIPs that this node has are not answered vips=65"]);
    let lines = words(&vec![began(What::Held); 70]);
    assert_eq!(lines.len(), 65, "a line with the number follows");
    assert!(lines[64].starts_with("WARN lines left out lines=6 of="), "{lines:?}");
}
