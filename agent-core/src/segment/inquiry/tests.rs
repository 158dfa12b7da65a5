use super::*;

const SEGMENT: u32 = 2;

fn address(last: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, last])
}

fn question(epoch: u64) -> Question {
    Question { vip: address(10), mac: MacAddr([2, 0, 0, 0, 0, 1]), host: address(1), epoch: Epoch(epoch) }
}

/// Has a round in which the VIP and its holder answer so. Returns true if the findings change.
fn round(inquiry: &mut Inquiry, answered: Option<Answered>, host: bool) -> bool {
    let answers = [(address(10), answered)].into();
    let hosts = Some(address(1)).filter(|_| host).into_iter().collect();
    inquiry.begin(SEGMENT, 1, vec![question(7)]);
    inquiry.end((SEGMENT, 1), &answers, &hosts, |_| Some(question(7)))
}

fn findings(inquiry: &Inquiry) -> Vec<(u64, VipFault)> {
    inquiry.findings(SEGMENT).map(|finding| (finding.epoch.0, finding.fault)).collect()
}

#[test]
fn two_rounds_in_a_row_show_a_fault_and_one_answer_ends_it() {
    for (answered, fault) in [(None, VipFault::Unheard), (Some(Answered::ToUnicast), VipFault::Blind)] {
        let mut inquiry = Inquiry::default();
        assert!(!round(&mut inquiry, answered, true));
        assert!(inquiry.is_open(SEGMENT), "it is asked for again soon");
        assert_eq!(findings(&inquiry), []);
        assert!(round(&mut inquiry, answered, true));
        assert_eq!(findings(&inquiry), [(7, fault)]);
        assert!(!inquiry.is_open(SEGMENT));
        assert_eq!(inquiry.suspects(SEGMENT).collect::<Vec<_>>(), [address(10)]);
        assert!(!round(&mut inquiry, answered, true), "it is known");
        assert!(round(&mut inquiry, Some(Answered::ToAll), true));
        assert_eq!(findings(&inquiry), []);
    }
}

#[test]
fn rounds_that_differ_show_nothing() {
    let mut inquiry = Inquiry::default();
    for answered in [None, Some(Answered::ToAll), None, Some(Answered::ToUnicast), None] {
        round(&mut inquiry, answered, true);
        assert_eq!(findings(&inquiry), []);
    }
}

#[test]
fn a_holder_that_does_not_answer_its_own_address_shows_nothing() {
    let mut inquiry = Inquiry::default();
    for _ in 0..3 {
        round(&mut inquiry, None, false);
        assert_eq!(findings(&inquiry), []);
    }
    round(&mut inquiry, None, true);
    round(&mut inquiry, None, false);
    assert!(!inquiry.is_open(SEGMENT), "no round after another for a holder that is away");
    assert!(!round(&mut inquiry, None, true));
    assert!(round(&mut inquiry, None, true));
    assert!(!round(&mut inquiry, None, false));
    assert_eq!(findings(&inquiry), [(7, VipFault::Unheard)], "nor ends a finding");
}

#[test]
fn an_answer_to_a_unicast_alone_shows_nothing_while_no_request_to_all_is_answered() {
    let mut inquiry = Inquiry::default();
    for _ in 0..3 {
        round(&mut inquiry, Some(Answered::ToUnicast), false);
    }
    assert_eq!(findings(&inquiry), [], "perhaps no request to all leaves this node");
}

#[test]
fn a_question_that_was_not_sent_shows_nothing() {
    let mut inquiry = Inquiry::default();
    let hosts = [address(1)].into();
    for _ in 0..3 {
        inquiry.begin(SEGMENT, 1, vec![question(7)]);
        inquiry.end((SEGMENT, 1), &BTreeMap::new(), &hosts, |_| Some(question(7)));
    }
    assert_eq!(findings(&inquiry), []);
}

#[test]
fn another_way_of_the_frames_ends_a_finding() {
    let mut inquiry = Inquiry::default();
    round(&mut inquiry, None, true);
    round(&mut inquiry, None, true);
    assert!(!inquiry.begin_anew(SEGMENT + 1));
    assert!(inquiry.begin_anew(SEGMENT));
    assert_eq!(findings(&inquiry), []);
}

#[test]
fn the_next_tenure_begins_without_a_finding() {
    let mut inquiry = Inquiry::default();
    round(&mut inquiry, None, true);
    round(&mut inquiry, None, true);
    assert!(inquiry.end((SEGMENT, 9), &BTreeMap::new(), &BTreeSet::new(), |_| Some(question(8))));
    assert_eq!(findings(&inquiry), []);

    // The claim changed during the round.
    inquiry.begin(SEGMENT, 1, vec![question(7)]);
    let hosts = [address(1)].into();
    assert!(!inquiry.end((SEGMENT, 1), &BTreeMap::new(), &hosts, |_| Some(question(8))));
    assert!(!inquiry.is_open(SEGMENT));
}
