mod deadlines;
mod giving_back;
mod holding_back;
mod listening;
mod proxied;
mod yielding;

use std::time::Duration;

use ipnet::IpNet;
use vipward_common::OPER_REQUEST;

use super::{
    super::fixtures::{ETH0, ETH1, PEER, SETTINGS, Site, at, entry, event_about},
    *,
};
use crate::{
    base::samples::{HOLDER, key, last_octet, unknown_host},
    segment::conflict::{Line, Right},
};

/// A host with an agent that has started, and no VIP.
struct Host {
    segment: Segment,
    site: Site,
}

impl Host {
    fn new() -> Self {
        let mut host = Self::that_starts();
        assert_eq!(host.on(Input::Started), [""; 0]);
        host
    }

    /// Returns a host whose agent does not have the lease deadline yet.
    fn that_starts() -> Self {
        Self { segment: Segment::start(&SETTINGS, 1, at(0)), site: Site::new() }
    }

    fn with<T>(&mut self, act: impl FnOnce(&mut Segment, &Context<'_>) -> T) -> T {
        act(&mut self.segment, &self.site.context())
    }

    fn on(&mut self, input: Input<'_>) -> Vec<String> {
        words(&self.with(|segment, context| segment.on(input, context)))
    }

    /// Lets time pass, with a tick every ten milliseconds.
    fn wait(&mut self, millis: u64) -> Vec<String> {
        let end = self.site.millis + millis;
        let mut all = Vec::new();
        while self.site.millis < end {
            self.site.millis += 10;
            all.extend(self.on(Input::Tick));
        }
        all
    }

    fn receives(&mut self, event: Event) -> Vec<String> {
        self.on(Input::Program(&event))
    }

    /// Takes a VIP, and lets its first round leave.
    fn takes(&mut self, key: VipKey) {
        let to = entry(Role::Held, HOLDER, 1);
        self.on(Input::Entry { key, from: None, to: Some(&to) });
    }

    fn change(&mut self, change: impl FnOnce(&mut NetView)) -> Vec<String> {
        let before = self.site.view.clone();
        change(&mut self.site.view);
        self.on(Input::Network(&before))
    }

    fn has_carrier(&mut self, carrier: bool) -> Vec<String> {
        self.change(|view| view.interfaces.get_mut(&ETH0).expect("eth0").carrier = carrier)
    }

    fn configure(&mut self, change: impl FnOnce(&mut Settings)) {
        let mut settings = SETTINGS;
        change(&mut settings);
        self.segment.configure(&settings, self.site.now());
    }
}

fn v6() -> VipKey {
    VipKey::new(ETH0, "fd00::10".parse::<IpAddr>().expect("an address"))
}

fn event(kind: EventKind, mac: MacAddr) -> Event {
    event_about(10, kind, mac)
}

fn words(effects: &[Effect]) -> Vec<String> {
    effects.iter().map(word).collect()
}

fn word(effect: &Effect) -> String {
    let vip = |key: &VipKey| last_octet(key.addr);
    let about = |conflict: &Conflict| format!("{} {}", conflict.what.name(), vip(&conflict.key));
    match effect {
        Effect::Announce(announce::Command::Send { key, round, .. }) => {
            format!("announce {} {round:?}", vip(key))
        }
        Effect::Announce(announce::Command::Repeat { key, former, .. }) => {
            format!("repeat {} to {former}", vip(key))
        }
        Effect::Probe(key) => format!("probe {}", vip(key)),
        Effect::AskHost { key, .. } => format!("ask host {}", vip(key)),
        Effect::TellApart { key, .. } => format!("tell apart {}", vip(key)),
        Effect::ShowPort(key) => format!("show port {}", vip(key)),
        Effect::ProbeHeld(key) => format!("probe held {}", vip(key)),
        Effect::State { to, holds, .. } => {
            let holds: Vec<_> =
                holds.iter().map(|(vip, age)| format!("{} {}", last_octet(*vip), age.0)).collect();
            format!("state to {to}: {}", holds.join(", "))
        }
        Effect::Count => "count".to_owned(),
        Effect::Report(line) => match &**line {
            Line::Began { conflict, .. } => format!("began {}", about(conflict)),
            Line::NewOffender { conflict, .. } => format!("grows {}", about(conflict)),
            Line::Named { conflict, .. } => format!("named {}", about(conflict)),
            Line::GoesOn { conflict, .. } => format!("goes on {}", about(conflict)),
            Line::Ended { conflict, why } => format!("ended {}: {}", about(conflict), why.name()),
            Line::Doubled { conflict } if conflict.doubled => format!("doubled {}", vip(&conflict.key)),
            Line::Doubled { conflict } => format!("no longer doubled {}", vip(&conflict.key)),
            Line::TooMany { .. } => "too many".to_owned(),
        },
        Effect::Probed { key, probed: Probed::Free } => format!("free {}", vip(key)),
        Effect::Probed { key, probed: Probed::InUse { by_peer, .. } } => {
            format!("in use {}{}", vip(key), if *by_peer { " by a peer" } else { "" })
        }
        Effect::Probed { key, probed: Probed::Late { .. } } => format!("late {}", vip(key)),
        Effect::Probed { key, probed: Probed::Unheard } => format!("unheard {}", vip(key)),
        Effect::Taken(key) => format!("taken {}", vip(key)),
        Effect::FirstAnnounced(vip) => format!("first announced {}", last_octet(*vip)),
        Effect::JoinGroups(key) => format!("groups {}", vip(key)),
        Effect::TakeBack(vips) => {
            let vips: Vec<_> = vips.keys().map(|vip| last_octet(*vip).to_string()).collect();
            format!("take back {}", vips.join(" "))
        }
        Effect::Reconcile => "reconcile".to_owned(),
        Effect::Unsettle => "unsettle".to_owned(),
        Effect::Note(Note::FailedOver { ifindex, vips }) => {
            format!("note: {ifindex} failed over, {vips} VIPs")
        }
        Effect::Note(Note::AsksAboutYield(vip)) => format!("note: asks about yield {}", last_octet(*vip)),
        Effect::Note(Note::Yields(settled)) => {
            format!("note: yields {} to {}", vip(&settled.key), settled.to)
        }
        Effect::Note(Note::InUse { vip, .. }) => format!("note: in use {}", last_octet(*vip)),
        Effect::Note(Note::Answerer { vip, answerer, takes, .. }) => {
            let does = if *takes { ", takes" } else { "" };
            format!("note: {} at {}{does}", answerer.name(), last_octet(*vip))
        }
        Effect::Note(Note::Unheard { .. }) => "note: unheard".to_owned(),
        Effect::GiveBack(key) => format!("give back {}", vip(key)),
    }
}

/// The case, the entry before and after, and the effects.
type Row = (&'static str, Option<VipEntry>, Option<VipEntry>, &'static [&'static str]);

#[test]
fn an_entry_is_announced_as_it_changes() {
    let held = |mac, generation| Some(entry(Role::Held, mac, generation));
    let foreign = Some(entry(Role::Foreign, PEER, 2));
    let handover = Some(entry(Role::Handover, PEER, 2));
    let taken: &'static [&'static str] = &["taken 10", "announce 10 Taking(0)"];
    let rows: [Row; 9] = [
        ("a new VIP", None, held(HOLDER, 1), taken),
        ("a guarded VIP is taken", foreign, held(HOLDER, 3), taken),
        ("a handover is ended", handover, held(HOLDER, 3), taken),
        ("a yielded VIP is taken back", held(HOLDER, 1), held(HOLDER, 2), taken),
        ("the MAC changes", held(HOLDER, 1), held(PEER, 1), &["announce 10 Taking(0)"]),
        ("nothing changes", held(HOLDER, 1), held(HOLDER, 1), &[]),
        ("it is handed over", held(HOLDER, 1), handover, &[]),
        ("it is guarded", held(HOLDER, 1), foreign, &[]),
        ("it is gone", held(HOLDER, 1), None, &[]),
    ];
    for (what, from, to, expected) in rows {
        let mut host = Host::new();
        let change = Input::Entry { key: key(10), from: from.as_ref(), to: to.as_ref() };
        assert_eq!(host.on(change), *expected, "{what}");
        let is_held = to.is_some_and(|to| to.role == Role::Held);
        let goes_on = host.wait(1_200).iter().any(|word| word.contains("announce"));
        assert_eq!(goes_on, is_held && !expected.is_empty(), "{what}: later rounds");
    }
}

#[test]
fn nothing_is_announced_before_the_agent_has_the_lease_deadline_nor_after_it_withdraws() {
    let mut host = Host::that_starts();
    let to = entry(Role::Held, HOLDER, 1);
    let written = || Input::Entry { key: key(10), from: None, to: Some(&to) };
    assert_eq!(host.on(written()), ["taken 10"], "the source is notified");
    assert_eq!(host.wait(3_000), [""; 0]);
    host.on(Input::Started);
    let adopted = host.on(Input::Adopted { key: key(10), entry: entry(Role::Held, HOLDER, 1) });
    assert_eq!(adopted, ["announce 10 Taking(0)"], "what the pins hold is announced");
    host.on(Input::Withdrawn);
    assert_eq!(host.on(Input::AnnounceAgain(key(10).addr)), [""; 0]);
    assert_eq!(host.wait(3_000), [""; 0]);
}

#[test]
fn a_former_holder_gets_repetitions_of_the_first_announcement() {
    let mut host = Host::new();
    host.takes(key(10));
    assert_eq!(host.on(Input::Succeeded { key: key(10), former: PEER }), [""; 0]);
    let repeat = format!("repeat 10 to {PEER}");
    assert_eq!(host.wait(500), vec![repeat; 3]);
}

#[test]
fn what_follows_an_announcement_depends_on_family_and_round() {
    let rows: [(VipKey, Round, &[&str]); 4] = [
        (key(10), Round::Taking(0), &["first announced 10"]),
        (key(10), Round::Taking(1), &[]),
        // Switches that bind addresses to ports learn the port from it (RFC 6620).
        (v6(), Round::Taking(0), &["first announced 16", "show port 16"]),
        (v6(), Round::Refresh, &[]),
    ];
    for (key, round, expected) in rows {
        assert_eq!(Host::new().on(Input::Announced { key, round }), *expected, "{key:?} {round:?}");
    }
}

#[test]
fn a_vip_is_announced_again_only_where_it_is_held() {
    let mut host = Host::new();
    host.takes(key(10));
    host.wait(10);
    let elsewhere = VipKey::new(ETH1, key(10).addr);
    assert_eq!(host.on(Input::Challenged(elsewhere)), [""; 0], "a claim on another segment");
    assert_eq!(host.on(Input::AnnounceAgain(key(11).addr)), [""; 0], "a VIP that is not held");
    assert_eq!(host.on(Input::Challenged(key(10))), ["announce 10 Defence"]);
    assert_eq!(host.on(Input::AnnounceAgain(key(10).addr)), [""; 0], "once in ten seconds (RFC 5227)");
    host.site.millis += 10_000;
    assert_eq!(
        host.on(Input::AnnounceAgain(key(10).addr)).first().map(String::as_str),
        Some("announce 10 Defence")
    );
}

#[test]
fn an_interface_that_fails_over_has_its_own_vips_announced() {
    let mut host = Host::new();
    host.takes(key(10));
    host.takes(key(11));
    host.wait(3_000);
    let notice = |ifindex| BTreeSet::from([Notice { ifindex, kind: failover::NoticeKind::Failover }]);
    let at = host.site.now();
    let other = notice(ETH1);
    assert_eq!(host.on(Input::Notices { notices: &other, lost_since: None, at }), [""; 0]);
    let announced = host.on(Input::Notices { notices: &notice(ETH0), lost_since: None, at });
    assert_eq!(announced[0], "note: 3 failed over, 2 VIPs");
    let mut rounds = announced[1..].to_vec();
    rounds.extend(host.wait(50));
    assert_eq!(rounds, ["announce 10 Failover", "announce 11 Failover"]);

    // Notifications were lost, and the view shows whether a bond has another active port.
    for (active, note) in [(1, None), (2, Some("note: 3 failed over, 2 VIPs"))] {
        host.site.interface(ETH0).active_port = Some(1);
        let before = host.site.view.clone();
        host.site.interface(ETH0).active_port = Some(active);
        let (notices, at) = (&BTreeSet::new(), host.site.now());
        let words = host.on(Input::Notices { notices, lost_since: Some(&before), at });
        assert_eq!(words.first().map(String::as_str), note, "port {active}");
    }
}

#[test]
fn a_carrier_that_goes_and_returns_stops_and_begins_what_needs_it() {
    let mut host = Host::new();
    host.takes(key(10));
    host.wait(10);
    assert_eq!(host.has_carrier(false), [""; 0]);
    assert_eq!(host.wait(5_000), [""; 0], "no round leaves without carrier");
    let back = host.has_carrier(true);
    assert_eq!(back, ["announce 10 Taking(0)"]);
    assert_eq!(host.change(|view| drop(view.interfaces.remove(&ETH0))), [""; 0]);
    assert_eq!(host.wait(5_000), [""; 0], "a VIP goes with its interface");
}

#[test]
fn held_vips_are_asked_for_in_turn_and_only_once_the_agent_has_the_lease_deadline() {
    let asked = |mut host: Host| {
        host.on(Input::Adopted { key: key(10), entry: entry(Role::Held, HOLDER, 1) });
        host.wait(130_000).iter().filter(|word| *word == "probe held 10").count()
    };
    assert_eq!(asked(Host::that_starts()), 0);
    assert!((1..=3).contains(&asked(Host::new())), "about once a minute");
}

#[test]
fn the_deadline_is_the_earliest_of_all_parts() {
    let mut host = Host::that_starts();
    assert_eq!(host.segment.next_deadline(), None, "nothing to do");
    host.on(Input::Wanted { key: key(10), manner: Manner::OFTEN });
    let probes = host.segment.next_deadline().expect("probes are due");
    assert!(probes <= Monotonic::from_nanos(100_000_000), "{probes:?}");
    host.on(Input::Unwanted(key(10).addr));
    assert_eq!(host.segment.next_deadline(), None);
    host.on(Input::Started);
    assert!(host.segment.next_deadline().is_some(), "held VIPs are probed in rounds");
}

/// The part, the change of its settings, and the effect that only they have.
type Changed = (&'static str, fn(&mut Settings), &'static str);

#[test]
fn other_settings_apply_to_each_part() {
    const SHORT: Duration = Duration::from_secs(5);
    let rows: [Changed; 3] = [
        ("announcing", |it| it.announce.refresh = SHORT, "announce 10 Refresh"),
        ("probing", |it| it.probe.repeat = Some(SHORT), "probe held 10"),
        ("conflicts", |it| it.conflicts.quiet = SHORT, "ended held 10: no claims any more"),
    ];
    for (what, change, expected) in rows {
        for is_changed in [false, true] {
            let mut host = Host::new();
            host.takes(key(10));
            host.receives(event(EventKind::Conflict, unknown_host(1)));
            host.wait(6_000);
            if is_changed {
                host.configure(change);
            }
            assert_eq!(host.wait(20_000).contains(&expected.to_owned()), is_changed, "{what}");
        }
    }
}
