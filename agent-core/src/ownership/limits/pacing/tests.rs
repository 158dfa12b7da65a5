use super::*;
use crate::ownership::tests::records::{at, settings};

fn vip(last: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, last])
}

fn pacing() -> Pacing {
    let settings = Settings { most_new: 2, handover_pace: Duration::from_millis(100), ..settings("a") };
    Pacing::new(&settings, at(0))
}

/// Returns all VIPs whose turn comes now. None of them enters a stage.
fn turns(pacing: &mut Pacing, now: Monotonic) -> Vec<IpAddr> {
    std::iter::from_fn(|| pacing.next_new(now)).collect()
}

#[test]
fn vips_beyond_the_room_wait_and_come_in_turn() {
    let mut pacing = pacing();
    for number in 1..=5 {
        let may_create = pacing.may_create(vip(number), &"x".into());
        assert_eq!(may_create, number <= 2, "{number}");
        if may_create {
            pacing.begin_creating(vip(number), at(0));
        }
    }
    assert_eq!((pacing.next_new(at(1)), pacing.sizes()), (None, (2, 3)));
    pacing.end_creating(vip(1));
    assert_eq!(pacing.next_new(at(2)), Some(vip(3)));
    // The VIP found no room after all. It is the last in the next round.
    pacing.begin_creating(vip(9), at(2));
    assert!(!pacing.may_create(vip(3), &"x".into()));
    pacing.end_creating(vip(9));
    assert_eq!(turns(&mut pacing, at(3)), [vip(4), vip(5), vip(3)]);
}

#[test]
fn namespaces_take_turns_however_many_vips_they_have() {
    let mut pacing = pacing();
    (1..=2).for_each(|number| pacing.begin_creating(vip(number), at(0)));
    for number in 10..100 {
        assert!(!pacing.may_create(vip(number), &"greedy".into()));
    }
    assert!(!pacing.may_create(vip(200), &"modest".into()));
    assert!(!pacing.may_create(vip(201), &"quiet".into()));
    pacing.end_creating(vip(1));
    // A VIP that comes now goes behind those that wait.
    assert!(!pacing.may_create(vip(9), &"greedy".into()));
    let turns: Vec<_> = (0..5).filter_map(|_| pacing.next_new(at(1))).collect();
    assert_eq!(turns, [vip(9), vip(200), vip(201), vip(10), vip(11)]);
    assert!(pacing.may_create(vip(11), &"greedy".into()), "it is its turn");
}

#[test]
fn more_claims_are_created_as_soon_as_there_is_room_for_more() {
    let mut pacing = pacing();
    (1..=2).for_each(|number| pacing.begin_creating(vip(number), at(0)));
    assert!(!pacing.may_create(vip(3), &"x".into()));
    assert!(turns(&mut pacing, at(1)).is_empty());
    pacing.set_most_new(3);
    assert_eq!(turns(&mut pacing, at(1)), [vip(3)]);
}

#[test]
fn a_vip_that_was_found_free_keeps_its_place_among_those_that_are_probed_until_its_creation() {
    // There is room for six in 10 ms.
    let settings = Settings { probing: Some(Duration::from_millis(10)), ..settings("a") };
    let mut pacing = Pacing::new(&settings, at(0));
    for number in 1..=8 {
        let may_ask = pacing.may_ask(vip(number), &"x".into());
        assert_eq!(may_ask, number <= 6, "{number}");
        if may_ask {
            pacing.begin_asking(vip(number), at(0));
        }
    }
    assert_eq!((turns(&mut pacing, at(700)), pacing.sizes()), (Vec::new(), (0, 8)));
    assert!(pacing.may_ask(vip(1), &"x".into()), "it has its place, and is asked about again");
    pacing.begin_creating(vip(1), at(700));
    assert_eq!(pacing.next_new(at(700)), Some(vip(7)), "one place is free");
    pacing.begin_asking(vip(7), at(700));
    assert_eq!(pacing.next_new(at(700)), None);
    pacing.end_asking(vip(2));
    assert_eq!(pacing.next_new(at(700)), Some(vip(8)), "an address in use does not keep its place");
}

#[test]
fn an_address_about_which_nothing_is_received_does_not_keep_its_place_for_ever() {
    let settings = Settings { probing: Some(Duration::from_millis(10)), ..settings("a") };
    let mut pacing = Pacing::new(&settings, at(0));
    (1..=6).for_each(|number| pacing.begin_asking(vip(number), at(u64::from(number))));
    assert!(!pacing.may_ask(vip(7), &"x".into()));
    assert_eq!(pacing.next_new(at(10_010)), None);
    assert_eq!(pacing.next_new(at(10_011)), Some(vip(7)));
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
