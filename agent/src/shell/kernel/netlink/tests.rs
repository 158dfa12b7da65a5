use std::net::Ipv4Addr;

use rtnetlink::packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use rtnetlink::packet_route::address::AddressAttribute;
use rtnetlink::packet_route::route::RouteScope;
use rtnetlink::{LinkUnspec, RouteMessageBuilder};
use tokio::time::timeout;
use vipward_common::MacAddr;
use vipward_core::host::net::Interface;

use super::{
    dump::{MAX_ATTEMPTS, until_settled},
    *,
};
use crate::shell::testing::{Lan, in_network};

async fn view(netlink: &Netlink) -> NetView {
    netlink.observe().await.expect("the network can be observed")
}

fn interface<'a>(view: &'a NetView, name: &str) -> &'a Interface {
    view.by_name(name).unwrap_or_else(|| panic!("{name} is in the view"))
}

/// Observes after every change until `condition` holds. The test's deadline ends an endless wait.
async fn until(netlink: &mut Netlink, condition: impl Fn(&NetView) -> bool) -> NetView {
    loop {
        netlink.changed().await.expect("a notification");
        let view = view(netlink).await;
        if condition(&view) {
            return view;
        }
    }
}

/// Returns a subscription that has reported nothing for `quiet`.
async fn settled_for(quiet: Duration) -> Netlink {
    let mut netlink = Netlink::connect().expect("a subscription");
    while timeout(quiet, netlink.changed()).await.is_ok() {}
    netlink
}

async fn settled() -> Netlink {
    settled_for(Duration::from_millis(100)).await
}

fn address_message(index: u32, address: Ipv4Addr, prefix_len: u8) -> AddressMessage {
    let mut message = AddressMessage::default();
    message.header.family = AddressFamily::Inet;
    message.header.prefix_len = prefix_len;
    message.header.index = index;
    message.attributes = vec![AddressAttribute::Local(address.into())];
    message
}

fn add_addresses(index: u32, first: Ipv4Addr, count: u32) {
    let mut kernel = Exchange::open().expect("a socket");
    for number in 0..count {
        let address = Ipv4Addr::from_bits(first.to_bits() + number);
        let request = RouteNetlinkMessage::NewAddress(address_message(index, address, 32));
        kernel.change(request, NLM_F_CREATE | NLM_F_EXCL).expect("an address");
    }
}

async fn cable(lan: &Lan) {
    lan.veth("v0", "v1").await;
    lan.up("v0").await;
    lan.up("v1").await;
}

async fn set_mac(lan: &Lan, name: &str, mac: [u8; 6]) {
    let index = lan.index(name).await;
    lan.set(LinkUnspec::new_with_index(index).address(mac.to_vec()).build()).await;
}

#[test]
fn a_namespace_that_is_empty_has_a_loopback_interface_and_no_routes() {
    in_network(|_| async {
        let view = view(&Netlink::connect().expect("a subscription")).await;
        let lo = interface(&view, "lo");
        assert_eq!((lo.loopback, lo.ethernet, lo.up, lo.carrier), (true, false, false, false));
        assert_eq!(view.interfaces.len(), 1);
        assert!(view.routes.is_empty());
    });
}

#[test]
fn links_are_observed_with_kind_master_carrier_mac_addresses_and_routes() {
    in_network(|lan| async move {
        lan.veth("v0", "v1").await;
        lan.bridge("br0").await;
        set_mac(&lan, "v0", [2, 0, 0, 0, 0, 0x0a]).await;
        let (bridge, port) = (lan.index("br0").await, lan.index("v1").await);
        lan.set(LinkUnspec::new_with_index(port).controller(bridge).build()).await;
        for name in ["v0", "v1"] {
            lan.up(name).await;
        }
        lan.address("v0", "192.0.2.1/24").await;
        lan.address("v0", "198.51.100.1/25").await;

        let view = view(&Netlink::connect().expect("a subscription")).await;
        let index = lan.index("v0").await;
        let expected = Interface {
            mac: MacAddr([2, 0, 0, 0, 0, 0x0a]),
            kind: "veth".to_owned(),
            // A veth begins with a loss: it is made without carrier.
            carrier_losses: 1,
            addresses: ["192.0.2.1/24", "198.51.100.1/25"].map(|net| net.parse().expect("a net")).to_vec(),
            ..Interface::sample(index, "v0")
        };
        assert_eq!(interface(&view, "v0"), &expected);
        assert_eq!(interface(&view, "v1").master, Some(bridge));
        assert_eq!(interface(&view, "br0").kind, "bridge");
        let route = |prefix: &str| ConnectedRoute {
            prefix: prefix.parse().expect("a prefix"),
            interface: index,
            metric: 0,
        };
        assert_eq!(view.routes, [route("192.0.2.0/24"), route("198.51.100.0/25")]);

        // The carrier is back before anyone looks.
        lan.set(LinkUnspec::new_with_index(port).down().build()).await;
        lan.up("v1").await;
        let netlink = Netlink::connect().expect("a subscription");
        let has_lost = async || {
            let v0 = interface(&self::view(&netlink).await, "v0").clone();
            v0.carrier && v0.carrier_losses == 2
        };
        let deadline = std::time::Instant::now() + Duration::from_secs(5);
        while !has_lost().await {
            assert!(std::time::Instant::now() < deadline, "a short loss is counted");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
}

#[test]
fn routes_through_a_gateway_are_left_out_and_metrics_are_kept() {
    in_network(|lan| async move {
        cable(&lan).await;
        lan.address("v0", "192.0.2.1/24").await;
        let index = lan.index("v1").await;
        let second = RouteMessageBuilder::<Ipv4Addr>::new()
            .destination_prefix(Ipv4Addr::new(192, 0, 2, 0), 24)
            .output_interface(index)
            .scope(RouteScope::Link)
            .priority(200)
            .build();
        lan.handle.route().add(second).execute().await.expect("a second connected route");
        let gateway = RouteMessageBuilder::<Ipv4Addr>::new().gateway(Ipv4Addr::new(192, 0, 2, 254)).build();
        lan.handle.route().add(gateway).execute().await.expect("a default route");

        let view = view(&Netlink::connect().expect("a subscription")).await;
        let found: Vec<_> = view.routes.iter().map(|route| (route.interface, route.metric)).collect();
        assert_eq!(found, [(lan.index("v0").await, 0), (index, 200)]);
    });
}

#[test]
fn carrier_mac_name_addresses_and_deletion_are_noticed() {
    in_network(|lan| async move {
        cable(&lan).await;
        let mut netlink = settled().await;
        assert!(interface(&view(&netlink).await, "v0").carrier);

        lan.down("v1").await;
        let now = until(&mut netlink, |view| !interface(view, "v0").carrier).await;
        assert!(interface(&now, "v0").up, "carrier is lost, the interface is not down");
        lan.up("v1").await;
        until(&mut netlink, |view| interface(view, "v0").carrier).await;

        set_mac(&lan, "v0", [2, 0, 0, 0, 0, 0x0b]).await;
        until(&mut netlink, |view| interface(view, "v0").mac == MacAddr([2, 0, 0, 0, 0, 0x0b])).await;

        lan.address("v0", "192.0.2.1/24").await;
        let has_address = |view: &NetView| !interface(view, "v0").addresses.is_empty();
        until(&mut netlink, |view| has_address(view) && view.routes.len() == 1).await;
        let index = lan.index("v0").await;
        let address = address_message(index, Ipv4Addr::new(192, 0, 2, 1), 24);
        lan.handle.address().del(address).execute().await.expect("the address can be removed");
        until(&mut netlink, |view| !has_address(view) && view.routes.is_empty()).await;

        lan.set(LinkUnspec::new_with_index(index).name("renamed").build()).await;
        until(&mut netlink, |view| view.by_name("renamed").is_some_and(|link| link.index == index)).await;

        let altnames = ["eth0", "lan-old"];
        lan.handle.link().property_add(index).alt_ifname(&altnames).execute().await.expect("two altnames");
        until(&mut netlink, |view| view.named("lan-old").is_some_and(|link| link.altnames == altnames)).await;

        lan.delete("renamed").await;
        until(&mut netlink, |view| view.interfaces.len() == 1).await;
    });
}

#[test]
fn the_routes_of_an_interface_that_is_down_are_gone() {
    in_network(|lan| async move {
        cable(&lan).await;
        lan.address("v0", "192.0.2.1/24").await;
        let mut netlink = settled().await;
        assert_eq!(view(&netlink).await.routes.len(), 1);
        lan.down("v0").await;
        let now = until(&mut netlink, |view| !interface(view, "v0").up).await;
        assert!(now.routes.is_empty());
        assert_eq!(interface(&now, "v0").addresses.len(), 1, "the address stays");
    });
}

#[test]
fn a_route_that_the_kernel_is_about_to_flush_is_not_believed() {
    let link = |index, up| Interface { up, carrier: up, ..Interface::sample(index, "eth") };
    let route = |interface| ConnectedRoute {
        prefix: "192.0.2.0/24".parse().expect("a prefix"),
        interface,
        metric: 0,
    };
    let interfaces = [(1, link(1, true)), (2, link(2, false))].into();
    let mut view = NetView { interfaces, ..NetView::default() };
    keep_routes(&mut view, [1, 2, 3].map(route).into_iter());
    assert_eq!(view.routes, [route(1)], "2 is down, 3 is gone");
}

#[test]
fn nothing_is_reported_while_nothing_changes_and_a_cancelled_wait_loses_nothing() {
    in_network(|lan| async move {
        lan.veth("v0", "v1").await;
        let mut netlink = settled().await;
        let quiet = timeout(Duration::from_millis(100), netlink.changed()).await;
        assert!(quiet.is_err(), "reported without a change: {quiet:?}");

        lan.up("v0").await;
        netlink.not_before = Instant::now() + Duration::from_millis(500);
        let early = timeout(Duration::from_millis(100), netlink.changed()).await;
        assert!(early.is_err(), "reported before the interval was over: {early:?}");
        assert!(netlink.pending.is_some(), "the cancelled wait has taken the notification from the socket");
        // The other end is down, so there is no carrier.
        let downs = BTreeSet::from([lan.index("v0").await]);
        let changed = netlink.changed().await.expect("a notification");
        assert_eq!(changed, Changed { may_have_left: downs, ..Changed::default() });
    });
}

#[test]
fn routes_that_are_not_connected_are_not_reported() {
    in_network(|lan| async move {
        cable(&lan).await;
        lan.address("v0", "192.0.2.1/24").await;
        // The kernel reports a change of carrier up to a second late (linkwatch), and the end of the
        // detection of duplicates up to two.
        let mut netlink = settled_for(Duration::from_millis(2_500)).await;
        let gateway = RouteMessageBuilder::<Ipv4Addr>::new()
            .destination_prefix(Ipv4Addr::new(203, 0, 113, 0), 24)
            .gateway(Ipv4Addr::new(192, 0, 2, 254))
            .build();
        lan.handle.route().add(gateway).execute().await.expect("a route through a gateway");
        let quiet = timeout(Duration::from_millis(100), netlink.changed()).await;
        assert!(quiet.is_err(), "reported: {quiet:?}");
    });
}

#[test]
fn two_hundred_interfaces_that_appear_at_once_are_all_observed() {
    in_network(|lan| async move {
        let mut netlink = settled().await;
        let appear = lan.clone();
        let appearing = tokio::spawn(async move {
            for number in 0..100 {
                appear.veth(&format!("a{number}"), &format!("b{number}")).await;
            }
        });
        let mut observations = 0;
        loop {
            netlink.changed().await.expect("a notification");
            observations += 1;
            if view(&netlink).await.interfaces.len() == 201 {
                break;
            }
        }
        appearing.await.expect("all were made");
        assert!(observations < 100, "{observations} observations for 200 interfaces");
    });
}

#[test]
fn after_an_overrun_everything_is_observed_again() {
    in_network(|lan| async move {
        lan.veth("v0", "v1").await;
        lan.up("v0").await;
        let mut netlink = settled().await;
        netlink.notifications.get_ref().set_rx_buf_sz(1u32).expect("a receive buffer of the least size");
        for last in 1..=200 {
            lan.address("v0", &format!("192.0.2.{last}/24")).await;
        }
        assert_eq!(
            netlink.changed().await.expect("a change"),
            Changed { overrun: true, ..Changed::default() }
        );
        assert_eq!(interface(&view(&netlink).await, "v0").addresses.len(), 200);

        lan.address("v0", "198.51.100.1/24").await;
        let now = until(&mut netlink, |view| interface(view, "v0").addresses.len() == 201).await;
        assert_eq!(now.routes.len(), 2);
    });
}

#[test]
fn ten_thousand_addresses_are_observed_completely() {
    in_network(|lan| async move {
        lan.veth("v0", "v1").await;
        let index = lan.index("v0").await;
        add_addresses(index, Ipv4Addr::new(10, 0, 0, 1), 10_000);
        let view = view(&Netlink::connect().expect("a subscription")).await;
        let mut found = interface(&view, "v0").addresses.clone();
        found.sort_unstable();
        found.dedup();
        assert_eq!(found.len(), 10_000);
    });
}

#[test]
fn a_dump_during_which_something_changes_is_not_an_observation() {
    in_network(|lan| async move {
        lan.veth("v0", "v1").await;
        let index = lan.index("v0").await;
        add_addresses(index, Ipv4Addr::new(10, 0, 0, 1), 2_000);
        let mut request = AddressMessage::default();
        request.header.family = AddressFamily::Inet;
        let mut seen = 0;
        let each = |_: &[u8]| {
            if seen == 0 {
                add_addresses(index, Ipv4Addr::new(10, 1, 0, 1), 1);
            }
            seen += 1;
            Ok(())
        };
        let mut kernel = Exchange::open().expect("a socket");
        let ended = kernel.dump(RouteNetlinkMessage::GetAddress(request), each).await;
        assert!(matches!(ended, Err(ExchangeError::Interrupted)), "{ended:?} after {seen} addresses");
    });
}

#[tokio::test]
async fn an_interrupted_dump_is_made_again_up_to_a_limit_and_other_errors_are_not() {
    let table = [
        ("settled at once", 0, Ok(1)),
        ("interrupted twice", 2, Ok(3)),
        ("interrupted once less than the limit", MAX_ATTEMPTS - 1, Ok(MAX_ATTEMPTS)),
        ("never settled", MAX_ATTEMPTS, Err(MAX_ATTEMPTS)),
    ];
    for (what, interruptions, expected) in table {
        let mut attempts = 0;
        let result = until_settled(async || {
            attempts += 1;
            if attempts <= interruptions { Err(ExchangeError::Interrupted) } else { Ok(()) }
        })
        .await;
        let got = if result.is_ok() { Ok(attempts) } else { Err(attempts) };
        assert_eq!(got, expected, "{what}");
    }
    let mut attempts = 0;
    let result: Result<(), _> = until_settled(async || {
        attempts += 1;
        Err(ExchangeError::TooLong { length: 1 })
    })
    .await;
    assert!(result.is_err());
    assert_eq!(attempts, 1);
}

#[test]
fn a_refusal_carries_the_kernels_reason() {
    in_network(|_| async {
        let mut message = LinkMessage::default();
        message.header.index = 4_000;
        let error = Exchange::open()
            .and_then(|mut kernel| kernel.change(RouteNetlinkMessage::DelLink(message), 0))
            .expect_err("there is no such link");
        assert_eq!(error.refusal(), Some(libc::ENODEV));
        assert_eq!(error.to_string(), "the kernel refused an rtnetlink request");
    });
}

#[test]
fn an_interface_that_was_down_for_a_moment_is_named() {
    in_network(|lan| async move {
        cable(&lan).await;
        let mut netlink = settled().await;
        lan.down("v0").await;
        lan.up("v0").await;
        let mut downs = BTreeSet::new();
        while downs.is_empty() {
            downs = netlink.changed().await.expect("a notification").may_have_left;
        }
        // The other end has lost its carrier.
        assert!(downs.contains(&lan.index("v0").await), "{downs:?}");
    });
}
