mod faults;

use std::{net::IpAddr, time::Duration};

use proptest::prelude::*;
use vipward_common::{MacAddr, Policy};

use super::*;
use crate::{
    base::pattern::{InterfaceName, InterfacePattern},
    host::{attaching::Attach, heartbeat},
    segment::{
        announce,
        conflict::{self, Defend},
        probing,
    },
};

fn parse(text: &str) -> Result<Config, ConfigError> {
    Config::parse(text, "vipward.yaml", "host")
}

fn good(text: &str) -> Config {
    match parse(text) {
        Ok(config) => config,
        Err(error) => panic!("refused {text:?}: {error}"),
    }
}

/// Returns a pattern by way of a good configuration. There is no
/// other way to make patterns and names.
fn pattern(text: &str) -> InterfacePattern {
    let config = good(&format!("vips: []\ninterfaces: ['{text}']\n"));
    config.interfaces.into_iter().next().expect("invariant: one was given")
}

fn name(text: &str) -> InterfaceName {
    let config = good(&format!("vips: [{{address: 192.0.2.1, bind: '{text}'}}]\n"));
    config.vips.into_iter().find_map(|vip| vip.bind).expect("invariant: one was given")
}

fn held(last: u8) -> VipConfig {
    VipConfig {
        address: IpAddr::from([192, 0, 2, last]),
        interface: None,
        vlan: None,
        bind: None,
        mac: None,
        force: false,
    }
}

const SECOND: Duration = Duration::from_secs(1);
const DEFAULT_FENCE: heartbeat::Settings = heartbeat::Settings {
    duration: Duration::from_secs(3),
    heartbeat: SECOND,
    policy: Policy::Hold,
    hold_for: Duration::from_hours(1),
};

#[test]
fn every_key_is_understood() {
    let config = good(
        "node: node-a
interfaces: [\"eth0\", \"ens*\"]
vips:
  - address: 192.0.2.10
    bind: lo
  - address: 192.0.2.11
    interface: eth1
    force: true
  - address: 192.0.2.1
    mac: 02:00:00:00:00:01
peers: [\"02:00:00:00:0a:02\", 02-00-00-00-0A-03]
attach: native
fence: {duration: 6s, policy: stop, hold_for: 0s, heartbeat: 2s}
announce: {refresh: 30s, rate: 500}
probe: {count: 5, interval: rfc5227, repeat: 2m, rate: 100, proxied: wait}
conflicts: {defend: once, quiet: 30s}
yield: keep
shutdown: withdraw
",
    );
    let expected = Config {
        node: "node-a".to_owned(),
        interfaces: vec![pattern("eth0"), pattern("ens*")],
        vips: vec![
            VipConfig { bind: Some(name("lo")), ..held(10) },
            VipConfig { interface: Some(Box::new(pattern("eth1"))), force: true, ..held(11) },
            VipConfig { mac: Some(MacAddr([2, 0, 0, 0, 0, 1])), ..held(1) },
        ],
        peers: vec![MacAddr([2, 0, 0, 0, 10, 2]), MacAddr([2, 0, 0, 0, 10, 3])],
        attach: Attach::Native,
        fence: heartbeat::Settings {
            duration: 6 * SECOND,
            heartbeat: 2 * SECOND,
            policy: Policy::Stop,
            hold_for: Duration::ZERO,
        },
        announce: announce::Settings { refresh: 30 * SECOND, rate: 500 },
        probe: probing::Settings {
            count: 5,
            timing: probing::Timing::Rfc5227,
            repeat: Some(120 * SECOND),
            rate: 100,
            proxied: probing::Proxied::Wait,
        },
        conflicts: conflict::Settings { defend: Defend::Once, quiet: 30 * SECOND },
        yields: OnYield::Keep,
        shutdown: Shutdown::Withdraw,
    };
    assert_eq!(config, expected);
}

#[test]
fn everything_but_the_vips_has_a_default() {
    let expected = Config {
        node: "host".to_owned(),
        interfaces: Vec::new(),
        vips: Vec::new(),
        peers: Vec::new(),
        attach: Attach::Auto,
        fence: DEFAULT_FENCE,
        announce: announce::Settings { refresh: 60 * SECOND, rate: 1000 },
        probe: probing::Settings {
            count: 3,
            timing: probing::Timing::Every(Duration::from_millis(200)),
            repeat: Some(60 * SECOND),
            rate: 5000,
            proxied: probing::Proxied::Take,
        },
        conflicts: conflict::Settings { defend: Defend::Match, quiet: 300 * SECOND },
        yields: OnYield::Ask,
        shutdown: Shutdown::Keep,
    };
    let table = [
        ("the smallest file", "vips: []\n"),
        (
            "keys without values",
            "vips: []\nnode:\ninterfaces:\npeers: ~\nattach:\nfence:\nannounce:\nprobe:\nconflicts:\n\
             yield:\nshutdown:\n",
        ),
        ("other line ends, and a byte order mark", "\u{feff}vips: []\r\nattach: auto\r\n"),
    ];
    for (what, text) in table {
        assert_eq!(good(text), expected, "{what}");
    }
}

#[test]
fn the_effective_configuration_is_written_as_a_person_would() {
    let expected = "node: host
vips:
- address: \"192.0.2.10\"
  bind: lo
- address: \"192.0.2.1\"
  interface: eth*
  mac: \"02:00:00:00:00:01\"
peers:
- \"02:00:00:00:0a:02\"
attach: auto
fence:
  duration: 3s
  heartbeat: 1s
  policy: hold
  hold_for: 1h
announce:
  refresh: 1m
  rate: 1000
probe:
  count: 3
  interval: 200ms
  repeat: 1m
  rate: 5000
  proxied: take
conflicts:
  defend: match
  quiet: 5m
yield: ask
shutdown: keep
";
    let text = "vips: [{address: 192.0.2.10, bind: lo}, {address: 192.0.2.1, mac: '02:00:00:00:00:01', interface: eth*}]
peers: [02:00:00:00:0a:02]
";
    assert_eq!(good(text).to_yaml(), expected);
}

#[test]
fn the_heartbeat_is_a_third_of_the_fence_within_limits() {
    let table = [("600ms", 250), ("1s", 333), ("2400ms", 800), ("3s", 1000), ("1h", 1000)];
    for (duration, expected) in table {
        let config = good(&format!("vips: []\nfence: {{duration: {duration}, policy: stop}}\n"));
        assert_eq!(config.fence.heartbeat.as_millis(), expected, "of {duration}");
    }
}

#[test]
fn patterns_match_whole_names() {
    let table = [
        ("eth0", "eth0", true),
        ("eth0", "eth01", false),
        ("ens*", "ens1f0", true),
        ("ens*", "xens1", false),
        ("eth?", "eth1", true),
        ("eth?", "eth10", false),
        ("eth[0-3]", "eth2", true),
        ("eth[0-3]", "eth4", false),
        ("eth[!0]", "eth0", false),
        ("*", "anything.100", true),
    ];
    for (text, name, expected) in table {
        let pattern = pattern(text);
        assert_eq!(pattern.matches(name), expected, "{text} against {name}");
        assert_eq!(pattern.literal().is_some(), text.starts_with("eth0"), "{text}");
    }
}

fn vips() -> impl Strategy<Value = Vec<VipConfig>> {
    let pattern =
        prop_oneof!["[a-z][a-z0-9.-]{0,14}", "[a-z]{1,4}[*?]", "[a-z]{1,4}\\[[0-9]\\]", "[0-9]{1,4}"]
            .prop_map(|text| pattern(&text));
    let bind = proptest::option::of("[a-z][a-z0-9.-]{0,14}".prop_map(|text| name(&text)));
    let guarded_at = any::<[u8; 5]>().prop_map(|[b, c, d, e, f]| MacAddr([2, b, c, d, e, f]));
    let kind = prop_oneof![
        (bind, any::<bool>()).prop_map(|(bind, force)| (bind, None, force)),
        guarded_at.prop_map(|mac| (None::<InterfaceName>, Some(mac), false)),
    ];
    let rest = (proptest::option::of(pattern.prop_map(Box::new)), proptest::option::of(1_u16..4_095), kind);
    proptest::collection::btree_map(0x0a00_0000_u32..0x0b00_0000, rest, 0..6).prop_map(|vips| {
        let vip = |(address, (interface, vlan, (bind, mac, force))): (u32, _)| VipConfig {
            address: IpAddr::V4(address.into()),
            interface,
            vlan,
            bind,
            mac,
            force,
        };
        vips.into_iter().map(vip).collect()
    })
}

fn fences() -> impl Strategy<Value = heartbeat::Settings> {
    let microseconds = |most: u64| (1_000..most).prop_map(Duration::from_micros);
    (microseconds(10_000_000), microseconds(10_000_000), microseconds(100_000_000), any::<bool>()).prop_map(
        |(heartbeat, more, hold_for, stop)| {
            let duration = heartbeat * 2 + more;
            let policy = if stop { Policy::Stop } else { Policy::Hold };
            heartbeat::Settings { duration, heartbeat, policy, hold_for }
        },
    )
}

proptest! {
    #[test]
    fn the_effective_configuration_parses_to_itself(
        node in "[ -~]{0,12}[a-z0-9]",
        vips in vips(),
        interfaces in proptest::collection::vec("[a-z*?]{1,8}", 0..4),
        fence in fences(),
        (attach, withdraw) in (0_usize..4, any::<bool>()),
        (refresh_ns, rate) in (2_000_000_000_u64..1_000_000_000_000, 2_u32..=1_000_000),
        (count, interval_ms, repeat_s) in (0_u32..=20, proptest::option::of(10_u64..=10_000), 0_u64..10_000),
        (defend, quiet_s) in (0_usize..4, 1_u64..100_000),
    ) {
        let config = Config {
            node: node.trim().to_owned(),
            interfaces: interfaces.iter().map(|text| pattern(text)).collect(),
            vips,
            peers: vec![MacAddr([2, 0, 0, 0, 0, 7])],
            attach: [Attach::Auto, Attach::Native, Attach::Tc, Attach::Generic][attach],
            fence,
            announce: announce::Settings { refresh: Duration::from_nanos(refresh_ns), rate },
            probe: probing::Settings {
                count,
                timing: interval_ms.map_or(probing::Timing::Rfc5227, |interval| {
                    probing::Timing::Every(Duration::from_millis(interval))
                }),
                repeat: (repeat_s > 0).then(|| Duration::from_secs(repeat_s)),
                rate,
                proxied: if withdraw { probing::Proxied::Wait } else { probing::Proxied::Take },
            },
            conflicts: conflict::Settings {
                defend: [Defend::Match, Defend::Always, Defend::Once, Defend::Never][defend],
                quiet: Duration::from_secs(quiet_s),
            },
            yields: if withdraw { OnYield::Keep } else { OnYield::Ask },
            shutdown: if withdraw { Shutdown::Withdraw } else { Shutdown::Keep },
        };
        prop_assert_eq!(good(&config.to_yaml()), config);
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in "[ -~\n\t]{0,60}", cut in 0_usize..120) {
        let whole = "vips:\n  - {address: 192.0.2.10, bind: lo}\nfence: {duration: 3s, policy: hold}\npeers: [a]\n";
        let mixed = format!("{}{text}", &whole[..cut.min(whole.len())]);
        for text in [text, mixed] {
            if let Err(error) = parse(&text) {
                prop_assert!(error.to_string().starts_with("vipward.yaml"));
            }
        }
    }
}

#[test]
fn a_file_only_adds_if_it_has_all_that_another_has() {
    const RUNNING: &str = "vips: [{address: 192.0.2.10}, {address: 192.0.2.11, bind: lo}]\n";
    let parse = |text: &str| Config::parse(text, "vipward.yaml", "node").expect("a configuration");
    let table = [
        ("the same", RUNNING.to_owned(), true),
        (
            "more, in another order",
            "vips: [{address: 192.0.2.12}, {address: 192.0.2.11, bind: lo}, {address: 192.0.2.10}]"
                .to_owned(),
            true,
        ),
        ("fewer", "vips: [{address: 192.0.2.10}]".to_owned(), false),
        ("none", "vips: []".to_owned(), false),
        (
            "one without its key",
            "vips: [{address: 192.0.2.10}, {address: 192.0.2.11}, {address: 192.0.2.12}]".to_owned(),
            false,
        ),
        ("other interfaces", format!("{RUNNING}interfaces: [eth0]"), false),
        ("another node", format!("{RUNNING}node: other"), false),
        ("a peer", format!("{RUNNING}peers: ['02:00:00:00:00:09']"), false),
        ("another mode", format!("{RUNNING}attach: tc"), false),
        ("another policy", format!("{RUNNING}fence: {{policy: stop}}"), false),
        ("other announcements", format!("{RUNNING}announce: {{refresh: 90s}}"), false),
        ("other probes", format!("{RUNNING}probe: {{count: 1}}"), false),
        ("another defence", format!("{RUNNING}conflicts: {{defend: once}}"), false),
        ("yields are kept", format!("{RUNNING}yield: keep"), false),
        ("another end", format!("{RUNNING}shutdown: withdraw"), false),
    ];
    for (what, text, expected) in table {
        assert_eq!(parse(&text).only_adds_to(&parse(RUNNING)), expected, "{what}");
    }
}
