use super::*;
use crate::ownership::tests::records::{at, settings};

fn vip(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(192, 0, 2, last)
}

fn pacing() -> Pacing {
    let settings = Settings { most_new: 2, handover_pace: Duration::from_millis(100), ..settings("a") };
    Pacing::new(&settings, at(0))
}

#[test]
fn vips_beyond_the_room_wait_and_come_in_turn() {
    let mut pacing = pacing();
    for number in 1..=5 {
        let has_room = pacing.has_room(vip(number), &"x".into());
        assert_eq!(has_room, number <= 2, "{number}");
        if has_room {
            pacing.begin_creating(vip(number));
        }
    }
    assert_eq!((pacing.next_of_crowd(), pacing.creating()), (None, (2, 3)));
    pacing.end_creating(vip(1));
    assert_eq!(pacing.next_of_crowd(), Some(vip(3)));
    // The VIP found no room after all. It is the last in the next round.
    pacing.begin_creating(vip(9));
    assert!(!pacing.has_room(vip(3), &"x".into()));
    pacing.end_creating(vip(9));
    let order: Vec<_> = std::iter::from_fn(|| pacing.next_of_crowd()).collect();
    assert_eq!(order, [vip(4), vip(5), vip(3)]);
}

#[test]
fn namespaces_take_turns_however_many_vips_they_have() {
    let mut pacing = pacing();
    (1..=2).for_each(|number| pacing.begin_creating(vip(number)));
    for number in 10..100 {
        assert!(!pacing.has_room(vip(number), &"greedy".into()));
    }
    assert!(!pacing.has_room(vip(200), &"modest".into()));
    assert!(!pacing.has_room(vip(201), &"quiet".into()));
    pacing.end_creating(vip(1));
    // A VIP that comes now goes behind those that wait.
    assert!(!pacing.has_room(vip(9), &"greedy".into()));
    let turns: Vec<_> = (0..5).filter_map(|_| pacing.next_of_crowd()).collect();
    assert_eq!(turns, [vip(9), vip(200), vip(201), vip(10), vip(11)]);
    assert!(pacing.has_room(vip(11), &"greedy".into()), "it is its turn");
}

#[test]
fn handovers_begin_at_their_pace_and_those_that_wait_come_one_by_one() {
    let mut pacing = pacing();
    assert_eq!(pacing.begin_handover(Urgency::Calm, at(0)), Ok(()));
    assert_eq!(pacing.begin_handover(Urgency::Calm, at(1)), Err(at(100)));
    assert_eq!(pacing.begin_handover(Urgency::Calm, at(1)), Err(at(200)));
    assert_eq!(pacing.begin_handover(Urgency::Urgent, at(1)), Ok(()));
    assert_eq!(pacing.begin_handover(Urgency::Urgent, at(2)), Err(at(4)));
    assert_eq!(pacing.begin_handover(Urgency::Urgent, at(3)), Ok(()));
    assert_eq!(pacing.begin_handover(Urgency::Calm, at(100)), Ok(()));
}

#[test]
fn no_more_offers_than_32_are_under_way() {
    let mut pacing = pacing();
    (0..32).for_each(|number| pacing.begin_offer(vip(number)));
    assert!(pacing.begin_handover(Urgency::Urgent, at(500)).is_err());
    pacing.end_offer(vip(7));
    assert_eq!(pacing.begin_handover(Urgency::Urgent, at(500)), Ok(()));
    pacing.begin_offer(vip(7));
    pacing.forget_offers();
    assert_eq!(pacing.begin_handover(Urgency::Urgent, at(600)), Ok(()));
}
