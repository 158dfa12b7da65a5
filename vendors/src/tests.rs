use proptest::prelude::*;

use super::*;

#[track_caller]
fn described(mac: [u8; 6]) -> String {
    of(MacAddr(mac)).to_string()
}

#[test]
fn prefixes_of_24_28_and_36_bits_are_known_by_the_names_of_the_registry() {
    // From the IEEE's public listings, not from the table.
    for (mac, expected) in [
        ([0x00, 0x00, 0x00, 0xab, 0xcd, 0xef], "XEROX CORPORATION"),
        ([0x00, 0x00, 0x0c, 0x01, 0x02, 0x03], "Cisco Systems, Inc"),
        ([0x00, 0x1b, 0x21, 0x01, 0x02, 0x03], "Intel Corporate"),
        ([0xb8, 0x27, 0xeb, 0x00, 0x00, 0x01], "Raspberry Pi Foundation"),
        ([0x08, 0x00, 0x20, 0x00, 0x00, 0x01], "Oracle Corporation"),
        ([0xc8, 0x5c, 0xe2, 0x7f, 0xff, 0xff], "SYNERGY SYSTEMS AND SOLUTIONS"),
        ([0x8c, 0x1f, 0x64, 0xaf, 0xaf, 0xff], "DATA ELECTRONIC DEVICES, INC"),
        // A small block of the older kind (IAB).
        ([0x00, 0x50, 0xc2, 0xf7, 0x10, 0x00], "RF Code"),
    ] {
        assert_eq!(described(mac), expected, "{}", MacAddr(mac));
    }
}

#[test]
fn addresses_without_a_vendor_say_why() {
    for (mac, expected) in [
        ([0; 6], "no address (all zeros)"),
        ([0xff; 6], "broadcast"),
        ([0x01, 0x00, 0x5e, 0x00, 0x00, 0x01], "multicast"),
        ([0x33, 0x33, 0x00, 0x00, 0x00, 0x01], "multicast"),
        ([0x02, 0, 0, 0, 0, 0x0a], "locally administered"),
        ([0xe2, 0x4b, 0x1f, 0xa5, 0x33, 0x87], "locally administered"),
        ([0x74, 0x1a, 0xe0, 0x90, 0x00, 0x00], "registered, name withheld"),
        // An unassigned part of a block that the registry divides.
        ([0x00, 0x50, 0xc2, 0x04, 0xdf, 0xff], "unassigned"),
    ] {
        assert_eq!(described(mac), expected, "{}", MacAddr(mac));
    }
}

#[test]
fn ranges_with_one_use_are_named_with_their_number() {
    for (mac, expected) in [
        ([0x00, 0x00, 0x5e, 0x00, 0x01, 51], "VRRP or CARP virtual router, VRID 51"),
        ([0x00, 0x00, 0x5e, 0x00, 0x01, 255], "VRRP or CARP virtual router, VRID 255"),
        ([0x00, 0x00, 0x5e, 0x00, 0x02, 1], "VRRP virtual router (IPv6), VRID 1"),
        ([0x00, 0x00, 0x0c, 0x07, 0xac, 7], "HSRP virtual router, group 7"),
        ([0x00, 0x00, 0x0c, 0x9f, 0xff, 0xff], "HSRP version 2 virtual router, group 4095"),
        ([0x00, 0x07, 0xb4, 0x00, 0x01, 0x02], "GLBP virtual gateway"),
        ([0x52, 0x54, 0x00, 1, 2, 3], "QEMU/KVM virtual machine"),
        ([0x00, 0x50, 0x56, 1, 2, 3], "VMware"),
        ([0x00, 0x0c, 0x29, 1, 2, 3], "VMware virtual machine"),
        ([0x00, 0x16, 0x3e, 1, 2, 3], "Xen virtual machine"),
        ([0x00, 0x15, 0x5d, 1, 2, 3], "Hyper-V virtual machine"),
        ([0x02, 0x42, 0xac, 0x11, 0, 2], "Docker container"),
        ([0xee; 6], "Calico, host side of a container"),
        ([0xee, 0xee, 0xee, 0xee, 0xee, 0xef], "locally administered"),
    ] {
        assert_eq!(described(mac), expected, "{}", MacAddr(mac));
    }
}

#[test]
fn the_table_has_its_date_and_its_origin() {
    let date = table_date();
    let parts: Vec<&str> = date.split('-').collect();
    assert!(matches!(parts[..], [year, _, _] if year >= "2026"), "{date}");
    assert!(PREFIXES.lines().take(4).any(|line| line.starts_with("# Origin: ")));
}

#[test]
fn the_table_is_sorted_and_every_line_of_it_is_found() {
    let lines = PREFIXES.lines().filter(|line| !line.starts_with('#'));
    let entries: Vec<(&str, &str)> = lines.map(|line| line.split_once('\t').expect("a tab")).collect();
    assert!(entries.len() > 50_000, "{}", entries.len());
    assert!(entries.is_sorted_by(|a, b| a.0 < b.0));
    for (prefix, name) in entries {
        assert_eq!(find(PREFIXES, prefix), Some(name), "{prefix}");
        assert!(!name.is_empty() && !name.contains(char::is_control), "{prefix}: {name:?}");
    }
    for absent in ["", "#", "0", "FFFFFF", "FFFFFFFFF", "00000", "0000000"] {
        assert_eq!(find(PREFIXES, absent), None, "{absent:?}");
    }
}

#[test]
fn a_table_of_any_shape_is_searched_to_its_end() {
    for (lines, prefix, expected) in [
        ("", "A", None),
        ("A\tx", "A", Some("x")),
        ("A\tx\n", "B", None),
        ("A\tx\nC\ty", "C", Some("y")),
        ("A\tx\nC\ty\n", "B", None),
        ("# c\nA\tx\nC\ty\n", "A", Some("x")),
        ("no tab\n", "A", None),
        ("\n\n", "A", None),
    ] {
        assert_eq!(find(lines, prefix), expected, "{prefix} in {lines:?}");
    }
}

proptest! {
    #[test]
    fn every_address_has_an_answer(mac: [u8; 6]) {
        prop_assert!(!described(mac).is_empty());
    }
}
