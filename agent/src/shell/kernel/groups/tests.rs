use std::fs;

use super::*;
use crate::shell::testing::{Lan, in_network};

const VIP: &str = "2001:db8::10";

fn membership(ifindex: u32, vip: &str) -> Membership {
    Membership::of(ifindex, vip.parse().expect("an address"))
}

fn carry_out(command: Command) -> Result<(), ExchangeError> {
    change(&mut Exchange::open().expect("a socket"), command)
}

/// Returns true if the kernel has joined the group, and lets its frames in.
fn is_received(interface: &str, membership: Membership) -> bool {
    let group = format!("{:032x}", membership.group.address().to_bits());
    let listed = |path: &str, address: &str| {
        let text = fs::read_to_string(path).expect("the kernel's list");
        let mut lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        lines.any(|line| line[1] == interface && line.contains(&address))
    };
    let joined = listed("/proc/thread-self/net/igmp6", &group);
    let let_in = listed("/proc/thread-self/net/dev_mcast", &format!("3333{}", &group[24..]));
    assert!(let_in || !joined, "the kernel opens the filter for what it has joined");
    joined
}

async fn pair(lan: &Lan) -> u32 {
    lan.veth("v0", "v1").await;
    lan.up("v1").await;
    lan.up("v0").await;
    lan.index("v0").await
}

#[test]
fn a_group_is_joined_found_again_and_left_and_each_can_be_repeated() {
    in_network(|lan| async move {
        let ours = membership(pair(&lan).await, VIP);
        assert!(!is_received("v0", ours));
        for _ in 0..2 {
            carry_out(Command::Join(ours)).expect("joined");
            assert!(is_received("v0", ours));
            assert_eq!(observe().await.expect("observed"), BTreeSet::from([ours]));
        }
        for _ in 0..2 {
            carry_out(Command::Leave(ours)).expect("left");
            assert!(!is_received("v0", ours));
            assert!(observe().await.expect("observed").is_empty());
        }
    });
}

#[test]
fn the_proxies_of_others_are_not_touched() {
    in_network(|lan| async move {
        let ours = membership(pair(&lan).await, VIP);
        let mut other = message(ours);
        let address = NeighbourAddress::Inet6(VIP.parse().expect("an address"));
        other.attributes = vec![NeighbourAttribute::Destination(address)];
        let mut kernel = Exchange::open().expect("a socket");
        kernel.change(RouteNetlinkMessage::NewNeighbour(other), NLM_F_CREATE).expect("a proxy");
        assert!(observe().await.expect("observed").is_empty());
        carry_out(Command::Join(ours)).expect("joined");
        assert_eq!(leave_all().await.expect("left"), BTreeSet::from([ours]));
        assert!(is_received("v0", ours), "the other proxy has joined the group too");
        assert_eq!(netlink::proxies().await.expect("observed").len(), 1);
    });
}

#[test]
fn a_loss_of_carrier_changes_nothing_and_an_interface_that_was_down_must_join_again() {
    in_network(|lan| async move {
        let ours = membership(pair(&lan).await, VIP);
        carry_out(Command::Join(ours)).expect("joined");
        lan.down("v1").await;
        lan.up("v1").await;
        assert!(is_received("v0", ours));
        assert_eq!(observe().await.expect("observed"), BTreeSet::from([ours]));
        lan.down("v0").await;
        lan.up("v0").await;
        assert!(!is_received("v0", ours));
        assert!(observe().await.expect("observed").is_empty());
        carry_out(Command::Join(ours)).expect("joined again");
        assert!(is_received("v0", ours));
    });
}

#[test]
fn an_interface_that_is_gone_refuses_to_join_and_is_left() {
    in_network(|lan| async move {
        let ours = membership(pair(&lan).await, VIP);
        carry_out(Command::Join(ours)).expect("joined");
        lan.delete("v0").await;
        carry_out(Command::Leave(ours)).expect("gone with the interface");
        let error = carry_out(Command::Join(ours)).expect_err("no such interface");
        assert_eq!(error.refusal(), Some(libc::ENODEV));
    });
}
