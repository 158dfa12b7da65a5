use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::*;
use crate::shell::endpoints::metrics::Mode;

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const POD: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 11));
const POD_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1));

fn listen(addresses: &[ListenAddress], pod: Option<IpAddr>, needs_loopback: bool) -> Listen {
    Listen { addresses: addresses.to_vec(), port: 9_647, pod, needs_loopback }
}

/// A description, the settings, and the addresses, each with true if it is required.
type Row<'a> = (&'a str, Listen, &'a [(IpAddr, bool)]);

#[test]
fn addresses_are_the_default_ones_unless_some_are_named() {
    use ListenAddress::{At, Nowhere};
    let table: [Row<'_>; 7] = [
        ("standalone", listen(&[], None, false), &[(LOOPBACK, false)]),
        ("in a pod", listen(&[], Some(POD), true), &[(LOOPBACK, true), (POD, false)]),
        (
            "in a pod of an IPv6 cluster",
            listen(&[], Some(POD_V6), true),
            &[(LOOPBACK, true), (POD_V6, false)],
        ),
        ("in a cluster without a pod", listen(&[], None, true), &[(LOOPBACK, true)]),
        ("named", listen(&[At(POD)], Some(POD_V6), true), &[(POD, true)]),
        (
            "named twice",
            listen(&[At(POD), At(POD), At(LOOPBACK)], None, false),
            &[(POD, true), (LOOPBACK, true)],
        ),
        ("nowhere", listen(&[Nowhere], Some(POD), true), &[]),
    ];
    for (what, listen, expected) in table {
        let expected: Vec<_> =
            expected.iter().map(|(address, must)| (SocketAddr::new(*address, 9_647), *must)).collect();
        assert_eq!(listen.wanted().expect("it makes sense"), expected, "{what}");
    }
}

#[test]
fn nowhere_and_somewhere_is_refused() {
    let both = listen(&[ListenAddress::Nowhere, ListenAddress::At(POD)], None, false);
    let refused = both.wanted().expect_err("it makes no sense").to_string();
    assert!(refused.contains("198.51.100.11") && refused.contains("none"), "{refused}");
}

/// Two agents run on one host. The second ends only if it needs the address.
#[tokio::test]
async fn a_taken_port_ends_the_agent_only_where_it_was_asked_for() {
    let taken = std::net::TcpListener::bind((IpAddr::V4(Ipv4Addr::LOCALHOST), 0)).expect("a port");
    let port = taken.local_addr().expect("an address").port();
    let metrics = || Arc::new(Metrics::new(Mode::Standalone, 10));
    let by_default = Listen { port, ..listen(&[], None, false) };
    assert!(Endpoints::open(&by_default, metrics()).await.is_ok());
    let named = Listen { port, ..listen(&[ListenAddress::At(LOOPBACK)], None, false) };
    let refused = Endpoints::open(&named, metrics()).await.err().expect("the port is taken").to_string();
    assert!(refused.contains(&format!("127.0.0.1:{port}")) && refused.contains("--listen"), "{refused}");
    let by_kubelet = Listen { port, ..listen(&[], None, true) };
    assert!(Endpoints::open(&by_kubelet, metrics()).await.is_err());
}
