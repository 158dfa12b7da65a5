use std::{net::Ipv4Addr, time::Duration};

use vipward_common::{MacAddr, Role};
use vipward_core::host::{attaching, net::Interface};

use super::*;
use crate::shell::endpoints::metrics::{Format, Metrics};

const OTHER: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
const VIP: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 10));

/// Returns the state of a node with one interface and these VIPs.
pub(in crate::shell) fn snapshot(mode: Mode, vips: &[VipSnapshot]) -> Snapshot {
    let interface = InterfaceSnapshot {
        through: None,
        ifindex: 2,
        interface: "eth0".to_owned(),
        mode: attaching::Mode::Generic,
        attached: true,
        proof: Proof::Proven,
        failure: None,
        seen: Some(Interface { mac: OTHER, ..Interface::sample(2, "eth0") }),
    };
    let agent = agent::Snapshot {
        node: "n1".to_owned(),
        started: true,
        lease_duration: Duration::from_secs(3),
        interfaces: vec![interface],
        vips: vips.to_vec(),
        claims: None,
        unanswered: BTreeMap::new(),
    };
    let file = (mode == Mode::Standalone).then(|| FileReport {
        file: "/etc/vipward/vipward.yaml".to_owned(),
        read_at_unix_seconds: 1_795_000_000,
        read_seconds_ago: 60,
        refused: None,
    });
    Snapshot { agent, mode, wire: None, file, metallb: None, problems: 0 }
}

fn entry(role: Role, yielded: bool) -> pinned::Entry {
    pinned::Entry { yielded, ..pinned::Entry::sample(VIP, role, OTHER) }
}

fn eth0(snapshot: &mut Snapshot) -> &mut Interface {
    snapshot.agent.interfaces[0].seen.as_mut().expect("the interface")
}

/// Returns the value of a series without labels, if the page has it.
fn value(page: &str, name: &str) -> Option<String> {
    page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).map(ToOwned::to_owned)
}

/// A description, the event loop's state, the map's entries, and the
/// number of the file's VIPs without a holder.
type Row<'a> = (&'a str, VipSnapshot, Vec<pinned::Entry>, &'a str);

#[test]
fn of_a_file_only_vips_that_neither_this_node_nor_a_peer_holds_are_without_holder() {
    let to_hold = VipSnapshot { vip: VIP, entry: Entry::Held, yielded: false };
    let table: [Row<'_>; 6] = [
        ("held", to_hold, vec![entry(Role::Held, false)], "0.0"),
        ("without an entry", to_hold, vec![], "1.0"),
        ("silent, and its place is not known", to_hold, vec![entry(Role::Foreign, false)], "1.0"),
        ("yielded, as only the map says", to_hold, vec![entry(Role::Foreign, true)], "0.0"),
        (
            "yielded, and its entry has gone with the interface and come back",
            VipSnapshot { yielded: true, ..to_hold },
            vec![entry(Role::Foreign, false)],
            "0.0",
        ),
        (
            "in use by another host, a conflict",
            VipSnapshot { entry: Entry::Foreign { mac: MacAddr::ZERO }, ..to_hold },
            vec![entry(Role::Foreign, false)],
            "0.0",
        ),
    ];
    let metrics = Metrics::new(Mode::Standalone, 10);
    for (what, vip, entries, without_holder) in table {
        let snapshot = Some(snapshot(Mode::Standalone, &[vip]));
        let page =
            metrics.page(Format::Prometheus, Some(Contents::sample(entries)), snapshot).expect("a page");
        assert_eq!(value(&page, "vipward_vips_without_holder").as_deref(), Some(without_holder), "{what}");
    }
}

#[test]
fn a_vip_that_is_not_answered_is_not_counted_as_held() {
    type Change = fn(&mut Snapshot, &mut Contents);
    let table: [(&str, Change, bool); 7] = [
        ("answered", |_, _| {}, true),
        ("grace period", |_, read| read.pass_deadline(), true),
        ("the lease deadline has passed", |_, read| read.pass_hold(), false),
        ("no carrier", |snapshot, _| eth0(snapshot).carrier = false, false),
        ("another program", |snapshot, _| snapshot.agent.interfaces[0].attached = false, false),
        ("no interface", |snapshot, _| snapshot.agent.interfaces.clear(), false),
        ("another MAC", |snapshot, _| eth0(snapshot).mac = MacAddr::ZERO, false),
    ];
    let metrics = Metrics::new(Mode::Standalone, 10);
    for (what, change, is_held) in table {
        let mut snapshot =
            snapshot(Mode::Standalone, &[VipSnapshot { vip: VIP, entry: Entry::Held, yielded: false }]);
        let mut read = Contents::sample(vec![entry(Role::Held, false)]);
        change(&mut snapshot, &mut read);
        let page = metrics.page(Format::Prometheus, Some(read), Some(snapshot)).expect("a page");
        let expected = if is_held { ["1.0", "1.0", "0.0", "0.0"] } else { ["0.0", "0.0", "1.0", "1.0"] };
        let found = [
            "vipward_vip_held{family=\"ipv4\",vip=\"192.0.2.10\"}",
            "vipward_entries{family=\"ipv4\",role=\"held\"}",
            "vipward_entries{family=\"ipv4\",role=\"silent\"}",
            "vipward_vips_without_holder",
        ]
        .map(|series| value(&page, series).unwrap_or_default());
        assert_eq!(found, expected, "{what}");
    }
}

#[test]
fn the_vips_that_are_not_answered_are_counted() {
    let mut snapshot =
        snapshot(Mode::Standalone, &[VipSnapshot { vip: VIP, entry: Entry::Held, yielded: false }]);
    snapshot.agent.unanswered.insert(VIP, "eth0: no carrier".to_owned());
    let metrics = Metrics::new(Mode::Kubernetes, 10);
    let page = metrics.page(Format::Prometheus, None, Some(snapshot)).expect("a page");
    assert_eq!(value(&page, "vipward_vips_unanswered").as_deref(), Some("1.0"));
}
