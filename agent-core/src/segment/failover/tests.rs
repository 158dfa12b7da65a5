use super::*;
use crate::{base::samples::at, host::net::Interface};

const NIC: u32 = 1;
const OTHER_NIC: u32 = 2;
const BOND: u32 = 3;
const VLAN: u32 = 4;
const MACVLAN: u32 = 5;
const BRIDGE: u32 = 6;
const APART: u32 = 7;

/// Returns two NICs in a bond, and a NIC apart. On the bond is a VLAN device. On that are a macvlan
/// device and a bridge.
fn stack() -> NetView {
    let sample = |index| Interface::sample(index, &format!("i{index}"));
    let port = |index, master| Interface { master: Some(master), ..sample(index) };
    let interfaces = [
        port(NIC, BOND),
        port(OTHER_NIC, BOND),
        Interface { kind: "bond".to_owned(), active_port: Some(NIC), ..sample(BOND) },
        Interface { kind: "vlan".to_owned(), lower: Some(BOND), ..port(VLAN, BRIDGE) },
        Interface { kind: "macvlan".to_owned(), lower: Some(VLAN), ..sample(MACVLAN) },
        Interface { kind: "bridge".to_owned(), ..sample(BRIDGE) },
        sample(APART),
    ];
    let interfaces = interfaces.map(|interface| (interface.index, interface)).into();
    NetView { interfaces, ..NetView::default() }
}

fn failover(ifindex: u32) -> Notice {
    Notice { ifindex, kind: NoticeKind::Failover }
}

fn peers(ifindex: u32) -> Notice {
    Notice { ifindex, kind: NoticeKind::NotifyPeers }
}

#[test]
fn all_that_have_their_frames_through_an_interface_fail_over_with_it() {
    let bond_and_above = BTreeSet::from([BOND, VLAN, MACVLAN, BRIDGE]);
    let with_nic = &bond_and_above | &BTreeSet::from([NIC]);
    let table: [(&str, &[Notice], BTreeSet<u32>); 7] = [
        ("the bond", &[failover(BOND)], bond_and_above.clone()),
        ("the bond, with its copies", &[failover(BOND), failover(VLAN), failover(MACVLAN)], bond_and_above),
        ("a port", &[peers(NIC)], with_nic),
        ("a copy alone", &[failover(VLAN), peers(MACVLAN)], BTreeSet::new()),
        ("the bridge", &[peers(BRIDGE)], BTreeSet::from([BRIDGE])),
        ("a NIC with nothing above it", &[peers(APART)], BTreeSet::from([APART])),
        ("an interface that is gone", &[failover(99)], BTreeSet::new()),
    ];
    for (what, notices, expected) in table {
        let notices = notices.iter().copied().collect();
        assert_eq!(Failovers::default().on_notices(&notices, &stack(), at(0)), expected, "{what}");
    }
}

/// Description, notifications of the bond with their times, and times of the failovers.
type Row<'a> = (&'a str, &'a [(u64, &'a [Notice])], &'a [u64]);

#[test]
fn one_failover_counts_once_however_it_is_reported() {
    let (moved, notified) = (failover(BOND), peers(BOND));
    let table: [Row<'_>; 10] = [
        ("a failover alone, as with num_grat_arp=0", &[(0, &[moved])], &[0]),
        ("with the kernel's announcement", &[(0, &[moved, notified])], &[0]),
        ("repeated", &[(0, &[moved, notified]), (100, &[notified]), (200, &[notified])], &[0]),
        (
            "the port could not send before",
            &[(0, &[moved]), (900, &[notified]), (1_000, &[notified])],
            &[0, 900],
        ),
        ("two failovers", &[(0, &[moved, notified]), (50, &[moved, notified]), (150, &[notified])], &[0, 50]),
        ("two, of which the first was withheld", &[(0, &[moved]), (50, &[moved, notified])], &[0, 50]),
        ("a virtual machine has moved", &[(0, &[notified]), (50, &[notified]), (600, &[notified])], &[0]),
        ("it moves again", &[(0, &[notified]), (50, &[notified]), (2_050, &[notified])], &[0, 2_050]),
        ("repeated for long", &[(0, &[notified]), (1_900, &[notified]), (3_800, &[notified])], &[0]),
        ("a failover right after", &[(0, &[notified]), (50, &[moved, notified])], &[0, 50]),
    ];
    for (what, series, expected) in table {
        let mut failovers = Failovers::default();
        let counted = series.iter().filter(|(millis, notices)| {
            let notices = notices.iter().copied().collect();
            failovers.on_notices(&notices, &stack(), at(*millis)).contains(&BOND)
        });
        let times: Vec<u64> = counted.map(|(millis, _)| *millis).collect();
        assert_eq!(times, expected, "{what}");
    }
}

#[test]
fn series_of_two_interfaces_are_apart() {
    let mut failovers = Failovers::default();
    let mut receive = |notice, millis| failovers.on_notices(&BTreeSet::from([notice]), &stack(), at(millis));
    assert!(receive(peers(APART), 0).contains(&APART));
    assert!(receive(peers(BOND), 10).contains(&BOND));
    assert!(receive(peers(APART), 20).is_empty());
}

#[test]
fn where_notifications_were_lost_another_active_port_shows_the_failover() {
    let with_port = |port| {
        let mut view = stack();
        view.interfaces.get_mut(&BOND).expect("the bond").active_port = port;
        view
    };
    let all = BTreeSet::from([BOND, VLAN, MACVLAN, BRIDGE]);
    let table = [
        ("the same port", Some(NIC), Some(NIC), BTreeSet::new()),
        ("another port", Some(NIC), Some(OTHER_NIC), all),
        ("no port, and so no carrier", Some(NIC), None, BTreeSet::new()),
        ("a port again: the carrier's return announces", None, Some(NIC), BTreeSet::new()),
    ];
    for (what, before, after, expected) in table {
        assert_eq!(unnoticed(&with_port(before), &with_port(after)), expected, "{what}");
    }
    assert_eq!(unnoticed(&NetView::default(), &stack()), BTreeSet::new(), "a new bond");
}
