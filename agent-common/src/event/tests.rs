use std::{net::Ipv4Addr, vec, vec::Vec};

use proptest::prelude::*;

use super::*;

const KINDS: [EventKind; 5] =
    [EventKind::Conflict, EventKind::Contested, EventKind::Moved, EventKind::Yielded, EventKind::Sighted];
/// The offset of the kind in a record.
const KIND_AT: usize = 16;

fn event(kind: EventKind) -> Event {
    Event {
        at_ns: 0x0102_0304_0506_0708,
        swallowed: 9,
        kind,
        ifindex: 3,
        oper: 2,
        vip: Ipv4Addr::new(192, 0, 2, 10).to_ipv6_mapped().octets(),
        sha: [2, 0, 0, 0, 0, 1],
        source: [2, 0, 0, 0, 0, 2],
        holder: [2, 0, 0, 0, 0, 3],
        _pad: [0; 4],
    }
}

#[test]
fn the_name_of_an_event_is_one_word() {
    let words = ["conflict", "contested", "moved", "yielded", "sighted", "probed"];
    for (number, word) in (1_u32..).zip(words) {
        let kind: EventKind = *bytemuck::checked::from_bytes(bytemuck::bytes_of(&number));
        assert_eq!(kind.name(), word, "{kind:?}");
    }
}

#[test]
fn a_record_is_read_back_as_it_was_written_wherever_it_lies() {
    for kind in KINDS {
        let event = event(kind);
        // The slice begins one byte later, so that no field is aligned.
        let mut moved = vec![0];
        moved.extend_from_slice(bytemuck::bytes_of(&event));
        assert_eq!(Event::from_bytes(&moved[1..]), Some(event));
    }
}

#[test]
fn a_record_of_any_other_length_is_none() {
    let mut bytes = bytemuck::bytes_of(&event(EventKind::Conflict)).to_vec();
    bytes.extend_from_slice(&[0; 64]);
    for len in (0..bytes.len()).filter(|len| *len != size_of::<Event>()) {
        assert_eq!(Event::from_bytes(&bytes[..len]), None, "{len} bytes");
    }
}

#[test]
fn a_record_of_an_unknown_kind_is_none() {
    for kind in [0, 7, 0x100, u32::MAX] {
        let mut bytes = bytemuck::bytes_of(&event(EventKind::Conflict)).to_vec();
        bytes[KIND_AT..KIND_AT + 4].copy_from_slice(&u32::to_ne_bytes(kind));
        assert_eq!(Event::from_bytes(&bytes), None, "kind {kind}");
    }
}

#[test]
fn generation_zero_is_never_yielded() {
    assert_eq!(Yield::default().generation, 0);
    assert_eq!(Yield::of_generation(0, 1), None);
}

proptest! {
    #[test]
    fn random_bytes_are_a_record_only_if_they_name_a_kind(
        bytes in proptest::collection::vec(any::<u8>(), 0..2 * size_of::<Event>()),
    ) {
        let kind = bytes.get(KIND_AT..KIND_AT + 4).map(<[u8]>::to_vec);
        let known = kind.is_some_and(|kind| KINDS.iter().any(|known| bytemuck::bytes_of(known) == kind));
        let event = Event::from_bytes(&bytes);
        prop_assert_eq!(event.is_some(), known && bytes.len() == size_of::<Event>());
        if let Some(event) = event {
            let written: Vec<u8> = bytemuck::bytes_of(&event).to_vec();
            prop_assert_eq!(written, bytes);
        }
    }

    #[test]
    fn the_word_and_the_fields_of_a_yield_are_the_same_bytes(mac: [u8; 6], generation: u16) {
        let fields = Yield { mac, generation };
        let word = Yield::to_word(MacAddr(mac), generation);
        prop_assert_eq!(bytemuck::bytes_of(&word), bytemuck::bytes_of(&fields));
    }

    #[test]
    fn a_word_gives_its_mac_to_its_own_generation_only(mac: [u8; 6], generation: u16, other: u16) {
        let word = Yield::to_word(MacAddr(mac), generation);
        prop_assert_eq!(Yield::of_generation(word, generation), Some(MacAddr(mac)));
        if other != generation {
            prop_assert_eq!(Yield::of_generation(word, other), None);
        }
    }
}
