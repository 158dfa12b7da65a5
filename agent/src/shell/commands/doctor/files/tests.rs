use super::*;

#[test]
fn the_neighbour_table_is_read_from_its_statistics() {
    let header = "entries  allocs   destroys hash_grows lookups table_fulls\n";
    let old = "entries  allocs\n";
    let table = [
        (format!("{header}0000000c 1 1 1 1 00000002\n0000000c 1 1 1 1 0000000f\n"), Some((12, 17))),
        (format!("{header}000003ff 1 1 1 1 0\n"), Some((1_023, 0))),
        // Linux before 4.3 did not count overflows.
        (format!("{old}0000000a 1\n"), Some((10, 0))),
        (header.to_owned(), None),
        (String::new(), None),
        (format!("{header}0000000c 1\n"), None),
        (format!("{header}xyz 1 1 1 1 0\n"), None),
        ("allocs\n1\n".to_owned(), None),
    ];
    for (text, expected) in table {
        assert_eq!(arp_cache(&text), expected, "{text:?}");
    }
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let unread = text(Path::new("/proc/no-such-file")).expect_err("it is not there");
    assert!(unread.reason.contains("/proc/no-such-file") && unread.cause == Cause::Failed, "{unread:?}");
}

#[test]
fn the_flags_of_an_interface_tell_if_it_is_promiscuous() {
    for (flags, expected) in
        [("0x1003\n", Some(false)), ("0x1103\n", Some(true)), ("0x\n", None), ("4355", None), ("", None)]
    {
        assert_eq!(is_promiscuous(flags), expected, "{flags:?}");
    }
    assert_eq!(wireless("lo").expect("flags"), None);
    assert!(wireless("no-such-interface").is_err());
}

#[test]
fn how_much_may_be_locked_is_read_from_the_limits() {
    let limits = |value: &str| {
        format!("Limit        Soft Limit  Hard Limit  Units\nMax locked memory  {value}  unlimited  bytes\n")
    };
    assert_eq!(locked_bytes(&limits("8388608")), Some(8 << 20));
    assert_eq!(locked_bytes(&limits("unlimited")), Some(u64::MAX));
    assert_eq!(locked_bytes(&limits("many")), None);
    assert_eq!(locked_bytes("Max cpu time unlimited\n"), None);
}
