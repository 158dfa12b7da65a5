use proptest::prelude::*;

use super::*;

#[test]
fn a_mac_is_read_only_if_an_interface_can_have_it() {
    let rows = [
        ("02:00:00:00:00:0a", Some(MacAddr([2, 0, 0, 0, 0, 10])), "as it is displayed"),
        ("02:00:00:00:00:0A", Some(MacAddr([2, 0, 0, 0, 0, 10])), "upper case"),
        ("", None, "nothing"),
        ("02:00:00:00:00", None, "too short"),
        ("02:00:00:00:00:0a:0b", None, "too long"),
        ("2:0:0:0:0:a", None, "single digits"),
        ("02:00:00:00:00:+a", None, "a sign"),
        ("02-00-00-00-00-0a", None, "other separators"),
        ("00:00:00:00:00:00", None, "zero"),
        ("ff:ff:ff:ff:ff:ff", None, "broadcast"),
        ("01:00:5e:00:00:01", None, "multicast"),
    ];
    for (text, expected, description) in rows {
        assert_eq!(mac(text), expected, "{description}");
    }
}

#[test]
fn services_are_read_as_far_as_they_are_names() {
    let service =
        |namespace: &str, name: &str| ServiceName { namespace: namespace.into(), name: name.into() };
    let rows = [
        ("", vec![], "none"),
        ("a/b", vec![service("a", "b")], "one"),
        ("a/b,c/d", vec![service("a", "b"), service("c", "d")], "two"),
        ("a/b, c/d,", vec![service("a", "b"), service("c", "d")], "as people write lists"),
        ("a,b/,/c,d/e/f,g/h", vec![service("g", "h")], "nonsense between"),
    ];
    for (text, expected, description) in rows {
        assert_eq!(split_services(text), expected, "{description}");
    }
}

#[test]
fn text_is_cut_between_characters() {
    assert_eq!(clipped("größe", 3), "grö");
    assert_eq!(clipped("größe", 5), "größe");
    assert_eq!(clipped("größe", 0), "");
    for (bytes, expected) in [(0, ""), (2, "gr"), (3, "gr"), (4, "grö"), (7, "größe"), (8, "größe")] {
        assert_eq!(clipped_bytes("größe", bytes), expected, "{bytes} bytes");
    }
}

#[test]
fn times_have_the_form_that_the_api_server_accepts() {
    let at = Timestamp::new(1_700_000_000, 123_456_789).expect("in range");
    assert_eq!(time(at), "2023-11-14T22:13:20Z");
    assert_eq!(micro_time(at), "2023-11-14T22:13:20.123456Z");
}

proptest! {
    #[test]
    fn any_text_can_be_read(text in ".{0,64}") {
        let _ = (mac(&text), split_services(&text));
    }

    #[test]
    fn a_mac_is_read_back(octets: [u8; 6]) {
        let written = MacAddr([octets[0] & !1 | 2, octets[1], octets[2], octets[3], octets[4], octets[5]]);
        prop_assert_eq!(mac(&written.to_string()), Some(written));
    }
}
