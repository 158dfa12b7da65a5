use std::{net::Ipv4Addr, time::Duration};

use tokio::time::timeout;
use vipward_common::{ArpFrame, NdFrame, OPER_REPLY, OPER_REQUEST};

use super::*;
use crate::shell::{
    kernel::netlink::Netlink,
    testing::{Lan, in_network},
};

const ADDRESS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 10);
const ADDRESS_6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 1, 2, 3, 4, 5, 0x10);
const NEAR: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const FAR: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

async fn cable(lan: &Lan, number: u8, receives: IpAddr) -> (Segment, Segment) {
    let (v, w) = (format!("v{number}"), format!("w{number}"));
    lan.veth(&v, &w).await;
    lan.up(&v).await;
    lan.up(&w).await;
    let near = Segment::open(lan.index(&v).await, &v, Receiving::About(receives)).expect("a segment");
    let far = Segment::open(lan.index(&w).await, &w, Receiving::About(receives)).expect("a segment");
    (near, far)
}

async fn received(segment: &Segment, wait: Duration) -> Option<Frame> {
    timeout(wait, segment.receive()).await.ok().map(|frame| frame.expect("a frame"))
}

fn frame(oper: u16, spa: Ipv4Addr, tpa: Ipv4Addr) -> Frame {
    Frame::Arp(ArpFrame::new(MacAddr::BROADCAST, FAR, oper, FAR, spa.octets(), NEAR, tpa.octets()))
}

#[test]
fn a_question_arrives_as_it_is_and_is_not_received_by_who_asks() {
    in_network(|lan| async move {
        for (number, address) in [(0, ADDRESS.into()), (1, ADDRESS_6.into())] {
            let (near, far) = cable(&lan, number, address).await;
            let question = Frame::question(NEAR, None, address, [1, 2, 3, 4, 5, 6]);
            near.send(&question).expect("sent");
            assert_eq!(received(&far, Duration::from_secs(5)).await, Some(question));
            assert_eq!(received(&near, Duration::from_millis(50)).await, None);
        }
    });
}

#[test]
fn only_what_names_the_address_is_received() {
    in_network(|lan| async move {
        let (near, far) = cable(&lan, 0, ADDRESS.into()).await;
        let other = Ipv4Addr::new(192, 0, 2, 11);
        for (oper, spa, tpa) in [
            (OPER_REPLY, other, other),
            (OPER_REQUEST, other, Ipv4Addr::new(192, 0, 2, 12)),
            (OPER_REPLY, ADDRESS, Ipv4Addr::UNSPECIFIED),
            (OPER_REQUEST, other, other),
            (OPER_REQUEST, other, ADDRESS),
        ] {
            far.send(&frame(oper, spa, tpa)).expect("sent");
        }
        let expected =
            [frame(OPER_REPLY, ADDRESS, Ipv4Addr::UNSPECIFIED), frame(OPER_REQUEST, other, ADDRESS)];
        for expected in expected {
            assert_eq!(received(&near, Duration::from_secs(5)).await, Some(expected));
        }
        assert_eq!(received(&near, Duration::from_millis(50)).await, None);
    });
}

#[test]
fn only_messages_about_the_ipv6_address_are_received() {
    in_network(|lan| async move {
        let (near, far) = cable(&lan, 0, ADDRESS_6.into()).await;
        // Each differs from the address in one word.
        let others = [0, 5, 9, 15].map(|at| {
            let mut octets = ADDRESS_6.octets();
            octets[at] ^= 1;
            octets
        });
        let (own, group) = (ADDRESS_6.octets(), group_mac(solicited_node(ADDRESS_6.octets())));
        for other in others {
            far.send(&Frame::Nd(NdFrame::solicitation(FAR, others[3], other))).expect("sent");
            far.send(&Frame::Nd(NdFrame::advertisement(group, FAR, own, other, FAR, 0))).expect("sent");
        }
        let expected = [
            NdFrame::solicitation(FAR, others[0], own),
            NdFrame::solicitation(FAR, own, others[1]),
            NdFrame::probe(FAR, own, [1; 6]),
            NdFrame::advertisement(group, FAR, others[2], own, FAR, 0x60),
        ];
        for frame in expected {
            far.send(&Frame::Nd(frame)).expect("sent");
        }
        for frame in expected {
            assert_eq!(received(&near, Duration::from_secs(5)).await, Some(Frame::Nd(frame)));
        }
        assert_eq!(received(&near, Duration::from_millis(50)).await, None);
    });
}

#[test]
fn what_came_for_this_host_or_for_all_is_received_and_nothing_else() {
    in_network(|lan| async move {
        lan.veth("v0", "v1").await;
        lan.up("v0").await;
        lan.up("v1").await;
        let (v0, v1) = (lan.index("v0").await, lan.index("v1").await);
        let near = Segment::open(v0, "v0", Receiving::Arp).expect("a segment");
        let far = Segment::open(v1, "v1", Receiving::Arp).expect("a segment");
        let view = Netlink::connect().expect("a socket").observe().await.expect("a view");
        let own = view.interfaces[&v0].mac;
        let to = |dst| {
            let (own, address) = (FAR, ADDRESS.octets());
            Frame::Arp(ArpFrame::new(dst, own, OPER_REQUEST, own, address, NEAR, address))
        };
        for dst in [MacAddr([2, 0, 0, 0, 0, 77]), own, MacAddr::BROADCAST] {
            far.send(&to(dst)).expect("sent");
        }
        assert_eq!(received(&near, Duration::from_secs(5)).await, Some(to(own)), "not another host's");
        assert_eq!(received(&near, Duration::from_secs(5)).await, Some(to(MacAddr::BROADCAST)));
        assert_eq!(received(&near, Duration::from_millis(50)).await, None);
        assert_eq!(received(&far, Duration::from_millis(50)).await, None, "not what this host sends");
    });
}

#[test]
fn an_interface_that_goes_down_or_is_gone_is_an_error_that_names_it() {
    in_network(|lan| async move {
        let (near, _far) = cable(&lan, 0, ADDRESS.into()).await;
        lan.down("v0").await;
        let error = near.receive().await.expect_err("it is down");
        assert_eq!(error.to_string(), "failed to listen on v0");
        let error = near.send(&frame(OPER_REQUEST, ADDRESS, ADDRESS)).expect_err("it is down");
        assert!(matches!(error, SegmentError::Send { source: Errno::ENETDOWN, .. }), "{error:?}");
        assert_eq!(error.to_string(), "failed to send a probe on v0");

        let error = Segment::open(9_999, "v9", Receiving::About(ADDRESS.into())).expect_err("there is none");
        assert_eq!(error.to_string(), "failed to listen on v9");
    });
}
