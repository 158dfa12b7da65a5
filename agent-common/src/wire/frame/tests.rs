use proptest::prelude::*;

use super::*;

fn key() -> SipKey {
    SipKey::from_bytes([7; 16])
}

const FIELDS: WireFields = WireFields {
    holder: 0x0102_0304_0506_0708,
    wid: 0x1112_1314_1516_1718,
    round: 0x2122_2324_2526_2728,
    sent_ns: 0x3132_3334_3536_3738,
    answered_ns: 0x4142_4344_4546_4748,
};

#[test]
fn every_field_stands_where_the_format_says_in_big_endian_order() {
    let bytes = WireFrame::new(WireType::Vote, 255, &FIELDS, key()).to_bytes();
    assert_eq!(bytes[..4], *b"VPW1");
    assert_eq!(bytes[4..8], [5, 255, 0, 0]);
    assert_eq!(bytes[8..16], [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(bytes[16..24], [0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18]);
    assert_eq!(bytes[24..32], [0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28]);
    assert_eq!(bytes[32..40], [0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38]);
    assert_eq!(bytes[40..48], [0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48]);
    let units = core::array::from_fn(|unit| {
        u64::from_ne_bytes(bytes[unit * 8..][..8].try_into().expect("eight bytes"))
    });
    assert_eq!(bytes[48..], key().hash::<6>(&units).to_be_bytes());
    assert_eq!(bytes.len(), 56);
}

#[test]
fn the_types_have_their_numbers_and_the_others_are_none() {
    for number in 0..=u8::MAX {
        let expected = WireType::ALL.into_iter().find(|kind| *kind as u8 == number);
        assert_eq!(WireType::from_number(number), expected, "{number}");
    }
    assert_eq!(WireType::ALL.map(|kind| kind as u8), [1, 2, 4, 5, 8]);
}

#[test]
fn a_frame_is_read_from_whole_bytes_with_the_magic_alone() {
    let frame = WireFrame::new(WireType::VoteRequest, 3, &FIELDS, key());
    let bytes = frame.to_bytes();
    for len in 0..bytes.len() {
        assert_eq!(WireFrame::from_bytes(&bytes[..len]), None, "{len} bytes");
    }
    assert_eq!(WireFrame::from_bytes(&bytes), Some(frame));
    assert_eq!(WireFrame::from_bytes(&[&bytes[..], &[0xff; 9]].concat()), Some(frame), "with a trailer");
    for byte in 0..4 {
        let mut other = bytes;
        other[byte] ^= 1;
        assert_eq!(WireFrame::from_bytes(&other), None, "byte {byte} of the magic");
    }
    assert_eq!((frame.kind(), frame.key(), frame.fields()), (Some(WireType::VoteRequest), 3, FIELDS));
}

#[test]
fn the_tag_covers_every_bit_and_depends_on_the_key() {
    let frame = WireFrame::new(WireType::Ended, 1, &FIELDS, key());
    assert!(frame.is_signed(key()));
    assert!(!frame.is_signed(SipKey::from_bytes([8; 16])));
    for bit in 4 * 8..WIRE_LEN * 8 {
        let mut bytes = frame.to_bytes();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let other = WireFrame::from_bytes(&bytes).expect("the magic is there");
        assert!(!other.is_signed(key()), "bit {bit}");
    }
}

proptest! {
    #[test]
    fn any_bytes_with_the_magic_are_read_and_written_back(mut bytes: [[u8; 8]; 7]) {
        bytes.as_flattened_mut()[..4].copy_from_slice(b"VPW1");
        let frame = WireFrame::from_bytes(bytes.as_flattened()).expect("whole");
        prop_assert_eq!(&frame.to_bytes()[..], bytes.as_flattened());
    }

    #[test]
    fn an_echo_keeps_who_asks_whom_and_when(holder: u64, wid: u64, round: u64, sent_ns: u64, at: u64) {
        let fields = WireFields { holder, wid, round, sent_ns, answered_ns: 1 };
        let mut frame = WireFrame::new(WireType::Ping, 9, &fields, key());
        frame.turn_into_echo(at, key());
        let expected = WireFields { round: 0, answered_ns: at, ..fields };
        prop_assert_eq!(frame, WireFrame::new(WireType::Echo, 9, &expected, key()));
    }
}
