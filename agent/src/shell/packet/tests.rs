use std::os::fd::AsRawFd;

use nix::errno::Errno;
use nix::sys::socket::{SockProtocol, bind, recv};

use super::*;
use crate::shell::testing::{Lan, in_network};

const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 0x0a]);
const VIP: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 10);
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

/// A capture of the ARP frames that arrive at one interface.
struct Capture(OwnedFd);

impl Capture {
    fn on(ifindex: u32) -> Self {
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        let socket = socket(AddressFamily::Packet, SockType::Raw, flags, SockProtocol::EthAll)
            .expect("a packet socket");
        bind(socket.as_raw_fd(), &destination(ifindex)).expect("bound to the interface");
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
            frames.push(buffer[..length].to_vec());
        }
        frames
    }
}

async fn veth(lan: &Lan) -> (u32, Capture) {
    lan.veth("v0", "v1").await;
    lan.up("v0").await;
    lan.up("v1").await;
    (lan.index("v0").await, Capture::on(lan.index("v1").await))
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
        let loud = Capture::on(ifindex);
        announcer.send(peer, MAC, VIP, || true).map(drop).expect("sent");
        assert_eq!(loud.frames(2).len(), 2, "the frames do arrive");
        let mut buffer = [0; 64];
        let received = recv(announcer.socket.as_raw_fd(), &mut buffer, MsgFlags::empty());
        assert_eq!(received, Err(Errno::EAGAIN));
    });
}
