use vipward_common::MacAddr;

use super::*;

const OWN: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

fn frame(host: u8) -> Frame {
    Frame::question(OWN, None, [192, 0, 2, host].into(), [0; 6])
}

#[test]
fn a_reflection_is_told_from_a_loop_and_from_a_clone() {
    // Description, steps (frame, whether this host sends it, milliseconds), the result.
    type Step = (u8, bool, u64);
    let sends = |host| (host, true, 10);
    let rows: [(&str, Vec<Step>, Twin); 8] = [
        ("nothing", vec![], Twin::None),
        ("own frames go out", vec![sends(1), sends(2)], Twin::None),
        ("each comes back", vec![sends(1), (1, false, 11), sends(2), (2, false, 900)], Twin::None),
        (
            "each comes back over three ports",
            vec![sends(1), (1, false, 1), (1, false, 2), (1, false, 3)],
            Twin::None,
        ),
        (
            "one comes back again and again",
            vec![sends(1), (1, false, 1), (1, false, 2), (1, false, 3), (1, false, 4)],
            Twin::Loop,
        ),
        ("one that was not sent", vec![sends(1), (2, false, 500)], Twin::Clone),
        ("one that may have been sent before", vec![(2, false, 499)], Twin::None),
        (
            "a loop, which also brings older frames",
            vec![sends(1), (9, false, 700), (1, false, 1), (1, false, 2), (1, false, 3), (1, false, 4)],
            Twin::Loop,
        ),
    ];
    for (what, steps, expected) in rows {
        let mut own = OwnFrames::default();
        for (host, is_outgoing, after) in steps {
            own.on_frame(frame(host), is_outgoing, Duration::from_millis(after));
        }
        assert_eq!(own.twin(), expected, "{what}");
    }
}

#[test]
fn very_many_frames_are_not_kept_and_prove_nothing() {
    let mut own = OwnFrames::default();
    for number in 0..1_000_u32 {
        let [_, _, high, low] = number.to_be_bytes();
        let sent = Frame::question(OWN, None, [10, 0, high, low].into(), [0; 6]);
        own.on_frame(sent, true, LISTEN);
        own.on_frame(sent, false, LISTEN);
    }
    assert_eq!((own.sent.len(), own.twin()), (MOST_FRAMES, Twin::None));
}

#[test]
fn a_finding_begins_and_ends_with_two_rounds() {
    use Twin::{Clone, Loop, None};
    let mut twins = Twins::default();
    let rounds = [
        (Clone, Option::None),
        (None, Option::None),
        (Clone, Option::None),
        (Clone, Some(None)),
        (Clone, Option::None),
        (Loop, Option::None),
        (None, Option::None),
        (Loop, Option::None),
        (Loop, Some(Clone)),
        (None, Option::None),
        (None, Some(Loop)),
        (None, Option::None),
    ];
    for (number, (twin, before)) in rounds.into_iter().enumerate() {
        assert_eq!(twins.on_round(3, twin), before, "round {number}");
        assert_eq!(twins.found(4), None, "another segment");
    }
}
