use super::*;

fn vip(last: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, last])
}

fn failed(vips: &[(u8, Left)]) -> BTreeMap<IpAddr, Failure> {
    let failure = |left| Failure { left, interface: Some("eth0".to_owned()), error: "no memory".to_owned() };
    vips.iter().map(|(last, left)| (vip(*last), failure(*left))).collect()
}

fn left(stale: &Stale) -> [Option<Left>; 4] {
    [10, 11, 12, 13].map(|last| stale.left(vip(last)))
}

#[test]
fn a_vip_is_stale_until_a_try_of_its_own_does_not_fail() {
    const ANSWERING: Option<Left> = Some(Left::Answering);
    const SILENT: Option<Left> = Some(Left::Silent);
    let mut stale = Stale::default();
    let changes = stale.on_tried(|_| true, |_| true, failed(&[(10, Left::Answering), (11, Left::Silent)]));
    assert_eq!(changes, Changes { begun: vec![vip(10), vip(11)], over: vec![] });
    assert_eq!(left(&stale), [ANSWERING, SILENT, None, None]);
    assert_eq!(stale.answering().collect::<Vec<_>>(), [vip(10)]);

    // Other VIPs are tried, and one of them fails.
    stale.on_tried(|tried| *tried > vip(11), |_| true, failed(&[(13, Left::Silent)]));
    assert_eq!(left(&stale), [ANSWERING, SILENT, None, SILENT]);

    // The effect may differ from one try to the next.
    stale.on_tried(|tried| *tried < vip(12), |_| true, failed(&[(10, Left::Silent)]));
    assert_eq!(left(&stale), [SILENT, None, None, SILENT]);

    let changes = stale.on_tried(|_| true, |_| true, failed(&[]));
    assert_eq!(changes, Changes { begun: vec![], over: vec![vip(10), vip(13)] });
    assert_eq!(left(&stale), [None; 4]);
    assert!(stale.is_empty());
}

#[test]
fn what_is_not_wanted_any_more_is_not_stale_and_no_new_failure_when_it_fails_again() {
    let mut stale = Stale::default();
    for round in 0..3 {
        let changes = stale.on_tried(|_| true, |_| true, failed(&[(10, Left::Answering)]));
        assert_eq!(changes.begun.len(), usize::from(round == 0), "it is reported once");
        assert_eq!(left(&stale)[0], Some(Left::Answering));
        stale.on_tried(|_| true, |_| false, failed(&[]));
        assert_eq!((left(&stale)[0], stale.answering().count()), (None, 0));
        assert!(!stale.is_empty(), "the failure was reported, and is not over");
    }
    stale.on_tried(|_| true, |changed| *changed == vip(10), failed(&[]));
    assert!(stale.is_empty());
}
