//! The address of a Service, the interfaces that may announce it, and the writers of its status.

use std::net::{IpAddr, Ipv4Addr};

use anyhow::Result;
use vipward_tests::{
    agent::{VIP, ip},
    cluster::{ClusterOptions, N2, PATIENCE, SEGMENT, ServiceSpec, scenario},
    frames::Family,
};

#[test]
fn addresses_that_others_need_are_refused_with_the_reason_and_never_answered_nor_guarded() -> Result<()> {
    scenario("refused", ClusterOptions::default(), |cluster| {
        let gateways = Family::BOTH.map(|family| family.ip(3));
        // The agents run when the host gets its gateways.
        cluster.wait_until_all_renew()?;
        for id in cluster.ids() {
            for gateway in gateways {
                cluster.member(id)?.host.add_gateway(gateway)?;
            }
        }
        let api = *cluster.forwarder.address().ip();
        let node = format!("it is an address of Node {}", cluster.node_name(N2));
        let (gateway, rogue) = ("it is a gateway of this host", cluster.rogue.mac(SEGMENT)?);
        let on_segment: [(_, IpAddr, _, _); 7] = [
            ("gateway", gateways[0], gateway, Some(rogue)),
            ("gateway6", gateways[1], gateway, Some(rogue)),
            ("node", N2.address().into(), &node, Some(N2.mac())),
            ("node6", N2.address_in(Family::V6), &node, Some(N2.mac())),
            ("network", ip(0).into(), "it is the network address of 192.0.2.0/24", None),
            ("broadcast", ip(255).into(), "it is the broadcast address of 192.0.2.0/24", None),
            ("routers", Family::V6.ip(0), "it is the address of all routers of 2001:db8::/64", None),
        ];
        let elsewhere: [(_, IpAddr, _); 7] = [
            ("api", api.into(), "the API server is there"),
            ("loopback", Ipv4Addr::new(127, 0, 0, 2).into(), "it is a loopback address"),
            ("multicast", Ipv4Addr::new(224, 0, 0, 9).into(), "it is a multicast address"),
            ("multicast6", "ff02::9".parse()?, "it is a multicast address"),
            ("linklocal", Ipv4Addr::new(169, 254, 1, 1).into(), "it is a link-local address"),
            ("linklocal6", "fe80::9".parse()?, "it is a link-local address"),
            ("mapped", "::ffff:192.0.2.9".parse()?, "it is an IPv4 address in an IPv6 address"),
        ];
        let refused: Vec<(_, IpAddr, _)> = on_segment
            .iter()
            .map(|(name, address, why, _)| (*name, *address, *why))
            .chain(elsewhere)
            .collect();
        let monitor = cluster.monitor(&on_segment.map(|(_, address, _, _)| address))?;
        for (name, address, _) in &refused {
            cluster.create_service(&ServiceSpec::new(name, *address))?;
        }
        cluster.create_service(&ServiceSpec::new("good", VIP))?;
        cluster.wait_until_held(VIP)?;
        for (name, address, why) in &refused {
            cluster.wait_for_event(name, &[&format!("{address} ("), "is not announced", why])?;
        }
        monitor.wait_for_requests(1_000, PATIENCE)?;
        let report = monitor.stop()?;
        for (_, address, _, owner) in on_segment {
            let wire = report.vip(address)?;
            let macs: Vec<_> = wire.answers_by().into_keys().map(|by| by.sha).collect();
            assert_eq!(macs, owner.into_iter().collect::<Vec<_>>(), "{address} has other owners:\n{report}");
            assert!(wire.announcements.is_empty(), "{address} was announced:\n{report}");
        }
        for (name, address, _) in &refused {
            for id in cluster.ids() {
                assert!(!cluster.knows(id, *address)?, "{id} has an entry for {address}");
            }
            assert_eq!(cluster.ingress(name)?, [""; 0], "{address} is in a status");
        }
        assert_eq!(cluster.virtual_ips()?.len(), 1);
        Ok(())
    })
}
