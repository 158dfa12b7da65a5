use super::*;

#[test]
fn each_other_refusal_is_told_in_place_of_the_one_before() {
    let vip = IpAddr::from([192, 0, 2, 1]);
    let refused = |service: &str, why: &str| {
        let service = ServiceName { namespace: "a".into(), name: service.into() };
        Some((service, Problem::NotReserved { vip, why: why.into() }))
    };
    let (right, quota, other) =
        (refused("web", "a right"), refused("web", "a quota"), refused("api", "a quota"));
    let mut failures = Failures::default();
    let rows = [
        ("the first", right.clone(), None, right.clone()),
        ("the same", right.clone(), None, None),
        ("no answer", None, None, None),
        ("another reason", quota.clone(), right, quota.clone()),
        ("another Service", other.clone(), quota, other.clone()),
    ];
    for (times, (what, problem, over, begins)) in (0..).zip(rows) {
        assert_eq!(failures.note(vip, problem), Noted { times, over, begins }, "{what}");
    }
    assert_eq!(failures.end(vip).and_then(|failed| failed.told), other);
    assert!(failures.end(vip).is_none());
    assert_eq!(failures.note(vip, other.clone()), Noted { times: 0, over: None, begins: other });
}
