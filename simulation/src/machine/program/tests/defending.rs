//! The defence.

use std::time::Duration;

use vipward_common::{Defence, LeaseDeadline, MacAddr, Policy, Role, VipEntry};
use vipward_core::base::time::Monotonic;

use super::{
    GRACE, HOLDER, IFINDEX, OVER, OWN, PEER, UNKNOWN_HOST, VALID, VIP, at, entry, lease_deadline, program,
};
use crate::machine::{
    frame::{Frame, Oper},
    program::Program,
};

fn defending(entry: VipEntry) -> Program {
    let mut program = program(entry);
    program.set_deadline(LeaseDeadline { defence: Defence::Match, ..lease_deadline(Policy::Hold) });
    program
}

fn claims(program: &mut Program, mac: MacAddr, now: Monotonic) -> bool {
    let claim = Frame::announcement(Oper::Reply, mac, VIP);
    program.handle(IFINDEX, &claim, now).sent.is_some()
}

#[test]
fn a_claim_that_deceives_others_is_met_with_an_announcement() {
    let (held, handover) = (entry(Role::Held, OWN), entry(Role::Handover, HOLDER));
    let claim = |mac| Frame::announcement(Oper::Reply, mac, VIP);
    let alone = Frame { to: OWN, ..claim(UNKNOWN_HOST) };
    let quiet = Frame::request(UNKNOWN_HOST, VIP, [192, 0, 2, 99].into());
    let rows = [
        ("a conflict, valid", held, VALID, claim(UNKNOWN_HOST), true),
        ("a conflict, grace period", held, GRACE, claim(UNKNOWN_HOST), true),
        ("a conflict, over", held, OVER, claim(UNKNOWN_HOST), false),
        ("a question that conflicts", held, VALID, quiet, true),
        ("to this host alone", held, VALID, alone, false),
        ("contested, valid", held, VALID, claim(PEER), true),
        ("contested, lapsed", held, GRACE, Frame { source: UNKNOWN_HOST, ..claim(PEER) }, false),
        ("yields", held, GRACE, claim(PEER), false),
        ("its own", held, VALID, claim(OWN), false),
        ("handover, a conflict", handover, VALID, claim(UNKNOWN_HOST), false),
        ("foreign, a conflict", entry(Role::Foreign, HOLDER), VALID, claim(UNKNOWN_HOST), false),
    ];
    for (what, entry, now, frame, is_met) in rows {
        let sent = defending(entry).handle(IFINDEX, &frame, at(now)).sent;
        let defence = Frame::announcement(Oper::Request, OWN, VIP);
        assert_eq!(sent, is_met.then_some(defence), "{what}");
        assert_eq!(program(entry).handle(IFINDEX, &frame, at(now)).sent, None, "{what}, off");
    }
}

#[test]
fn a_vip_is_defended_20_times_a_second() {
    let mut program = defending(entry(Role::Held, OWN));
    let mut met = |from: Monotonic| {
        let times = (0..25).map(|n| from + Duration::from_millis(n * 35));
        times.filter(|now| claims(&mut program, UNKNOWN_HOST, *now)).count()
    };
    assert_eq!(met(at(2)), 20, "the first second");
    assert_eq!(met(at(3)), 20, "the next one");
}

#[test]
fn a_rival_that_answers_ten_defences_gets_one_in_ten_seconds() {
    let mut program = defending(entry(Role::Held, OWN));
    program.set_deadline(LeaseDeadline {
        deadline_ns: at(100).as_nanos(),
        defence: Defence::Match,
        ..lease_deadline(Policy::Hold)
    });
    let mut now = at(1);
    let mut after = |pause: u64| {
        now = now + Duration::from_millis(pause);
        claims(&mut program, UNKNOWN_HOST, now)
    };
    assert!(after(0));
    let answers: Vec<_> = (0..11).map(|_| after(10)).collect();
    assert_eq!(answers.iter().filter(|met| **met).count(), 9, "the tenth answer is the last");
    let strays: Vec<_> = (0..5).map(|_| after(100)).collect();
    assert_eq!(strays, [false, false, false, false, true], "five strays earn one");
    assert!(!after(10), "it has answered that");
    assert!(after(10_000), "so does the time");
    assert!(!after(10), "it has answered that");
    assert!(after(10_000));
    let met: Vec<_> = (0..3).map(|_| after(100)).collect();
    assert_eq!(met, [true, true, true], "it has not answered the last one");
}
