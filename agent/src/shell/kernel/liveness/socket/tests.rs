use std::{
    thread,
    time::{Duration, Instant},
};

use nix::sys::socket::{MsgFlags, SockType, sendto};
use rtnetlink::LinkUnspec;
use vipward_common::{ETHERTYPE_WIRE, MacAddr, WireFields, WireFrame, WireType};
use vipward_core::{
    liveness::{Frame, Kind},
    records::{KeyId, Session, Wid},
};

use super::{Incoming, Keys, Next, WireSocket, read};
use crate::shell::{
    kernel::packet::{address_of, open},
    testing::{Lan, in_network},
};

const NEAR: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const FAR: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

const ONE: &str = "000102030405060708090a0b0c0d0e0f";
const TWO: &str = "f0e0d0c0b0a090807060504030201000";
const FIELDS: WireFields = WireFields { holder: 7, wid: 8, round: 0, sent_ns: 9, answered_ns: 0 };

fn keys(entries: &[(&str, &str)]) -> Keys {
    Keys::read(entries.iter().copied(), None).0
}

/// Returns a frame that is signed with the second key.
fn frame(kind: WireType, number: u8, fields: &WireFields) -> WireFrame {
    let keys = keys(&[("2", TWO)]);
    WireFrame::new(kind, number, fields, keys.get(KeyId(2)).expect("it was read").sip())
}

/// A description, the destination, the VLAN tags, the frame behind them, and what the socket receives.
type Row<'a> = (&'a str, MacAddr, &'a [[u8; 4]], &'a [u8], Option<(u32, Kind)>);

#[test]
fn vote_requests_and_votes_are_read_if_their_tag_is_right() {
    let has = keys(&[("1", ONE), ("2", TWO)]);
    let wanted = |kind| {
        Some(Frame {
            kind,
            holder: Session::from_number(7).expect("not zero"),
            wid: Wid::from_number(8),
            stamp: 9,
        })
    };
    let no_session = WireFields { holder: 0, ..FIELDS };
    let rows = [
        ("a vote request", frame(WireType::VoteRequest, 2, &FIELDS), wanted(Kind::VoteRequest)),
        ("a vote", frame(WireType::Vote, 2, &FIELDS), wanted(Kind::Vote)),
        ("the tag of another key", frame(WireType::VoteRequest, 1, &FIELDS), None),
        ("an unknown key", frame(WireType::VoteRequest, 3, &FIELDS), None),
        ("about no session", frame(WireType::VoteRequest, 2, &no_session), None),
        ("a ping, which is the program's", frame(WireType::Ping, 2, &FIELDS), None),
        ("an echo", frame(WireType::Echo, 2, &FIELDS), None),
    ];
    for (what, frame, wanted) in rows {
        assert_eq!(read(&frame, &has), wanted, "{what}");
    }
    let mut bytes = frame(WireType::VoteRequest, 2, &FIELDS).to_bytes();
    for place in 4..bytes.len() {
        bytes[place] ^= 1;
        let other = WireFrame::from_bytes(&bytes).expect("the magic stands");
        assert_eq!(read(&other, &has), None, "byte {place} was changed");
        bytes[place] ^= 1;
    }
}

async fn cable(lan: &Lan) -> (u32, u32) {
    lan.veth("v", "w").await;
    let (v, w) = (lan.index("v").await, lan.index("w").await);
    for (index, mac) in [(v, NEAR), (w, FAR)] {
        lan.set(LinkUnspec::new_with_index(index).address(mac.0.to_vec()).build()).await;
    }
    for name in ["v", "w"] {
        lan.up(name).await;
    }
    (v, w)
}

fn next(socket: &WireSocket, keys: &Keys) -> Next {
    let end = Instant::now() + Duration::from_secs(5);
    while Instant::now() < end {
        match socket.receive(keys).expect("the socket can be read") {
            Next::Nothing => thread::sleep(Duration::from_millis(1)),
            next => return next,
        }
    }
    Next::Nothing
}

#[test]
fn the_kernel_passes_vote_requests_votes_and_expiry_notices_to_this_host_and_nothing_else() {
    const PRIORITY: [u8; 4] = [0x81, 0, 0xe0, 0];
    const OF_8: [u8; 4] = [0x81, 0, 0, 8];

    in_network(|lan| async move {
        let (v, w) = cable(&lan).await;
        let has = keys(&[("2", TWO)]);
        let socket = WireSocket::to_receive().expect("a socket");
        let sender = open(SockType::Raw).expect("a socket");
        let send = |to: MacAddr, tags: &[[u8; 4]], behind: &[u8]| {
            let ethertype = ETHERTYPE_WIRE.to_be_bytes();
            let bytes = [&to.0[..], &FAR.0, tags.as_flattened(), &ethertype, behind].concat();
            sendto(
                std::os::fd::AsRawFd::as_raw_fd(&sender),
                &bytes,
                &address_of(w, 0, to),
                MsgFlags::empty(),
            )
            .expect("sent");
        };
        let whole = |kind| frame(kind, 2, &FIELDS).to_bytes();
        let (request, vote) = (whole(WireType::VoteRequest), whole(WireType::Vote));
        let mut foreign = request;
        foreign[3] = b'2';
        let broadcast = MacAddr::BROADCAST;
        let group = MacAddr([1, 0, 0x5e, 0, 0, 1]);
        let guest = MacAddr([2, 0, 0, 0, 0, 9]);
        let rows: [Row<'_>; 15] = [
            ("a vote request", NEAR, &[], &request, Some((v, Kind::VoteRequest))),
            ("a vote", NEAR, &[], &vote, Some((v, Kind::Vote))),
            ("a vote request with a priority", NEAR, &[PRIORITY], &request, Some((v, Kind::VoteRequest))),
            ("a vote request in a VLAN without a device", NEAR, &[OF_8], &request, None),
            ("a ping", NEAR, &[], &whole(WireType::Ping), None),
            ("an echo", NEAR, &[], &whole(WireType::Echo), None),
            ("an expiry notice", NEAR, &[], &whole(WireType::Ended), Some((v, Kind::Ended))),
            ("another magic number", NEAR, &[], &foreign, None),
            ("a vote request to a guest", guest, &[], &request, None),
            ("a vote request to all", broadcast, &[], &request, None),
            ("a vote request to a group", group, &[], &request, None),
            ("nothing", NEAR, &[], &[], None),
            ("half a magic number", NEAR, &[], &request[..2], None),
            ("a magic number alone", NEAR, &[], &request[..4], None),
            ("zeros", NEAR, &[], &[0; 200], None),
        ];
        let last = whole(WireType::VoteRequest);
        for (what, to, tags, bytes, wanted) in rows {
            send(to, tags, bytes);
            // What follows shows that nothing came before it.
            send(NEAR, &[], &last);
            let mut got = Vec::new();
            for _ in 0..=usize::from(wanted.is_some()) {
                match next(&socket, &has) {
                    Next::Frame(Incoming { ifindex, from, frame }) => {
                        assert_eq!(from, FAR, "{what}");
                        got.push((ifindex, frame.kind));
                    }
                    other => panic!("{what}: {other:?}"),
                }
            }
            let expected: Vec<_> = wanted.into_iter().chain([(v, Kind::VoteRequest)]).collect();
            assert_eq!(got, expected, "{what}");
            assert_eq!(socket.receive(&has).expect("the socket can be read"), Next::Nothing, "{what}");
        }
    });
}
