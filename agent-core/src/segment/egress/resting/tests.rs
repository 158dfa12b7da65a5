use super::*;

const SEGMENT: u32 = 2;
const MINUTE: Duration = Duration::from_mins(1);

fn key(last: u8) -> VipKey {
    VipKey::new(SEGMENT, IpAddr::from([192, 0, 2, last]))
}

fn at(minutes: u32) -> Monotonic {
    Monotonic::from_nanos(0) + MINUTE * minutes
}

fn rests(resting: &Resting) -> bool {
    resting.vips(SEGMENT).next().is_some()
}

#[test]
fn each_finding_in_a_row_doubles_the_rest() {
    let mut resting = Resting::default();
    let mut minute = 0;
    for lasts in [10, 20, 40, 80, 160, 320, 320] {
        resting.find(key(1), at(minute));
        assert_eq!(resting.next_deadline(), Some(at(minute + lasts)));
        assert!(!resting.on_tick(at(minute + lasts - 1), |_| false), "{lasts}");
        assert!(rests(&resting), "{lasts}");
        minute += lasts;
        assert!(resting.on_tick(at(minute), |_| false), "{lasts}");
        assert!(!rests(&resting), "{lasts}");
        assert_eq!(resting.next_deadline(), None);
    }
}

#[test]
fn what_two_nodes_find_at_a_time_is_one_finding() {
    let mut resting = Resting::default();
    resting.find(key(1), at(0));
    resting.find(key(1), at(1));
    assert_eq!(resting.next_deadline(), Some(at(11)));
}

#[test]
fn a_rest_goes_on_while_the_vip_is_held_and_unheard() {
    let mut resting = Resting::default();
    resting.find(key(1), at(0));
    assert!(!resting.on_tick(at(10), |_| true));
    assert!(rests(&resting));
    assert_eq!(resting.next_deadline(), Some(at(20)));
}

#[test]
fn another_way_or_an_answer_ends_it() {
    for ends in
        [|it: &mut Resting| it.end(key(1)), |it: &mut Resting| assert!(it.begin_anew(SEGMENT, |_| false))]
    {
        let mut resting = Resting::default();
        resting.find(key(1), at(0));
        assert!(!resting.begin_anew(SEGMENT + 1, |_| false), "the other segment has none");
        assert!(!resting.begin_anew(SEGMENT, |_| true), "nobody has heard it since");
        assert!(rests(&resting));
        ends(&mut resting);
        assert!(!rests(&resting));
        resting.find(key(1), at(1));
        assert_eq!(resting.next_deadline(), Some(at(11)), "it is the first in a row");
    }
}

#[test]
fn what_is_long_over_is_forgotten() {
    let mut resting = Resting::default();
    resting.find(key(1), at(0));
    resting.on_tick(at(19), |_| false);
    assert_eq!(resting.0.len(), 1, "the next finding would double it");
    resting.on_tick(at(20), |_| false);
    assert_eq!(resting.0.len(), 0);
}
