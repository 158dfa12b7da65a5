use super::{ADVERTISEMENT, ALL_NODES, Nd, OVERRIDE, SOLICITED};
use crate::frames::Mac;

const CLIENT: Mac = Mac([2, 0, 0, 0, 0, 1]);

/// A solicitation as a packet dump shows it, so that builder and parser cannot be wrong together.
const DUMPED: &str = "3333ff00001002000000000186dd6000000000203aff\
    20010db8000000000000000000000001ff0200000000000000000001ff000010\
    87001c0b00000000\
    20010db80000000000000000000000100101020000000001";

fn dumped() -> Vec<u8> {
    let digits: Vec<_> = DUMPED.chars().filter_map(|digit| digit.to_digit(16)).collect();
    digits.chunks(2).map(|pair| u8::try_from(pair[0] << 4 | pair[1]).expect("two digits")).collect()
}

fn example() -> Nd {
    let address = |text: &str| text.parse().expect("an address");
    Nd::solicitation(CLIENT, address("2001:db8::1"), address("2001:db8::10"))
}

#[test]
fn a_solicitation_has_the_bytes_of_the_rfc() {
    assert_eq!(example().to_bytes(), dumped());
    assert_eq!(Nd::parse(&dumped()).ok(), Some(example()));
}

#[test]
fn messages_survive_writing_and_reading() {
    let target = example().target;
    for message in [
        example().to(Mac::local(2)),
        Nd::probe(CLIENT, target, None),
        Nd::probe(CLIENT, target, Some([9; 6])),
        Nd::announcement(CLIENT, target),
        example().answered_by(CLIENT),
    ] {
        assert_eq!(Nd::parse(&message.to_bytes()).ok(), Some(message));
    }
}

#[test]
fn nothing_that_is_cut_or_changed_is_read() {
    let bytes = dumped();
    for len in 0..bytes.len() {
        assert!(Nd::parse(&bytes[..len]).is_err(), "{len} bytes");
    }
    for at in 22..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        assert!(Nd::parse(&changed).is_err(), "byte {at}");
    }
}

#[test]
fn an_answer_goes_to_who_asked_and_that_to_a_probe_to_all() {
    let node = Mac::local(2);
    let answer = example().answered_by(node);
    assert_eq!((answer.kind, answer.flags), (ADVERTISEMENT, SOLICITED | OVERRIDE));
    assert_eq!((answer.eth_dst, answer.destination), (CLIENT, example().source));
    assert_eq!(answer.sender(), node);
    let answer = Nd::probe(CLIENT, example().target, None).answered_by(node);
    assert_eq!((answer.flags, answer.destination), (OVERRIDE, ALL_NODES));
    let unicast = Nd { options: Vec::new(), ..example().to(node) };
    assert_eq!((unicast.answered_by(node).flags, unicast.answered_by(node).options), (SOLICITED, vec![]));
}
