use super::*;

fn message(text: &str) -> String {
    match parse(text) {
        Ok(config) => panic!("accepted {text:?} as {config:?}"),
        Err(error) => error.to_string(),
    }
}

/// Checks that each file is refused at one place for one reason.
fn each_is_refused(table: &[(&str, &str)]) {
    for (text, expected) in table {
        assert_eq!(message(text), format!("vipward.yaml:{expected}"), "{text:?}");
    }
}

/// Checks that each file of one line after `vips: []` is refused.
fn each_line_is_refused(table: &[(&str, &str)]) {
    for (line, expected) in table {
        each_is_refused(&[(&format!("vips: []\n{line}\n"), expected)]);
    }
}

#[test]
fn a_file_without_content_is_refused() {
    for text in ["", "\n\n", "# vips: []\n", "---\n# nothing but a comment\n...\n"] {
        assert_eq!(message(text), "vipward.yaml is empty; the least is `vips: []`", "{text:?}");
    }
}

#[test]
fn a_file_of_the_wrong_shape_is_refused_in_words() {
    each_is_refused(&[
        ("hello\n", "1:1: this should be `key: value` lines, or {key: value}"),
        ("- 192.0.2.10\n", "1:1: this should be `key: value` lines, or {key: value}"),
        ("node: a\n", "1:1: the key `vips` is missing; write `vips: []` for none"),
        ("vips:\n", "1:5: `vips` has no value; write `vips: []` for none"),
        ("vips: ~\n", "1:7: `vips` has no value; write `vips: []` for none"),
        ("vips:\n  - interface: eth0\n", "2:5: the key `address` is missing"),
        ("vips: [{address: }]\n", "1:16: there is no value; write one, or leave the key out"),
        (
            "vips: []\nvipz: 1\n",
            "2:1: unknown key `vipz`; the keys here are node, interfaces, vips, peers, attach, fence, \
             announce, probe, conflicts, yield, shutdown",
        ),
        (
            "vips:\n  - address: 192.0.2.10\n    color: red\n",
            "3:5: unknown key `color`; the keys here are address, interface, vlan, bind, mac, force",
        ),
        (
            "vips: []\nfence: {hold-for: 1h}\n",
            "2:9: unknown key `hold-for`; the keys here are duration, heartbeat, policy, hold_for",
        ),
        ("vips: []\nannounce: {x: 1}\n", "2:12: unknown key `x`; the keys here are refresh, rate"),
        (
            "vips:\n  - address: 192.0.2.10\n    \"\\e[31m at line 7\": red\n",
            "3:5: unknown key `\\u{1b}[31m at line 7`; the keys here are address, interface, vlan, bind, mac, force",
        ),
        ("vips: []\nvips: []\n", "2:1: the key `vips` is given twice; remove one of the two"),
        ("vips: 5\n", "1:7: this should be a list: lines that begin with `- `, or [a, b]"),
        ("vips:\n  - 192.0.2.10\n", "2:5: this should be `key: value` lines, or {key: value}"),
        ("vips: []\nfence: 3s\n", "2:8: this should be `key: value` lines, or {key: value}"),
        ("vips: []\nnode: [a]\n", "2:7: this should be one value"),
        ("vips: [\n", "1:7: unclosed bracket '['"),
        ("vips: []\n\tnode: x\n", "2:2: tabs disallowed within this context (block indentation)"),
        ("vips: []\n---\nvips: []\n", "3:1: there is a second YAML document; a file has one"),
    ]);
}

#[test]
fn a_bad_address_is_named_with_its_place_and_the_way_out() {
    let refused = |address: &str, fault: &str| {
        each_is_refused(&[(&format!("vips: [{{address: \"{address}\"}}]"), &format!("1:18: {fault}"))]);
    };
    for text in ["192.0.2.300", "192.0.2.010", "", "a/24", "fe80::10%eth0"] {
        refused(text, &format!("`{text}` is no IP address; write it as 192.0.2.10 or 2001:db8::10"));
    }
    refused("\\e[2J", "`\\u{1b}[2J` is no IP address; write it as 192.0.2.10 or 2001:db8::10");
    for text in ["192.0.2.10/24", "2001:db8::10/64"] {
        refused(text, &format!("`{text}` has a prefix length; a VIP is one address: leave `/…` out"));
    }
    for (address, what) in [
        ("fe80::1", "a link-local address"),
        ("ff02::1", "a multicast address"),
        ("::1", "a loopback address"),
        ("::", "an address that means \"this host\""),
        ("::ffff:192.0.2.10", "an IPv4 address in the form of IPv6"),
        ("0.0.0.0", "an address that means \"this host\""),
        ("255.255.255.255", "a broadcast or reserved address"),
        ("240.0.0.1", "a broadcast or reserved address"),
        ("224.0.0.18", "a multicast address"),
        ("127.0.0.1", "a loopback address"),
        ("169.254.1.1", "a link-local address"),
    ] {
        refused(address, &format!("{address} is {what}, which cannot be a VIP"));
    }
}

#[test]
fn a_vlan_is_a_number_that_a_tag_can_have() {
    let text = |vlan: &str| format!("vips: [{{address: 192.0.2.10, vlan: {vlan}}}]\n");
    for vlan in ["0", "4095", "70000", "-1", "ten"] {
        let said = message(&text(vlan));
        assert_eq!(
            said,
            format!("vipward.yaml:1:36: `{vlan}` is no number for `vlan`; it must be between 1 and 4094")
        );
    }
    for (vlan, id) in [("1", 1), ("4094", 4_094)] {
        assert_eq!(good(&text(vlan)).vips[0].vlan, Some(id));
    }
}

#[test]
fn a_vip_is_listed_once_and_is_held_or_guarded() {
    let guarded_and_bound = "VIP 192.0.2.10 has both `mac` and `bind`; a guarded VIP lives elsewhere and is not \
                             bound here: leave one out";
    each_is_refused(&[
        (
            "vips:\n  - address: 192.0.2.10\n  - address: 192.0.2.11\n  - address: 192.0.2.10\n",
            "4:14: VIP 192.0.2.10 is listed twice; it stands in line 2 already: remove one of the two",
        ),
        (
            "vips: [{address: 2001:db8::10}, {address: \"2001:0DB8:0:0::10\"}]",
            "1:43: VIP 2001:db8::10 is listed twice; it stands in line 1 already: remove one of the two",
        ),
        (
            "vips: [{address: 192.0.2.10}, {address: 192.0.2.10}]",
            "1:41: VIP 192.0.2.10 is listed twice; it stands in line 1 already: remove one of the two",
        ),
        (
            "vips: [{address: 192.0.2.10, mac: '02:00:00:00:00:01', bind: lo}]",
            &format!("1:62: {guarded_and_bound}"),
        ),
    ]);
    let got = message("vips:\n  - {address: 192.0.2.10, bind: ''}\n  - {address: 192.0.2.10}\n");
    assert!(got.contains("3:15: VIP 192.0.2.10 is listed twice"), "its other faults do not hide it: {got}");
}

#[test]
fn a_bad_mac_is_named_with_its_place_and_the_way_out() {
    for (text, why) in [
        ("02:00:00:00:01", "is no MAC; write it as 02:00:00:00:00:01"),
        ("02:00:00:00:00:01:02", "is no MAC; write it as 02:00:00:00:00:01"),
        ("02:00:00:00:00:+1", "is no MAC; write it as 02:00:00:00:00:01"),
        ("router", "is no MAC; write it as 02:00:00:00:00:01"),
        ("00:00:00:00:00:00", "is zero; give the MAC of one interface"),
        ("01:00:5e:00:00:12", "is a multicast address; give the MAC of one interface"),
        ("ff:ff:ff:ff:ff:ff", "is the broadcast address; give the MAC of one interface"),
    ] {
        let guarded = format!("vips: [{{address: 192.0.2.10, mac: '{text}'}}]");
        each_is_refused(&[(&guarded, &format!("1:35: `{text}` {why}"))]);
        each_line_is_refused(&[(&format!("peers: ['{text}']"), &format!("2:9: `{text}` {why}"))]);
    }
}

#[test]
fn a_bad_interface_is_named_with_its_place_and_the_way_out() {
    let characters = "the kernel's names have no slash, colon or space";
    for (text, why) in [
        (&*"a".repeat(128), "the kernel's names have 127 bytes at most"),
        ("", "it is empty"),
        ("a/b", characters),
        ("a:1", characters),
        ("..", characters),
    ] {
        let file = format!("vips: [{{address: 192.0.2.10, bind: '{text}'}}]");
        each_is_refused(&[(&file, &format!("1:36: `{text}` is no interface name: {why}"))]);
    }
    let glob = "use a name, or a glob with *, ? and [a-z]";
    for (text, why) in [
        ("", "it is empty"),
        ("a b", characters),
        ("eth[0", "unclosed character class; missing ']'"),
        ("{eth,ens}*", "it has a character that no glob over interface names needs"),
    ] {
        let file = format!("vips: [{{address: 192.0.2.10, interface: '{text}'}}]");
        each_is_refused(&[(&file, &format!("1:41: `{text}` is no interface pattern: {why}; {glob}"))]);
    }
    each_line_is_refused(&[
        (
            "interfaces: [eth0, 'e[']",
            &format!("2:20: `e[` is no interface pattern: unclosed character class; missing ']'; {glob}"),
        ),
        (
            "interfaces: []",
            "2:13: `interfaces` is empty, so nothing would be attached; leave it out to have the default",
        ),
    ]);
}

#[test]
fn a_bad_word_or_number_is_named_with_the_good_ones() {
    each_is_refused(&[
        (
            "vips: [{address: 192.0.2.10, force: perhaps}]\n",
            "1:37: `perhaps` is not known for `force`; it is one of true, false",
        ),
        (
            "vips: [{address: 192.0.2.10, force: true, mac: '02:00:00:00:00:01'}]\n",
            "1:37: VIP 192.0.2.10 has both `mac` and `force`; a guarded VIP is not taken: leave one out",
        ),
    ]);
    each_line_is_refused(&[
        ("attach: fast", "2:9: `fast` is not known for `attach`; it is one of auto, native, tc, generic"),
        ("yield: no", "2:8: `no` is not known for `yield`; it is one of ask, keep"),
        ("shutdown: now", "2:11: `now` is not known for `shutdown`; it is one of keep, withdraw"),
        ("fence: {policy: go}", "2:17: `go` is not known for `fence.policy`; it is one of stop, hold"),
        (
            "announce: {rate: 1}",
            "2:18: `1` is no number for `announce.rate`; it must be between 2 and 1000000",
        ),
        (
            "announce: {rate: many}",
            "2:18: `many` is no number for `announce.rate`; it must be between 2 and 1000000",
        ),
        ("probe: {count: 21}", "2:16: `21` is no number for `probe.count`; it must be between 0 and 20"),
        (
            "probe: {interval: 9ms}",
            "2:19: `9ms` is no `probe.interval`; write a duration between 10ms and 10s, as 200ms, or \
             rfc5227 for the times of the RFC",
        ),
        (
            "probe: {repeat: 500ms}",
            "2:17: `probe.repeat: 500ms` is out of range; it must be between 1s and 30days, or 0s for no \
             probes while a VIP is held",
        ),
        ("probe: {rate: 0}", "2:15: `0` is no number for `probe.rate`; it must be between 1 and 1000000"),
        (
            "conflicts: {defend: sometimes}",
            "2:21: `sometimes` is not known for `conflicts.defend`; it is one of match, always, once, never",
        ),
        (
            "conflicts: {quiet: 10ms}",
            "2:20: `conflicts.quiet: 10ms` is out of range; it must be between 1s and 30days",
        ),
        ("node: ' '", "2:7: `node` is empty; leave it out to have the host name"),
        ("node: \"a\\nb\"", "2:7: `a\\nb` is no name for `node`: it has a control character; leave it out"),
    ]);
}

#[test]
fn a_bad_duration_is_named_with_what_would_be_a_good_one() {
    each_line_is_refused(&[
        (
            "fence: {duration: soon}",
            "2:19: `soon` is no duration for `fence.duration`: expected number at 0; write it as 3s, 500ms or 1h",
        ),
        (
            "fence: {duration: 3}",
            "2:19: `3` is no duration for `fence.duration`: time unit needed, for example 3sec or 3ms; write it as 3s, \
             500ms or 1h",
        ),
        (
            "fence: {duration: -3s}",
            "2:19: `-3s` is no duration for `fence.duration`: expected number at 0; write it as 3s, 500ms or 1h",
        ),
        (
            "fence: {heartbeat: ''}",
            "2:20: `` is no duration for `fence.heartbeat`: value was empty; write it as 3s, 500ms or 1h",
        ),
        (
            "fence: {duration: 0s}",
            "2:19: `fence.duration: 0s` is out of range; it must be between 1ms and 30days",
        ),
        (
            "announce: {refresh: 1s}",
            "2:21: `announce.refresh: 1s` is out of range; it must be between 2s and 30days",
        ),
        (
            "fence: {hold_for: 1000years}",
            "2:19: `fence.hold_for: 1000years` is out of range; it must be between 0s and 30days",
        ),
        (
            "fence: {duration: 400ms}",
            "2:19: `fence.duration: 400ms` is too short for a heartbeat every 250ms: a fence shorter than \
             the heartbeat lapses between two of them; it must be longer than two heartbeats, 500ms",
        ),
        (
            "fence: {heartbeat: 1500ms}",
            "2:20: `fence.duration: 3s` is too short for a heartbeat every 1s 500ms: a fence shorter than \
             the heartbeat lapses between two of them; it must be longer than two heartbeats, 3s",
        ),
        (
            "fence: {hold_for: 0s}",
            "2:19: `fence.hold_for` is zero, so there would be no grace period; make it longer, or set \
             `fence.policy` to stop",
        ),
    ]);
}

#[test]
fn every_fault_is_reported_at_once_in_the_order_of_the_file() {
    let got = message(
        "shutdown: now
vips:
  - address: 192.0.2.999
    mac: x
  - address: 192.0.2.10
    interface: '['
    bind: ''
attach: fast
announce: {rate: 0, refresh: now}
fence: {hold_for: x, policy: y, heartbeat: z, duration: a}
peers: [y, z]
node: ''
",
    );
    let places: Vec<_> = got.lines().map(|line| line.split(": ").next().expect("a place")).collect();
    let expected = [
        "1:11", "3:14", "4:10", "6:16", "7:11", "8:9", "9:18", "9:30", "10:19", "10:30", "10:44", "10:57",
        "11:9", "11:12", "12:7",
    ];
    assert_eq!(places, expected.map(|place| format!("vipward.yaml:{place}")), "{got}");
}
