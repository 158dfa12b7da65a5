#![expect(deprecated, reason = "the standard library's is an implementation to compare with")]

use std::hash::{Hasher as _, SipHasher};

use proptest::prelude::*;

use super::*;

fn units<const N: usize>(bytes: &[u8]) -> [u64; N] {
    core::array::from_fn(|unit| u64::from_ne_bytes(bytes[unit * 8..][..8].try_into().expect("eight")))
}

fn of_the_first<const N: usize>() -> [u8; 8] {
    let bytes: std::vec::Vec<u8> = (0..).take(N * 8).collect();
    SipKey::from_bytes(core::array::from_fn(|byte| byte.to_le_bytes()[0]))
        .hash(&units::<N>(&bytes))
        .to_le_bytes()
}

/// The vectors that the authors publish with their code (`vectors_sip64`): the key is 00 to 0f, and the
/// message as many bytes from 00.
#[test]
fn the_published_vectors_come_out() {
    let rows = [
        (0, of_the_first::<0>(), [0x31, 0x0e, 0x0e, 0xdd, 0x47, 0xdb, 0x6f, 0x72]),
        (8, of_the_first::<1>(), [0x62, 0x24, 0x93, 0x9a, 0x79, 0xf5, 0xf5, 0x93]),
        (16, of_the_first::<2>(), [0xdb, 0x9b, 0xc2, 0x57, 0x7f, 0xcc, 0x2a, 0x3f]),
        (24, of_the_first::<3>(), [0x94, 0xaf, 0x49, 0xf6, 0xc6, 0x50, 0xad, 0xb8]),
        (32, of_the_first::<4>(), [0xce, 0x7c, 0xf2, 0x72, 0x2f, 0x51, 0x27, 0x71]),
        (40, of_the_first::<5>(), [0xd0, 0xa7, 0x04, 0x53, 0x6b, 0xa9, 0x3e, 0x0e]),
        (48, of_the_first::<6>(), [0x51, 0xa9, 0xcb, 0x9e, 0xcb, 0xa3, 0x12, 0xe6]),
        (56, of_the_first::<7>(), [0xbd, 0x83, 0x8d, 0x3a, 0xaf, 0xbf, 0x8d, 0xb7]),
    ];
    for (len, hash, expected) in rows {
        assert_eq!(hash, expected, "{len} bytes");
    }
}

proptest! {
    #[test]
    fn any_message_has_the_hash_that_the_standard_library_gives_it(key: [u8; 16], bytes: [[u8; 8]; 6]) {
        let SipKey { k0, k1 } = SipKey::from_bytes(key);
        prop_assert_eq!(u128::from_le_bytes(key), u128::from(k1) << 64 | u128::from(k0));
        let mut other = SipHasher::new_with_keys(k0, k1);
        other.write(bytes.as_flattened());
        prop_assert_eq!(SipKey { k0, k1 }.hash(&units::<6>(bytes.as_flattened())), other.finish());
    }
}
