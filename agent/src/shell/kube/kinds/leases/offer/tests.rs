use proptest::prelude::*;
use vipward_core::records::{KeyId, Mode, Offer, Wid};

use super::{read, text};

fn wid(number: u64) -> Wid {
    Wid::from_number(number).expect("not zero")
}

fn offer() -> Offer {
    Offer {
        wid: wid(0xa),
        mode: Mode::Notice,
        round: 7,
        invited: vec![wid(0xb), wid(0xc), wid(0xd), wid(0xe)],
        set: vec![wid(0xb), wid(0xd)],
        need: 1,
        keys: vec![KeyId(1), KeyId(2)],
    }
}

const WRITTEN: &str = "{\"proto\":1,\"wid\":\"000000000000000a\",\"mode\":\"notice\",\"round\":7,\
                       \"invited\":[\"000000000000000b\",\"000000000000000c\",\
                       \"000000000000000d\",\"000000000000000e\"],\
                       \"set\":[\"000000000000000b\",\"000000000000000d\"],\"need\":1,\"keys\":[1,2]}";

#[test]
fn an_offer_has_this_form() {
    assert_eq!(text(&offer()), WRITTEN);
    assert_eq!(read(WRITTEN), Some(offer()));
}

#[test]
fn what_no_agent_writes_is_no_offer() {
    let rows = [
        ("another protocol", "\"proto\":1", "\"proto\":2"),
        ("no own number", "\"wid\":\"000000000000000a\"", "\"wid\":\"0000000000000000\""),
        ("a number with a sign", "\"wid\":\"000000000000000a\"", "\"wid\":\"+00000000000000a\""),
        ("a short number", "\"wid\":\"000000000000000a\"", "\"wid\":\"a\""),
        ("an unknown mode", "notice", "grants"),
        ("mode off with a set", "notice", "off"),
        ("a member that is not invited", "\"set\":[\"000000000000000b\"", "\"set\":[\"000000000000000f\""),
        ("a member twice", "\"set\":[\"000000000000000b\"", "\"set\":[\"000000000000000d\""),
        ("none that is needed", "\"need\":1", "\"need\":0"),
        ("more needed than there are", "\"need\":1", "\"need\":3"),
        ("a key without a number", "[1,2]", "[0,2]"),
        ("too many keys", "[1,2]", "[1,2,3,4,5]"),
        ("a key that is no byte", "[1,2]", "[1,256]"),
        ("too many invited", "\"invited\":[", "\"invited\":[\"0000000000000001\","),
        ("no JSON", "{", "["),
    ];
    for (what, from, to) in rows {
        let other = WRITTEN.replacen(from, to, 1);
        assert_ne!(other, WRITTEN, "{what}");
        assert_eq!(read(&other), None, "{what}: {other}");
    }
    for length in 0..WRITTEN.len() {
        assert_eq!(read(&WRITTEN[..length]), None, "{length} bytes");
    }
}

#[test]
fn a_field_of_a_later_version_is_ignored() {
    let later = WRITTEN.replacen('{', "{\"bound\":400,", 1);
    assert_eq!(read(&later), Some(offer()));
}

pub(in super::super) fn any_offer() -> impl Strategy<Value = Offer> {
    let wids = proptest::collection::btree_set(1..=u64::MAX, 0..=4);
    let keys = proptest::collection::btree_set(1..=u8::MAX, 0..=4);
    (1..=u64::MAX, wids, any::<u64>(), keys, 0..=3_usize, any::<prop::sample::Index>()).prop_map(
        |(own, invited, round, keys, counted, need)| {
            let invited: Vec<Wid> = invited.into_iter().map(wid).collect();
            let set: Vec<Wid> = invited.iter().copied().take(counted).collect();
            let (mode, need) = match set.len() {
                0 => (Mode::Off, 0),
                count => (Mode::Notice, 1 + need.index(count)),
            };
            let keys = keys.into_iter().map(KeyId).collect();
            Offer { wid: wid(own), mode, round, invited, set, need, keys }
        },
    )
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(offer in any_offer()) {
        prop_assert_eq!(read(&text(&offer)), Some(offer));
    }

    #[test]
    fn any_text_can_be_read(text in ".{0,200}") {
        let _ = read(&text);
    }
}
