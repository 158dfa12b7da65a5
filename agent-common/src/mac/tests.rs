use std::format;

use proptest::prelude::*;

use super::*;

#[test]
fn addresses_are_distinguished() {
    let rows: [(&str, [u8; 6], bool, bool, bool); 6] = [
        ("zero", [0; 6], true, false, false),
        ("broadcast", [0xff; 6], false, true, false),
        ("multicast", [0x01, 0, 0x5e, 0, 0, 1], false, true, false),
        ("local unicast", [0x02, 0, 0, 0, 0, 1], false, false, true),
        ("only the last byte", [0, 0, 0, 0, 0, 1], false, false, true),
        ("only the first byte", [0x10, 0, 0, 0, 0, 0], false, false, true),
    ];
    for (what, mac, zero, multicast, unicast) in rows {
        let mac = MacAddr(mac);
        assert_eq!(
            (mac.is_zero(), mac.is_multicast(), mac.is_unicast()),
            (zero, multicast, unicast),
            "{what}"
        );
    }
}

#[test]
fn addresses_are_printed_as_people_write_them() {
    let mac = MacAddr([0x02, 0, 0x5e, 0x0a, 0xb0, 0xff]);
    assert_eq!(format!("{mac} {mac:?}"), "02:00:5e:0a:b0:ff 02:00:5e:0a:b0:ff");
}

proptest! {
    #[test]
    fn bits_and_address_are_each_others_inverse(mac: [u8; 6], rest: u16) {
        let mac = MacAddr(mac);
        prop_assert_eq!(mac.to_bits() >> 48, 0);
        prop_assert_eq!(MacAddr::from_bits(mac.to_bits()), mac);
        prop_assert_eq!(MacAddr::from_bits(mac.to_bits() | u64::from(rest) << 48), mac);
        prop_assert_eq!(mac.to_bits() == 0, mac.0 == [0; 6]);
    }
}
