use vipward_common::MacAddr;

use super::*;
use crate::records::Holder;

fn session(number: u64) -> Session {
    Session::from_number(number).expect("a number that is not zero")
}

fn holder() -> Holder {
    Holder {
        node: "a".into(),
        session: session(1),
        mac: MacAddr([2, 0, 0, 0, 0, 1]),
        interface: "eth0".into(),
    }
}

fn states() -> [ClaimState; 4] {
    [
        ClaimState::Held(holder()),
        ClaimState::Offered { to: holder(), from: ("b".into(), session(2)) },
        ClaimState::Released,
        ClaimState::Blank,
    ]
}

#[test]
fn a_finding_about_answers_concerns_only_a_claim_that_is_held_in_its_session() {
    let answers = |number| Finding::Answers(session(number), None);
    let rows = [
        ("of the session", answers(1), [true, false, false, false]),
        ("of the session that offers", answers(2), [false; 4]),
        ("of another session", answers(3), [false; 4]),
        ("a conflict", Finding::Conflict(None), [true; 4]),
    ];
    for (what, finding, expected) in rows {
        assert_eq!(states().map(|state| finding.concerns(&state)), expected, "{what}");
    }
}

#[test]
fn a_write_keeps_the_findings_of_a_holder_that_stays() {
    let before = |epoch, has_holder| Some(Before { epoch: Epoch(epoch), has_holder });
    let [held, offered, released, blank] = states();
    let rows = [
        ("a new object", &held, None, [false, false, false]),
        ("the same holder", &held, before(7, true), [true, true, true]),
        ("the next holder", &held, before(6, true), [false, false, false]),
        ("an older epoch, after a restore", &held, before(8, true), [false, false, false]),
        ("an offer", &offered, before(7, true), [true, false, true]),
        ("the holder lets it go", &released, before(7, true), [true, false, false]),
        ("no node had it: its address is in use", &released, before(7, false), [true, false, true]),
        ("blanked by hand", &blank, before(7, true), [true, false, true]),
    ];
    for (what, state, before, [place, answers, conflict]) in rows {
        let kept = Kept::by_write(state, Epoch(7), before);
        assert_eq!(kept, Kept { place, answers, conflict }, "{what}");
    }
}
