//! Services with addresses of both families, and what is special about an IPv6 VIP.

use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use vipward_tests::{
    agent::VIP,
    cluster::{Cluster, ClusterOptions, N2, NodeId, PATIENCE, SEGMENT, ServiceSpec, scenario},
    frames::{Family, nd},
    kit::{output_of, wait_for},
    lan::Wire,
};

/// Spellings of the VIP that no program prints, the last as the name of its object.
const SPELLINGS: [&str; 3] =
    ["2001:DB8:0::10", "2001:db8::0.0.0.16", "2001-0db8-0000-0000-0000-0000-0000-0010"];
const ADDRESSES: &str = "vipward.io/addresses";
const A_WHILE: Duration = Duration::from_secs(3);

fn v6() -> IpAddr {
    Family::V6.vip()
}

#[test]
fn both_addresses_of_a_service_are_held_by_one_node_named_in_its_status_and_gone_with_it() -> Result<()> {
    scenario("dual", ClusterOptions::default(), |cluster| {
        let addresses = format!("{}, {VIP}", SPELLINGS[0]);
        let service = ServiceSpec::dual_stack("web").annotation(ADDRESSES, &addresses);
        cluster.create_service(&service)?;
        let holder = cluster.wait_until_all_held(&Family::vips())?;
        cluster.wait_for_addresses("web", &[v6(), VIP.into()])?;
        let announced = format!("{} is announced from {}", v6(), cluster.node_name(holder));
        cluster.wait_for_event("web", &[&announced])?;
        assert_eq!(cluster.cell(v6(), "ADDRESS")?, v6().to_string());
        assert_eq!(cluster.cell(v6(), "HOLDER")?, cluster.node_name(holder));
        let watch = cluster.watch(&Family::vips())?;
        for vip in Family::vips() {
            watch.wait_until_received_by(vip, holder)?;
            assert_eq!(cluster.client.resolve(vip)?, holder.mac(), "by the client's kernel");
        }
        watch.stop()?.assert_all_seamless();

        for vip in Family::vips() {
            cluster.stop_delivering(vip)?;
        }
        ensure!(cluster.delete_service("web")?, "the Service was not there");
        for vip in Family::vips() {
            cluster.wait_until_gone(vip)?;
            cluster.wait_until_forgotten(vip)?;
        }
        assert_eq!(cluster.virtual_ips()?.len(), 0);
        Ok(())
    })
}

#[test]
fn behind_a_snooping_switch_the_successor_has_joined_the_group_before_the_holder_crashes() -> Result<()> {
    scenario("snooped", ClusterOptions::default(), |cluster| {
        let IpAddr::V6(address) = v6() else { unreachable!("invariant: it is of IPv6") };
        let group = nd::group_of(address);
        cluster.segment.snoop_mld()?;
        cluster.create_service(&ServiceSpec::new("web", v6()))?;
        let old = cluster.wait_until_held(v6())?;
        cluster.wait_until_all_renew()?;
        let watch = cluster.watch(&[v6()])?;
        // The nodes' own addresses have other groups, so these are the agents' members.
        let members = wait_for(PATIENCE, "two members of the group", || {
            Ok(Some(cluster.segment.members_of(group)?).filter(|members| members.len() == 2))
        })?;
        watch.let_pass(A_WHILE)?;
        assert_eq!(cluster.segment.members_of(group)?, members, "the other node is none");

        let off = watch.step(format!("{old} loses power; members are {members:?}"));
        cluster.power_off(old)?;
        let new = cluster.wait_until_held_by_another(v6(), old)?;
        watch.wait_until_received_by(v6(), new)?;
        assert!(members.contains(&new.to_string()), "{new} is no successor: {members:?}");
        // The next successor joins.
        wait_for(PATIENCE, "the other node to be a member", || {
            let now = cluster.segment.members_of(group)?;
            Ok((now.len() == 2 && !now.contains(&old.to_string())).then_some(()))
        })?;
        let seen = watch.stop()?;
        seen.assert_flows_again(v6(), off, cluster.options().failover_limit());
        seen.assert_no_doubles(v6());
        Ok(())
    })
}

/// Returns the addresses of the segment's interface that the kernel keeps for a time only.
fn for_a_time(cluster: &Cluster, id: NodeId) -> Result<Vec<Ipv6Addr>> {
    let mut command = cluster.member(id)?.host.command("ip");
    command.args([
        "-json",
        "-6",
        "address",
        "show",
        "dev",
        SEGMENT,
        "scope",
        "global",
        "dynamic",
        "-tentative",
    ]);
    let printed = output_of(command)?;
    let listed: Value = serde_json::from_str(&printed).with_context(|| format!("ip printed: {printed}"))?;
    let addresses = listed[0]["addr_info"].as_array().cloned().unwrap_or_default();
    let addresses = addresses.iter().filter_map(|address| address["local"].as_str());
    addresses.map(|address| address.parse().context("ip prints addresses")).collect()
}

#[test]
fn addresses_that_a_node_has_from_a_router_or_by_dhcpv6_are_refused() -> Result<()> {
    const BY_DHCP: &str = "2001:db8::d6";
    let prefix: Ipv6Addr = "2001:db8:1::".parse()?;
    scenario("given6", ClusterOptions::default(), |cluster| {
        cluster.wait_until_all_renew()?;
        let host = &cluster.member(N2)?.host;
        for (setting, value) in [("accept_ra", "1"), ("autoconf", "1"), ("use_tempaddr", "2")] {
            host.set_sysctl(&format!("net/ipv6/conf/{SEGMENT}/{setting}"), value)?;
        }
        let router = cluster.rogue.mac(SEGMENT)?;
        let advertisement = nd::router_advertisement(N2.mac(), router, prefix);
        Wire::open(&cluster.rogue, SEGMENT)?.send(&advertisement)?;
        let mut by_dhcp = host.command("ip");
        by_dhcp.args(["address", "add", &format!("{BY_DHCP}/128"), "dev", SEGMENT]);
        by_dhcp.args(["valid_lft", "3600", "preferred_lft", "1800", "nodad", "noprefixroute"]);
        output_of(by_dhcp)?;
        // A stable address, a temporary one, and that by DHCPv6.
        let addresses = wait_for(PATIENCE, "three addresses", || {
            Ok(Some(for_a_time(cluster, N2)?).filter(|addresses| addresses.len() == 3))
        })?;
        for (number, address) in addresses.iter().enumerate() {
            cluster.create_service(&ServiceSpec::new(&format!("web-{number}"), *address))?;
        }
        let has = format!("node {} has it", cluster.node_name(N2));
        for (number, address) in addresses.iter().enumerate() {
            let name = format!("web-{number}");
            cluster.wait_for_event(&name, &[&format!("{address} ("), "is not announced", &has])?;
            assert_eq!(cluster.answered_by(*address)?, Some(N2), "{address}");
            assert_eq!(cluster.ingress(&name)?, [""; 0]);
        }
        assert_eq!(cluster.virtual_ips()?.len(), 0);
        Ok(())
    })
}
