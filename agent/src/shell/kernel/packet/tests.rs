use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::AsRawFd;

use nix::errno::Errno;
use nix::sys::socket::{SockProtocol, bind, recv};

use vipward_common::{ETHERTYPE_ARP, ETHERTYPE_IPV6, MacAddr};

use super::*;
use crate::shell::testing::{Lan, in_network};

const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 0x0a]);
const VIP: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 10));
const VIP_6_OCTETS: [u8; 16] = [0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10];
const VIP_6: IpAddr = IpAddr::V6(Ipv6Addr::from_octets(VIP_6_OCTETS));
const SOURCE_6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x99));
#[rustfmt::skip]
const REQUEST: [u8; 60] = [
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 0x0a, 8, 6,
    0, 1, 8, 0, 6, 4, 0, 1,
    2, 0, 0, 0, 0, 0x0a, 192, 0, 2, 10,
    0, 0, 0, 0, 0, 0, 192, 0, 2, 10,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
];
#[rustfmt::skip]
const REPLY: [u8; 60] = [
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 0x0a, 8, 6,
    0, 1, 8, 0, 6, 4, 0, 2,
    2, 0, 0, 0, 0, 0x0a, 192, 0, 2, 10,
    2, 0, 0, 0, 0, 0x0a, 192, 0, 2, 10,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
];

struct Capture(OwnedFd);

impl Capture {
    fn on(ifindex: u32, ethertype: u16) -> Self {
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        let socket = socket(AddressFamily::Packet, SockType::Raw, flags, SockProtocol::EthAll)
            .expect("a packet socket");
        bind(socket.as_raw_fd(), &address(ifindex, ethertype)).expect("bound to the interface");
        Self(socket)
    }

    /// Returns all frames that have arrived. A veth delivers before
    /// its sender's call returns, or soon after.
    fn frames(&self, expected: usize) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        let mut buffer = [0; 2048];
        let wait = if expected == 0 { 50u16 } else { 5_000 };
        while frames.len() < expected.max(1) {
            let mut fds =
                [nix::poll::PollFd::new(std::os::fd::AsFd::as_fd(&self.0), nix::poll::PollFlags::POLLIN)];
            if nix::poll::poll(&mut fds, wait).expect("poll") == 0 {
                break;
            }
            let length = recv(self.0.as_raw_fd(), &mut buffer, MsgFlags::empty()).expect("a frame");
            // The kernel sends frames of its own when an interface comes up.
            if buffer[6..12] == MAC.0 {
                frames.push(buffer[..length].to_vec());
            }
        }
        frames
    }
}

async fn veth(lan: &Lan) -> (u32, Capture) {
    lan.veth("v0", "v1").await;
    lan.up("v0").await;
    lan.up("v1").await;
    (lan.index("v0").await, Capture::on(lan.index("v1").await, ETHERTYPE_ARP))
}

#[test]
fn a_round_is_a_request_form_and_a_reply_form_byte_for_byte() {
    in_network(|lan| async move {
        let (ifindex, capture) = veth(&lan).await;
        let announcer = Announcer::open().expect("a packet socket");
        let mut asked = 0;
        let sent = announcer.send(ifindex, MAC, VIP, || {
            asked += 1;
            true
        });
        assert_eq!(sent.expect("sent"), Sent::Both);
        assert_eq!(asked, 2);
        assert_eq!(capture.frames(2), [REQUEST.to_vec(), REPLY.to_vec()]);
    });
}

#[test]
fn a_round_for_ipv6_is_an_advertisement_to_all_nodes_and_one_to_all_routers() {
    in_network(|lan| async move {
        let (ifindex, _) = veth(&lan).await;
        let capture = Capture::on(lan.index("v1").await, ETHERTYPE_IPV6);
        let announcer = Announcer::open().expect("a packet socket");
        let sent = announcer.send(ifindex, MAC, VIP_6, || true);
        assert_eq!(sent.expect("sent"), Sent::Both);
        for (frame, group) in capture.frames(2).iter().zip([1, 2]) {
            assert_eq!(frame[..14], [0x33, 0x33, 0, 0, 0, group, 2, 0, 0, 0, 0, 0x0a, 0x86, 0xdd]);
            assert_eq!(frame.len(), 86);
            // Hop limit, source, destination, type, flags, target and option.
            let vip = VIP_6_OCTETS;
            assert_eq!((frame[21], &frame[22..38], frame[53]), (255, &vip[..], group));
            assert_eq!((frame[54], frame[58], &frame[62..78]), (136, 0x20, &vip[..]));
            assert_eq!(frame[78..], [2, 1, 2, 0, 0, 0, 0, 0x0a]);
        }
    });
}

#[test]
fn a_question_is_a_probe_without_a_source_and_each_ipv6_probe_has_its_own_nonce() {
    in_network(|lan| async move {
        let (ifindex, capture_4) = veth(&lan).await;
        let capture_6 = Capture::on(lan.index("v1").await, ETHERTYPE_IPV6);
        let announcer = Announcer::open().expect("a packet socket");
        for (vip, source) in [(VIP, None), (VIP_6, None), (VIP_6, None), (VIP_6, Some(SOURCE_6))] {
            announcer.probe(ifindex, MAC, vip, source).expect("sent");
        }
        let mut probe = REQUEST;
        probe[28..32].fill(0);
        assert_eq!(capture_4.frames(1), [probe.to_vec()]);
        let [first, second, question] = &capture_6.frames(3)[..] else { panic!("three") };
        for probe in [first, second] {
            assert_eq!((&probe[22..38], &probe[78..80]), (&[0; 16][..], &[14, 1][..]));
        }
        assert_ne!(first[80..], second[80..]);
        assert_eq!((question[37], &question[78..86]), (0x99, &[1, 1, 2, 0, 0, 0, 0, 0x0a][..]));
    });
}

#[test]
fn nothing_leaves_after_the_check_has_failed() {
    in_network(|lan| async move {
        let (ifindex, capture) = veth(&lan).await;
        let announcer = Announcer::open().expect("a packet socket");
        let sent = announcer.send(ifindex, MAC, VIP, || false).expect("stopped");
        assert_eq!(sent, Sent::Stopped { frames: 0 });
        assert!(capture.frames(0).is_empty());

        let mut answers = [true, false].into_iter();
        let sent = announcer.send(ifindex, MAC, VIP, || answers.next() == Some(true)).expect("stopped");
        assert_eq!(sent, Sent::Stopped { frames: 1 });
        assert_eq!(capture.frames(1), [REQUEST.to_vec()]);
        assert!(capture.frames(0).is_empty());
    });
}

#[test]
fn an_interface_that_is_down_or_gone_is_an_error_that_names_vip_and_interface() {
    in_network(|lan| async move {
        let (ifindex, _capture) = veth(&lan).await;
        let announcer = Announcer::open().expect("a packet socket");
        lan.down("v0").await;
        let error = announcer.send(ifindex, MAC, VIP, || true).expect_err("it is down");
        assert_eq!(
            error.to_string(),
            format!("failed to announce 192.0.2.10 on the interface with index {ifindex}")
        );
        assert!(matches!(error, PacketError::Send { source: Errno::ENETDOWN, .. }), "{error:?}");

        lan.delete("v0").await;
        let error = announcer.send(ifindex, MAC, VIP, || true).expect_err("it is gone");
        assert!(matches!(error, PacketError::Send { source: Errno::ENXIO | Errno::ENODEV, .. }), "{error:?}");
    });
}

#[test]
fn the_announcing_socket_receives_nothing() {
    in_network(|lan| async move {
        let (ifindex, _capture) = veth(&lan).await;
        let peer = lan.index("v1").await;
        let announcer = Announcer::open().expect("a packet socket");
        let loud = Capture::on(ifindex, ETHERTYPE_ARP);
        announcer.send(peer, MAC, VIP, || true).map(drop).expect("sent");
        assert_eq!(loud.frames(2).len(), 2, "the frames do arrive");
        let mut buffer = [0; 64];
        let received = recv(announcer.socket.as_raw_fd(), &mut buffer, MsgFlags::empty());
        assert_eq!(received, Err(Errno::EAGAIN));
    });
}
