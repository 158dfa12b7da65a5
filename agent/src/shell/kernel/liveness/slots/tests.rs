use std::collections::BTreeSet;

use vipward_common::{WIRE_SLOTS, WireIndexKey};
use vipward_core::base::time::Boottime;

use super::{Changes, Slots};

fn at(seconds: u64) -> Boottime {
    Boottime::from_nanos(seconds * 1_000_000_000)
}

fn key(id: u64) -> WireIndexKey {
    WireIndexKey::new(id, 7)
}

fn set(slots: &mut Slots, ids: impl IntoIterator<Item = u64>, seconds: u64) -> Changes {
    let wanted: BTreeSet<WireIndexKey> = ids.into_iter().map(key).collect();
    slots.set(&wanted, at(seconds))
}

fn fresh() -> Slots {
    Slots::start([], |_| false, at(0)).0
}

#[test]
fn a_peer_keeps_its_slot_and_gets_it_back() {
    let mut slots = fresh();
    assert_eq!(set(&mut slots, [1, 2], 0).added, [(key(1), 0), (key(2), 1)]);
    assert_eq!(set(&mut slots, [1, 2], 1), Changes::default());
    assert_eq!(set(&mut slots, [2], 2).removed, [key(1)]);
    assert_eq!(slots.of(key(1)), None);
    assert_eq!(set(&mut slots, [1, 2], 3).added, [(key(1), 0)]);
}

#[test]
fn a_slot_rests_for_a_minute_before_it_has_another_owner() {
    let mut slots = fresh();
    let all = u64::from(WIRE_SLOTS);
    assert_eq!(set(&mut slots, 1..=all, 0).left_out, 0);
    let others = || 2..=all + 1;
    let changes = set(&mut slots, others(), 10);
    assert_eq!((changes.removed, changes.added, changes.left_out), (vec![key(1)], vec![], 1));
    assert_eq!(set(&mut slots, others(), 69).left_out, 1);
    assert_eq!(set(&mut slots, others(), 70).added, [(key(all + 1), 0)]);
}

#[test]
fn a_slot_is_cleared_for_another_owner_and_never_for_its_own() {
    let mut slots = fresh();
    assert_eq!(set(&mut slots, [1], 0).cleared, [0]);
    assert!(set(&mut slots, [], 1).cleared.is_empty());
    assert!(set(&mut slots, [1], 2).cleared.is_empty(), "what was learned of it stays");
    set(&mut slots, [], 3);
    set(&mut slots, [], 63);
    assert_eq!(set(&mut slots, [2], 64).cleared, [0], "the clock of another owner is another one");
}

#[test]
fn the_next_process_knows_which_slots_were_used() {
    let found = [(key(1), 3), (key(2), 3), (key(3), WIRE_SLOTS)];
    let (mut slots, faulty) = Slots::start(found, |slot| slot < 5, at(100));
    assert_eq!(faulty, [key(2), key(3)]);
    assert_eq!(slots.of(key(1)), Some(3));
    assert_eq!(set(&mut slots, [1, 4], 100).added, [(key(4), 5)], "0 to 4 were used");
    assert_eq!(set(&mut slots, [1, 4, 5], 160).added, [(key(5), 0)]);
}
