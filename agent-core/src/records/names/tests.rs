use super::*;

#[test]
fn a_version_is_older_than_another_only_if_both_are_numbers() {
    let rows = [
        ("9", "10", true),
        ("10", "9", false),
        ("10", "10", false),
        ("9", "", false),
        ("", "9", false),
        ("a9", "a10", false),
        ("18446744073709551615", "18446744073709551616", false),
    ];
    for (version, known, expected) in rows {
        assert_eq!(
            Version::from(version).is_older_than(&known.into()),
            expected,
            "{version:?} and {known:?}"
        );
    }
}

#[test]
fn a_session_is_sixteen_hexadecimal_digits_and_not_zero() {
    let rows = [
        ("00000000000000ff", Session::from_number(255)),
        ("ffffffffffffffff", Session::from_number(u64::MAX)),
        ("0000000000000000", None),
        ("ff", None),
        ("+00000000000000f", None),
        ("000000000000000g", None),
    ];
    for (text, expected) in rows {
        assert_eq!(Session::parse(text), expected, "{text}");
    }
}

#[test]
fn a_vip_has_one_name_and_a_name_one_vip() {
    for (vip, name) in [
        ("192.0.2.10", "192.0.2.10"),
        ("2001:db8::10", "2001-0db8-0000-0000-0000-0000-0000-0010"),
        ("2001:db8:1:2:3:4:5:abcd", "2001-0db8-0001-0002-0003-0004-0005-abcd"),
    ] {
        let vip: IpAddr = vip.parse().expect("an address");
        assert_eq!(object_name(vip), name);
        assert_eq!(vip_named(name), Some(vip));
    }
    for name in [
        "192.0.2.010",
        "192-0-2-10",
        "2001:db8::10",
        "2001-db8--10",
        "2001-0DB8-0000-0000-0000-0000-0000-0010",
        "2001-0db8-0000-0000-0000-0000-0000-0010-0000",
        "web",
        "",
    ] {
        assert_eq!(vip_named(name), None, "{name}");
    }
}
