use std::{collections::BTreeSet, time::Duration};

use vipward_common::MacAddr;
use vipward_core::{
    base::time::Monotonic,
    ownership::{Entry, Fenced, Wire},
};

use super::Program;

const OWN: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const PEER: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
const OTHER_PEER: MacAddr = MacAddr([2, 0, 0, 0, 0, 3]);
const STRANGER: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);

fn at(seconds: u64) -> Monotonic {
    Monotonic::from_nanos(0) + Duration::from_secs(seconds)
}

/// Returns a program whose fence is valid until 10, and held over until 20 under `hold`.
fn program(hold: bool, entry: Entry) -> Program {
    let mut program = Program::new(1, hold, None);
    program.move_fence(Fenced { session: None, deadline: at(10), hold_until: at(20), words_settled: 0 });
    program.peers = BTreeSet::from([PEER, OTHER_PEER]);
    program.set(0, Some(entry), true);
    program
}

#[test]
fn answers_follow_role_fence_and_policy() {
    let handover = Entry::Handover { mac: PEER, until: at(15) };
    let rows = [
        ("held, valid", true, Entry::Held, 9, Some(OWN)),
        ("held, held over", true, Entry::Held, 10, Some(OWN)),
        ("held, over", true, Entry::Held, 20, None),
        ("held, over at once", false, Entry::Held, 10, None),
        ("handover, valid", true, handover, 9, Some(PEER)),
        ("handover, held over", true, handover, 14, Some(PEER)),
        ("handover, ended", true, handover, 15, None),
        ("handover, over", false, handover, 10, None),
        ("foreign", true, Entry::Foreign { mac: PEER }, 9, None),
    ];
    for (what, hold, entry, now, answer) in rows {
        assert_eq!(program(hold, entry).answer(0, OWN, at(now)), answer, "{what}");
    }
}

#[test]
fn the_effect_of_an_announcement_follows_role_fence_and_sender() {
    let handover = Entry::Handover { mac: PEER, until: at(15) };
    let (moved, contested) = (|mac| Some(Wire::Moved { mac }), |mac| Some(Wire::Contested { mac }));
    let yielded = |mac| Some(Wire::Yielded { mac });
    let rows = [
        ("held, valid, own", Entry::Held, 9, OWN, None, Some(OWN)),
        ("held, valid, peer", Entry::Held, 9, PEER, contested(PEER), Some(OWN)),
        ("held, valid, stranger", Entry::Held, 9, STRANGER, None, Some(OWN)),
        ("held, held over, peer", Entry::Held, 11, PEER, yielded(PEER), None),
        ("held, held over, stranger", Entry::Held, 11, STRANGER, None, Some(OWN)),
        ("handover, valid, successor", handover, 9, PEER, moved(PEER), Some(PEER)),
        ("handover, valid, other peer", handover, 9, OTHER_PEER, contested(OTHER_PEER), Some(PEER)),
        ("handover, held over, successor", handover, 11, PEER, moved(PEER), None),
        ("handover, held over, other peer", handover, 11, OTHER_PEER, yielded(OTHER_PEER), None),
        ("handover, held over, stranger", handover, 11, STRANGER, None, Some(PEER)),
        ("foreign, its mac", Entry::Foreign { mac: PEER }, 9, PEER, None, None),
        ("foreign, other peer", Entry::Foreign { mac: PEER }, 9, OTHER_PEER, moved(OTHER_PEER), None),
        ("foreign, stranger", Entry::Foreign { mac: PEER }, 9, STRANGER, None, None),
        ("foreign, unknown, peer", Entry::Foreign { mac: MacAddr::ZERO }, 9, PEER, moved(PEER), None),
    ];
    for (what, entry, now, sha, told, answer) in rows {
        let mut program = program(true, entry);
        assert_eq!(program.hear(0, sha, OWN, at(now)), told, "{what}: the event");
        assert_eq!(program.answer(0, OWN, at(now)), answer, "{what}: the answer after it");
    }
}

#[test]
fn writing_the_entry_again_takes_back_a_yield() {
    let mut program = program(true, Entry::Held);
    program.hear(0, PEER, OWN, at(11));
    program.move_fence(Fenced { session: None, deadline: at(30), hold_until: at(40), words_settled: 0 });
    assert_eq!(program.answer(0, OWN, at(12)), None);
    program.set(0, Some(Entry::Held), true);
    assert_eq!(program.answer(0, OWN, at(12)), Some(OWN));
}
