use vipward_common::{WireFields, WireFrame, WireType};
use vipward_core::{
    cluster::Session,
    wire::{Frame, KeyId, Kind, Wid},
};

use super::{Keys, read};

const ONE: &str = "000102030405060708090a0b0c0d0e0f";
const TWO: &str = "f0e0d0c0b0a090807060504030201000";
const FIELDS: WireFields = WireFields { holder: 7, witness: 8, round: 0, sent_ns: 9, answered_ns: 0 };

fn keys(entries: &[(&str, &str)]) -> Keys {
    Keys::read(entries.iter().copied(), None).0
}

/// Returns a frame that is signed with the second key.
fn frame(kind: WireType, number: u8, fields: &WireFields) -> WireFrame {
    let keys = keys(&[("2", TWO)]);
    WireFrame::new(kind, number, fields, keys.get(KeyId(2)).expect("it was read").sip())
}

#[test]
fn polls_and_their_answers_are_read_if_their_tag_is_right() {
    let has = keys(&[("1", ONE), ("2", TWO)]);
    let wanted = |kind| {
        Some(Frame {
            kind,
            holder: Session::from_number(7).expect("not zero"),
            witness: Wid::from_number(8),
            stamp: 9,
        })
    };
    let nobody = WireFields { holder: 0, ..FIELDS };
    let rows = [
        ("a poll", frame(WireType::Poll, 2, &FIELDS), wanted(Kind::Poll)),
        ("an answer", frame(WireType::Silent, 2, &FIELDS), wanted(Kind::Silent)),
        ("the tag of another key", frame(WireType::Poll, 1, &FIELDS), None),
        ("an unknown key", frame(WireType::Poll, 3, &FIELDS), None),
        ("about no session", frame(WireType::Poll, 2, &nobody), None),
        ("a ping, which is the program's", frame(WireType::Ping, 2, &FIELDS), None),
        ("an echo", frame(WireType::Echo, 2, &FIELDS), None),
        ("an end", frame(WireType::Ended, 2, &FIELDS), None),
    ];
    for (what, frame, wanted) in rows {
        assert_eq!(read(&frame, &has), wanted, "{what}");
    }
    let mut bytes = frame(WireType::Poll, 2, &FIELDS).to_bytes();
    for place in 4..bytes.len() {
        bytes[place] ^= 1;
        let other = WireFrame::from_bytes(&bytes).expect("the magic stands");
        assert_eq!(read(&other, &has), None, "byte {place} was changed");
        bytes[place] ^= 1;
    }
}
