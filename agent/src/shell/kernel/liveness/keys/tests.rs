use vipward_common::SipKey;
use vipward_core::records::KeyId;

use super::{Fault, Key, Keys};

const ONE: &str = "000102030405060708090a0b0c0d0e0f";
const TWO: &str = "f0e0d0c0b0a090807060504030201000";

fn ids(of: &Keys) -> Vec<u8> {
    of.ids().into_iter().map(|KeyId(id)| id).collect()
}

#[test]
fn a_key_is_read_as_the_two_words_of_siphash() {
    let (keys, faults) = Keys::read([("1", ONE)], None);
    assert_eq!(faults, []);
    let key = keys.get(KeyId(1)).expect("it was read");
    // The key of the vectors that SipHash's authors published.
    let SipKey { k0, k1 } = key.sip();
    assert_eq!((k0, k1), (0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908));
    assert_eq!(key.secret_text(), ONE);
    let (other, _) = Keys::read([("1", &*ONE.to_uppercase())], None);
    assert_eq!(other, keys, "digits in upper case, as people may write them");
    let (other, _) = Keys::read([("1", &*format!("{ONE}\n"))], None);
    assert_eq!(other, keys, "a line's end, as `kubectl create secret --from-file` leaves it");
}

#[test]
fn the_newest_key_is_the_last() {
    /// The entries, the annotation, the keys in order, the next number, and what is shown.
    type Row = (&'static [&'static str], Option<&'static str>, &'static [u8], u8, &'static str);
    let rows: [Row; 7] = [
        (&[], None, &[], 1, "none"),
        (&["1"], None, &[1], 2, "one"),
        (&["2", "1"], None, &[1, 2], 3, "the larger number is newer"),
        (&["255"], None, &[255], 1, "1 follows 255"),
        (&["255", "1"], Some("1"), &[255, 1], 2, "and is newer, if the Secret says so"),
        (&["254", "255"], Some("7"), &[254, 255], 1, "a number that there is not counts for nothing"),
        (&["2", "3"], Some("newest"), &[2, 3], 4, "and so does what is no number"),
    ];
    for (names, newest, wanted, next, what) in rows {
        let (keys, faults) = Keys::read(names.iter().map(|name| (*name, ONE)), newest);
        assert_eq!((ids(&keys), keys.next_id(), faults), (wanted.to_vec(), KeyId(next), vec![]), "{what}");
    }
}

#[test]
fn what_is_no_key_is_left_out_and_named_without_its_value() {
    let long = "9".repeat(1_000);
    for name in ["0", "256", "01", "+1", "a", "", &long] {
        let (keys, faults) = Keys::read([(name, ONE), ("3", TWO)], None);
        assert_eq!(ids(&keys), [3], "{name}");
        assert_eq!(faults, [Fault::Name { name: name.chars().take(64).collect() }]);
    }
    let long = format!("{ONE}00");
    for value in
        ["", "00", &ONE[1..], &long, "g00102030405060708090a0b0c0d0e0f", "ö0102030405060708090a0b0c0d0e0"]
    {
        let (keys, faults) = Keys::read([("1", value), ("2", TWO)], None);
        assert_eq!((ids(&keys), faults.clone()), (vec![2], vec![Fault::Value { id: 1 }]), "{value}");
        assert_eq!(faults[0].to_string(), "the value of entry 1 is not 32 hexadecimal digits");
    }
}

#[test]
fn of_two_keys_with_one_place_the_newer_counts() {
    let (keys, faults) = Keys::read([("1", ONE), ("5", TWO), ("4", ONE)], None);
    assert_eq!((ids(&keys), faults), (vec![4, 5], vec![Fault::Place { id: 1, other: 5 }]));
    let (keys, faults) = Keys::read([("1", ONE), ("5", TWO)], Some("1"));
    assert_eq!((ids(&keys), faults), (vec![1], vec![Fault::Place { id: 5, other: 1 }]));
}

#[test]
fn a_key_is_not_shown() {
    let (keys, _) = Keys::read([("1", ONE)], None);
    let shown = format!("{keys:?} {:#?}", keys.get(KeyId(1)));
    assert!(shown.contains("Key(..)"), "{shown}");
    assert!(!shown.contains("0001") && !shown.contains("506097522914230528"), "{shown}");
}

#[test]
fn new_keys_differ() {
    let (one, other) = (Key::random().expect("random bytes"), Key::random().expect("random bytes"));
    assert_ne!(one, other);
}

#[test]
fn a_key_with_the_number_of_another_replaces_it() {
    let (before, _) = Keys::read([("1", ONE)], None);
    let rows: [(&[(&str, &str)], bool); 4] =
        [(&[("1", ONE)], false), (&[("1", ONE), ("2", TWO)], false), (&[("1", TWO)], true), (&[], false)];
    for (entries, expected) in rows {
        let (keys, _) = Keys::read(entries.iter().copied(), None);
        assert_eq!(keys.replaces_any_of(&before), expected, "{entries:?}");
    }
}
