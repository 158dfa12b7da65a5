use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

#[test]
fn addresses_of_one_network_have_a_bit_each() {
    for network in [[10, 0], [10, 15], [172, 16], [192, 168], [0, 0], [255, 255]] {
        let [a, b] = network;
        let all = (0..=u8::MAX).flat_map(|c| (0..=u8::MAX).map(move |d| filter_bit([a, b, c, d])));
        assert_eq!(all.collect::<BTreeSet<_>>().len(), 1 << 16, "{a}.{b}.0.0/16");
    }
}

#[test]
fn neighbours_share_words() {
    let words: BTreeSet<_> = (0..64).map(|d| filter_bit([192, 0, 2, d]) / 64).collect();
    assert_eq!(words.len(), 1);
}

#[test]
fn the_same_host_in_different_networks_rarely_shares_a_bit() {
    let mut bits: BTreeMap<u32, u32> = BTreeMap::new();
    for network in 0..4_096_u32 {
        *bits.entry(filter_bit((network << 20 | 0x0000_0001).to_be_bytes())).or_default() += 1;
    }
    assert!(bits.values().all(|networks| *networks <= 4), "a bit stands for many networks");
    assert!(bits.len() > 4_000, "4,096 networks share {} bits", bits.len());
}

proptest! {
    #[test]
    fn every_address_has_a_bit_within_the_map(addr: [u8; 4]) {
        prop_assert!(filter_bit(addr) < FILTER_BITS);
        prop_assert!(filter_bit(addr) / 64 < FILTER_WORDS);
    }
}
