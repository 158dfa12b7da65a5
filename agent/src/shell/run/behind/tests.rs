use super::*;

fn vip(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(192, 0, 2, last)
}

fn failed(vips: &[(u8, Left)]) -> BTreeMap<Ipv4Addr, Failure> {
    let failure = |left| Failure { left, interface: Some("eth0".to_owned()), error: "no memory".to_owned() };
    vips.iter().map(|(last, left)| (vip(*last), failure(*left))).collect()
}

/// What is left of .10 to .13.
fn left(behind: &Behind) -> [Option<Left>; 4] {
    [10, 11, 12, 13].map(|last| behind.left(vip(last)))
}

#[test]
fn a_vip_is_behind_until_a_try_of_its_own_does_not_fail() {
    const ANSWERING: Option<Left> = Some(Left::Answering);
    const SILENT: Option<Left> = Some(Left::Silent);
    let mut behind = Behind::default();
    behind.on_tried(|_| true, |_| true, failed(&[(10, Left::Answering), (11, Left::Silent)]));
    assert_eq!(left(&behind), [ANSWERING, SILENT, None, None]);
    assert_eq!(behind.answering().collect::<Vec<_>>(), [vip(10)]);

    // Others are tried, and one of them fails.
    behind.on_tried(|tried| *tried > vip(11), |_| true, failed(&[(13, Left::Silent)]));
    assert_eq!(left(&behind), [ANSWERING, SILENT, None, SILENT]);

    // What is left may differ from one try to the next.
    behind.on_tried(|tried| *tried < vip(12), |_| true, failed(&[(10, Left::Silent)]));
    assert_eq!(left(&behind), [SILENT, None, None, SILENT]);

    behind.on_tried(|_| true, |_| true, failed(&[]));
    assert_eq!(left(&behind), [None; 4]);
    assert!(behind.is_empty());
}

#[test]
fn what_is_not_wanted_any_more_is_not_behind_and_no_new_trouble_when_it_fails_again() {
    let mut behind = Behind::default();
    for _ in 0..3 {
        behind.on_tried(|_| true, |_| true, failed(&[(10, Left::Answering)]));
        assert_eq!(left(&behind)[0], Some(Left::Answering));
        behind.on_tried(|_| true, |_| false, failed(&[]));
        assert_eq!((left(&behind)[0], behind.answering().count()), (None, 0));
        assert!(!behind.is_empty(), "it was told, and is not over");
    }
    behind.on_tried(|_| true, |changed| *changed == vip(10), failed(&[]));
    assert!(behind.is_empty());
}
