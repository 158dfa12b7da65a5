use std::net::Ipv4Addr;

use super::*;

const VIP: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 10));
const OTHER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 11));
const GRACE: Duration = Duration::from_millis(4_500);

fn at(millis: u64) -> Monotonic {
    Monotonic::from_nanos(1_000_000_000 + millis * 1_000_000)
}

fn silent(why: &str) -> Unanswered {
    Unanswered::Silent(why.to_owned())
}

#[test]
fn silence_is_reported_once_when_it_has_lasted_for_the_grace() {
    let mut silences = Silences::start(GRACE);
    assert_eq!(silences.next_deadline(), None, "while all is well, nothing is waited for");
    silences.record(VIP, Some(silent("no carrier")), at(0));
    assert_eq!((silences.next_deadline(), silences.contains(VIP)), (Some(at(4_500)), true));
    assert_eq!((silences.on_tick(at(4_499)), silences.notified(VIP)), (vec![], None));
    // Another reason does not begin a new silence.
    silences.record(VIP, Some(silent("the interface is gone")), at(3_000));
    assert_eq!(silences.on_tick(at(4_500)), [VIP]);
    assert_eq!(silences.notified(VIP).cloned(), Some(silent("the interface is gone")));
    assert_eq!((silences.on_tick(at(9_000)), silences.next_deadline()), (vec![], None));
    // The reported reason follows, but not each turn of a link that flaps.
    silences.record(VIP, Some(silent("no carrier")), at(9_000));
    silences.record(VIP, Some(silent("the interface is down")), at(9_100));
    assert_eq!(silences.notified(VIP).cloned(), Some(silent("the interface is gone")));
    assert_eq!(silences.on_tick(at(13_500)), [VIP]);
    assert_eq!(silences.notified(VIP).cloned(), Some(silent("the interface is down")));
    silences.record(VIP, Some(silent("no carrier")), at(14_000));
    silences.record(VIP, Some(silent("the interface is down")), at(15_000));
    assert_eq!((silences.on_tick(at(30_000)), silences.next_deadline()), (vec![], None));
}

#[test]
fn a_link_that_flaps_back_and_then_fails_in_another_way_is_reported() {
    let mut silences = Silences::start(GRACE);
    silences.record(VIP, Some(silent("no carrier")), at(0));
    silences.on_tick(at(4_500));
    silences.record(VIP, Some(silent("the interface is down")), at(5_000));
    silences.record(VIP, Some(silent("no carrier")), at(6_000));
    silences.record(VIP, Some(silent("the interface is gone")), at(7_000));
    assert_eq!(silences.next_deadline(), Some(at(11_500)), "the new reason has a grace of its own");
    assert_eq!((silences.on_tick(at(11_499)), silences.on_tick(at(11_500))), (vec![], vec![VIP]));
    assert_eq!(silences.notified(VIP).cloned(), Some(silent("the interface is gone")));
}

#[test]
fn only_the_end_of_a_reported_silence_is_reported() {
    let mut silences = Silences::start(GRACE);
    assert!(!silences.record(VIP, None, at(0)), "it was never silent");
    silences.record(VIP, Some(silent("no carrier")), at(0));
    assert!(!silences.record(VIP, None, at(4_000)), "within the grace");
    assert_eq!((silences.next_deadline(), silences.on_tick(at(10_000))), (None, vec![]));
    silences.record(VIP, Some(silent("no carrier")), at(10_000));
    assert_eq!(silences.next_deadline(), Some(at(14_500)), "the grace begins anew");
    silences.on_tick(at(14_500));
    assert!(silences.record(VIP, None, at(20_000)));
    assert_eq!((silences.contains(VIP), silences.all_notified().count()), (false, 0));
}

#[test]
fn each_vip_has_a_grace_of_its_own() {
    let mut silences = Silences::start(GRACE);
    silences.record(VIP, Some(silent("no carrier")), at(0));
    silences.record(OTHER, Some(Unanswered::SessionEnded("n1".into())), at(1_000));
    assert_eq!(silences.on_tick(at(5_000)), [VIP]);
    assert_eq!(silences.all_notified().map(|(vip, _)| vip).collect::<Vec<_>>(), [VIP]);
    assert_eq!(silences.all().collect::<Vec<_>>(), [VIP, OTHER]);
    assert_eq!(silences.on_tick(at(5_500)), [OTHER]);
}

#[test]
fn a_reported_silence_has_a_reason_and_words() {
    let ended = Unanswered::SessionEnded("n1".into());
    assert_eq!(ended.reason(), "SessionEnded");
    assert!(ended.to_string().starts_with("the session of n1 "), "{ended}");
    let silent = Unanswered::Silent("eth0: no carrier".to_owned());
    assert_eq!(silent.reason(), "NotAnswered");
    assert_eq!(silent.to_string(), "eth0: no carrier");
}
