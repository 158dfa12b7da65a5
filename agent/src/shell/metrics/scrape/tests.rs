use vipward_common::{MacAddr, VipKey};

use super::*;
use crate::shell::metrics::{Format, Metrics};

const OTHER: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
const VIP: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 10);

fn snapshot(vip: VipSnapshot) -> Snapshot {
    Snapshot {
        node: "n1".to_owned(),
        mode: Mode::Standalone,
        started: true,
        fence_duration: Duration::from_secs(3),
        links: Vec::new(),
        vips: vec![vip],
        claims: None,
        problems: 0,
    }
}

fn entry(role: Role, yielded: bool) -> EntryReading {
    EntryReading { key: VipKey::untagged(2, VIP.octets()), role, mac: OTHER, yielded, count: None }
}

/// The value of a series without labels, if it is on the page.
fn value(page: &str, name: &str) -> Option<String> {
    page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).map(ToOwned::to_owned)
}

/// What is the case, what the driver believes, what is in the map, and how many VIPs of the file have no holder.
type Row<'a> = (&'a str, VipSnapshot, Vec<EntryReading>, &'a str);

#[test]
fn of_a_file_only_vips_that_neither_this_node_nor_a_peer_holds_are_without_holder() {
    let to_hold = VipSnapshot { vip: VIP, stance: Stance::Held, yielded: false };
    let table: [Row<'_>; 6] = [
        ("held", to_hold, vec![entry(Role::Held, false)], "0.0"),
        ("without an entry", to_hold, vec![], "1.0"),
        ("silent, and nobody knows where it is", to_hold, vec![entry(Role::Foreign, false)], "1.0"),
        ("yielded, as only the map says", to_hold, vec![entry(Role::Foreign, true)], "0.0"),
        (
            "yielded, and its entry has gone with the interface and come back",
            VipSnapshot { yielded: true, ..to_hold },
            vec![entry(Role::Foreign, false)],
            "0.0",
        ),
        (
            "in use by somebody else, a conflict",
            VipSnapshot { stance: Stance::Elsewhere, ..to_hold },
            vec![entry(Role::Foreign, false)],
            "0.0",
        ),
    ];
    let metrics = Metrics::new(Mode::Standalone, 10);
    for (what, vip, entries, without_holder) in table {
        let driver = Some(snapshot(vip));
        let page = metrics.page(Format::Prometheus, Some(Reading::sample(entries)), driver).expect("a page");
        assert_eq!(value(&page, "vipward_vips_without_holder").as_deref(), Some(without_holder), "{what}");
    }
}
