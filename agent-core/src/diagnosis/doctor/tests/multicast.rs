use std::net::Ipv6Addr;

use super::*;
use crate::{diagnosis::pinned::Entry, segment::groups::Membership};
use State::{Green, NotApplicable, Red, Unknown, Yellow};

/// Adds two VIPs of one group, and one of another.
fn hold(facts: &mut Facts) {
    for vip in ["2001:db8::10", "2001:db8:1::10", "2001:db8::20"] {
        let vip: Ipv6Addr = vip.parse().expect("an address");
        let entry = Entry::sample(vip, vipward_common::Role::Held, pinned::State::SAMPLE_MAC);
        facts.contents_mut().entries.push(entry);
    }
}

fn join(facts: &mut Facts) {
    hold(facts);
    let groups = facts.contents_mut().entries.iter().filter_map(|entry| match entry.address() {
        std::net::IpAddr::V4(_) => None,
        std::net::IpAddr::V6(vip) => Some(Membership::of(entry.key.ifindex, vip)),
    });
    facts.memberships = Read(groups.collect());
}

#[test]
fn solicitations_must_reach_the_host() {
    assert_rows(
        Some("eth0"),
        &[
            ("no IPv6 VIP", |_| {}, "multicast", NotApplicable, &["no IPv6 VIP"], &[]),
            (
                "a VIP of another node",
                |it| {
                    hold(it);
                    it.contents_mut()
                        .entries
                        .iter_mut()
                        .for_each(|it| it.role = vipward_common::Role::Foreign);
                },
                "multicast",
                NotApplicable,
                &["no IPv6 VIP"],
                &[],
            ),
            ("joined", join, "multicast", Green, &["2 joined, for 3 VIPs", "3 MLD queries"], &[]),
            (
                "not joined",
                hold,
                "multicast",
                Red,
                &["2001:db8::10, 2001:db8:1::10, 2001:db8::20: their groups are not joined"],
                &["start the agent"],
            ),
            (
                "joined elsewhere",
                |it| {
                    hold(it);
                    let vip = "2001:db8::10".parse().expect("an address");
                    it.memberships = Read(BTreeSet::from([Membership::of(3, vip)]));
                },
                "multicast",
                Red,
                &["2001:db8::10"],
                &[],
            ),
            (
                "IPv6 is off",
                |it| {
                    join(it);
                    it.conf_v6().disable_ipv6 = 1;
                },
                "multicast",
                Yellow,
                &["not reported by MLD"],
                &["net.ipv6.conf.eth0.disable_ipv6=0"],
            ),
            (
                "memberships are unread",
                |it| {
                    join(it);
                    it.memberships = Fact::failed("no answer");
                },
                "multicast",
                Unknown,
                &["no answer"],
                &[],
            ),
        ],
    );
}

#[test]
fn the_kernel_must_take_neighbour_discovery() {
    assert_rows(
        Some("eth0"),
        &[
            ("no IPv6 VIP", |_| {}, "neighbour-discovery", NotApplicable, &["no IPv6 VIP"], &[]),
            ("as it should be", join, "neighbour-discovery", Green, &["SAVI"], &[]),
            (
                "announcements are dropped",
                |it| {
                    join(it);
                    it.conf_v6().drop_unsolicited_na = 1;
                },
                "neighbour-discovery",
                Yellow,
                &["ignores announcements"],
                &["net.ipv6.conf.eth0.drop_unsolicited_na=0"],
            ),
            (
                "a duplicate switches IPv6 off",
                |it| {
                    join(it);
                    it.conf_v6().accept_dad = 2;
                },
                "neighbour-discovery",
                Yellow,
                &["accept_dad is 2"],
                &["net.ipv6.conf.eth0.accept_dad=1"],
            ),
            (
                "no querier",
                |it| {
                    join(it);
                    it.nic_mut().mld_queries = Read(0);
                },
                "multicast",
                Green,
                &["no MLD query has come"],
                &[],
            ),
        ],
    );
}
