use super::*;
use crate::pools::Expected;

#[test]
fn each_other_refusal_is_reported_in_place_of_the_one_before_and_each_pause_is_longer() {
    let vip = IpAddr::from([192, 0, 2, 1]);
    let at = |seconds: u64| Monotonic::from_nanos(seconds * 1_000_000_000);
    let write = || ReservationWrite { vip, expected: Expected::Absent, reservation: None };
    let refused = |service: &str, why: &str| {
        let service = ServiceName { namespace: "a".into(), name: service.into() };
        Some((service, Problem::NotReserved { vip, why: why.into() }))
    };
    let (right, quota, other) =
        (refused("web", "a right"), refused("web", "a quota"), refused("api", "a quota"));
    let mut failures = Failures::default();
    let rows = [
        ("the first", right.clone(), None, right.clone(), 1),
        ("the same", right.clone(), None, None, 2),
        ("no answer", None, None, None, 4),
        ("another reason", quota.clone(), right, quota.clone(), 8),
        ("another Service", other.clone(), quota, other.clone(), 16),
        ("the same", other.clone(), None, None, 32),
        ("the same", other.clone(), None, None, 64),
        ("the same", other.clone(), None, None, 64),
    ];
    for (times, (what, problem, over, begins, pause)) in rows.into_iter().enumerate() {
        let noted = Noted { is_first: times == 0, over, begins };
        assert_eq!(failures.record(write(), problem, at(0)), noted, "{what}");
        assert_eq!(failures.next_deadline(), Some(at(pause)), "{what}");
        assert_eq!(failures.due(at(pause - 1)), [], "{what}");
        assert_eq!(failures.due(at(pause)), [write()], "{what}");
    }
    assert_eq!(failures.end(vip).and_then(|failed| failed.reported), other);
    assert!(failures.end(vip).is_none());
    let first = Noted { is_first: true, over: None, begins: other.clone() };
    assert_eq!(failures.record(write(), other, at(0)), first);
}
