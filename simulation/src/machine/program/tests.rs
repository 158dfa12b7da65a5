use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv4Addr,
    time::Duration,
};

use vipward_common::{DeadlineState, Defence, LeaseDeadline, MacAddr, Policy, Role, VipEntry, VipKey};
use vipward_core::{
    base::time::Monotonic,
    host::plan::{Action, Cause},
    records::Session,
};

use super::{Program, Refuses};

mod claims;
mod decided;
mod defending;
mod requests;

const IFINDEX: u32 = 3;
const VIP: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 10);
const OTHER_VIP: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 11);
const OWN: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
/// The MAC of a foreign entry, and of a handover's successor.
const HOLDER: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
const PEER: MacAddr = MacAddr([2, 0, 0, 0, 0, 3]);
const UNKNOWN_HOST: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);

/// Times in each state of the lease deadline of [`program`].
const VALID: u64 = 9;
const GRACE: u64 = 11;
const OVER: u64 = 30;
/// The end of a handover.
const UNTIL: u64 = 60;

fn at(seconds: u64) -> Monotonic {
    Monotonic::from_nanos(0) + Duration::from_secs(seconds)
}

fn key(vip: Ipv4Addr) -> VipKey {
    VipKey::new(IFINDEX, vip)
}

fn lease_deadline(policy: Policy) -> LeaseDeadline {
    LeaseDeadline {
        deadline_ns: at(10).as_nanos(),
        grace_until_ns: at(20).as_nanos(),
        yields_settled: 0,
        session: 0,
        notices_settled: 0,
        policy,
        defence: Defence::Off,
    }
}

fn entry(role: Role, mac: MacAddr) -> VipEntry {
    let until_ns = if role == Role::Handover { at(UNTIL).as_nanos() } else { 0 };
    VipEntry { mac: mac.0, generation: 1, role, slot: 0, until_ns }
}

fn put(vip: Ipv4Addr, entry: VipEntry) -> Action {
    Action::PutEntry { key: key(vip), entry, reset_counters: false, cause: Cause::Configured }
}

/// Returns a program with an entry and two peers. Its lease deadline is at 10 s, and its grace period ends
/// at 20 s.
fn program(entry: VipEntry) -> Program {
    let mut program = Program::new(None);
    program.set_deadline(lease_deadline(Policy::Hold));
    let peers = [PEER, HOLDER].map(|mac| Action::PutPeer { ifindex: IFINDEX, mac });
    let own_mac = Action::PutOwnMac { ifindex: IFINDEX, mac: OWN };
    for action in peers.into_iter().chain([own_mac, put(VIP, entry)]) {
        assert_eq!(program.apply(&action, Refuses::default()), Ok(()));
    }
    program
}

/// Returns a program that yielded its VIP to [`PEER`].
fn yielded() -> Program {
    let mut program = program(entry(Role::Held, OWN));
    claims::announce(&mut program, PEER, at(GRACE));
    assert_eq!(program.yields_total(), 1);
    program
}

#[test]
fn a_lease_deadline_lies_ahead_then_a_grace_period_follows_under_the_policy_hold_then_it_is_over() {
    let rows = [
        ("before the deadline", Policy::Hold, 9, DeadlineState::Valid),
        ("at the deadline", Policy::Hold, 10, DeadlineState::Grace),
        ("before the end of the grace period", Policy::Hold, 19, DeadlineState::Grace),
        ("at the end of the grace period", Policy::Hold, 20, DeadlineState::Over),
        ("before the deadline, stop", Policy::Stop, 9, DeadlineState::Valid),
        ("at the deadline, stop", Policy::Stop, 10, DeadlineState::Over),
    ];
    for (what, policy, now, state) in rows {
        let mut program = Program::new(None);
        assert_eq!(program.lease_deadline_state(at(now)), DeadlineState::Over, "a lease deadline of zeros");
        program.set_deadline(lease_deadline(policy));
        assert_eq!(program.lease_deadline_state(at(now)), state, "{what}");
    }
}

#[test]
fn the_lease_deadline_of_an_ended_session_has_passed_until_the_agent_settles_the_expiry_notice() {
    let rows = [
        ("the last session", 7, 0, DeadlineState::Grace),
        ("settled for an earlier notice", 7, 1, DeadlineState::Grace),
        ("settled", 7, 2, DeadlineState::Valid),
        ("another session", 8, 0, DeadlineState::Valid),
        ("no session", 0, 0, DeadlineState::Valid),
    ];
    for (what, session, notices_settled, state) in rows {
        let mut program = Program::new(None);
        program.wired.ended_once(Session::from_number(7));
        program.set_deadline(LeaseDeadline { session, notices_settled, ..lease_deadline(Policy::Hold) });
        assert_eq!(program.lease_deadline_state(at(VALID)), state, "{what}");
    }
}

#[test]
fn answers_follow_role_lease_deadline_and_yield() {
    let (held, foreign) = (entry(Role::Held, OWN), entry(Role::Foreign, HOLDER));
    let handover = VipEntry { until_ns: at(15).as_nanos(), ..entry(Role::Handover, HOLDER) };
    let rows = [
        ("held, valid", held, VALID, Some(OWN)),
        ("held, grace period", held, GRACE, Some(OWN)),
        ("held, over", held, OVER, None),
        ("handover, valid", handover, VALID, Some(HOLDER)),
        ("handover, grace period", handover, GRACE, Some(HOLDER)),
        ("handover, at its end", handover, 15, None),
        ("foreign", foreign, VALID, None),
        ("foreign, MAC zero", entry(Role::Foreign, MacAddr::ZERO), VALID, None),
    ];
    for (what, entry, now, answer) in rows {
        assert_eq!(program(entry).answer(key(VIP), at(now)), answer, "{what}");
    }
    assert_eq!(program(held).answer(key(OTHER_VIP), at(VALID)), None, "no entry");
    assert_eq!(program(held).answer(VipKey::new(4, VIP), at(VALID)), None, "another interface");
    assert_eq!(yielded().answer(key(VIP), at(GRACE)), None, "yielded");

    let mut unlinked = program(handover);
    unlinked.apply(&Action::RemoveOwnMac { ifindex: IFINDEX }, Refuses::default()).expect("never refused");
    assert_eq!(unlinked.answer(key(VIP), at(VALID)), None, "handover without an own MAC");
}

#[test]
fn a_yield_counts_for_its_generation_until_the_agent_settles_it() {
    let (held, new) = (entry(Role::Held, OWN), VipEntry { generation: 2, ..entry(Role::Held, OWN) });
    let unknown = entry(Role::Foreign, MacAddr::ZERO);
    let counts = |role, mac| Some((role, mac));
    let rows = [
        ("not rewritten", held, 0, counts(Role::Foreign, PEER)),
        ("rewritten without a MAC", unknown, 0, counts(Role::Foreign, MacAddr::ZERO)),
        ("rewritten without a MAC, and settled", unknown, 1, counts(Role::Foreign, MacAddr::ZERO)),
        ("taken back", new, 0, counts(Role::Held, OWN)),
        ("taken back, and settled", new, 1, counts(Role::Held, OWN)),
        ("settled, but not rewritten", held, 1, counts(Role::Held, OWN)),
    ];
    for (what, entry, yields_settled, counted) in rows {
        let mut program = yielded();
        program.apply(&put(VIP, entry), Refuses::default()).expect("nothing is refused");
        program.set_deadline(LeaseDeadline { yields_settled, ..lease_deadline(Policy::Hold) });
        let found = program.counted(key(VIP), at(GRACE)).map(|counted| (counted.role, counted.mac));
        assert_eq!(found, counted, "{what}");
    }
}

#[test]
fn an_announcement_leaves_while_the_vip_is_held() {
    let (held, handover) = (entry(Role::Held, OWN), entry(Role::Handover, HOLDER));
    let rows = [
        ("held, valid", held, VALID, false, true),
        ("held, grace period", held, GRACE, false, false),
        ("held, grace period, taken back", held, GRACE, true, true),
        ("held, over, taken back", held, OVER, true, false),
        ("handover, valid", handover, VALID, false, false),
    ];
    for (what, entry, now, is_taken_back, may) in rows {
        assert_eq!(program(entry).may_announce(key(VIP), is_taken_back, at(now)), may, "{what}");
    }
    assert!(!yielded().may_announce(key(VIP), true, at(GRACE)), "yielded");
}

#[test]
fn the_maps_take_every_change_that_is_not_refused() {
    let (none, changes) = (Refuses::default(), Refuses { changes: true, room: false });
    let room = Refuses { changes: false, room: true };
    let (old, new) = (entry(Role::Held, OWN), entry(Role::Foreign, HOLDER));
    let remove = Action::RemoveEntry { key: key(VIP), cause: Cause::NotConfigured };
    let rows = [
        ("an entry is written", put(OTHER_VIP, new), none, true),
        ("an entry is rewritten", put(VIP, new), none, true),
        ("an entry is removed", remove.clone(), none, true),
        ("changes are refused: a new entry", put(OTHER_VIP, new), changes, false),
        ("changes are refused: an old entry", put(VIP, new), changes, false),
        ("changes are refused: a removal", remove.clone(), changes, false),
        ("there is no room: a new entry", put(OTHER_VIP, new), room, false),
        ("there is no room: an old entry", put(VIP, new), room, true),
        ("there is no room: a removal", remove, room, true),
    ];
    for (what, action, refuses, is_done) in rows {
        let mut program = program(old);
        let before = program.entries().clone();
        assert_eq!(program.apply(&action, refuses).is_ok(), is_done, "{what}");
        let expected = match (&action, is_done) {
            (Action::PutEntry { key, entry, .. }, true) => {
                before.into_iter().chain([(*key, *entry)]).collect()
            }
            (Action::RemoveEntry { .. }, true) => BTreeMap::new(),
            _ => before,
        };
        assert_eq!(program.entries(), &expected, "{what}");
    }
}

#[test]
fn own_macs_peers_and_binds_are_never_refused() {
    let refuses = Refuses { changes: true, room: true };
    let mut program = Program::new(None);
    let (ifindex, mac, interface) = (IFINDEX, PEER, "eth0".to_owned());
    let (vip, bound) = (VIP.into(), BTreeSet::from([("eth0".to_owned(), VIP.into())]));
    let mut apply = |action: Action| {
        program.apply(&action, refuses).expect("only entries are refused");
        (program.own_macs().clone(), program.peers.clone(), program.binds().clone())
    };
    apply(Action::PutOwnMac { ifindex, mac: OWN });
    apply(Action::PutPeer { ifindex, mac });
    let all = apply(Action::AddBind { interface: interface.clone(), vip });
    assert_eq!(all, (BTreeMap::from([(ifindex, OWN)]), BTreeSet::from([(ifindex, mac)]), bound));
    apply(Action::RemoveOwnMac { ifindex });
    apply(Action::RemovePeer { ifindex, mac });
    assert_eq!(apply(Action::RemoveBind { interface, vip }), Default::default());
}

#[test]
fn a_new_agent_finds_which_entries_were_yielded() {
    let mut program = yielded();
    let held = VipEntry { slot: 1, ..entry(Role::Held, OWN) };
    program.apply(&put(OTHER_VIP, held), Refuses::default()).expect("nothing is refused");
    let found = program.found();
    assert_eq!((found.yielded, found.entries.len()), ([VIP.into()].into(), 1));
}
