use super::*;

const SELF: u64 = 7;
const WID: u64 = 8;
const PEER: u64 = 9;

fn at(nanos: u64) -> Boottime {
    Boottime::from_nanos(nanos)
}

fn wired() -> Wired {
    Wired {
        wid: Wid::from_number(WID),
        keys: [1].into(),
        index: [(PEER, 0), (WID + 1, 0)].into(),
        ..Wired::default()
    }
}

fn packet(kind: Kind, holder: u64, wid: u64, sent_ns: u64) -> Packet {
    let (from, to) = (names::mac(1, 0, 0), names::mac(0, 0, 0));
    Packet { from, to, kind, key: 1, holder, wid, sent_ns, answered_ns: 0 }
}

#[test]
fn a_frame_is_handled_as_the_page_says() {
    let session = Session::from_number(SELF);
    let ping = packet(Kind::Ping, SELF, WID + 1, 50);
    let echo = Packet { kind: Kind::Echo, from: ping.to, to: ping.from, answered_ns: 100, ..ping };
    let rows = [
        ("a ping of a known monitor", ping, 0, Verdict::Answered(echo)),
        ("on another segment", ping, 1, Verdict::Refused),
        ("with an unknown key", Packet { key: 2, ..ping }, 0, Verdict::Refused),
        ("of an unknown monitor", Packet { wid: 1, ..ping }, 0, Verdict::Refused),
        ("for another session", Packet { holder: PEER, ..ping }, 0, Verdict::Refused),
        ("an echo of a peer", packet(Kind::Echo, PEER, WID, 50), 0, Verdict::Consumed),
        ("from the future", packet(Kind::Echo, PEER, WID, 101), 0, Verdict::Refused),
        ("for another monitor", packet(Kind::Echo, PEER, WID + 1, 50), 0, Verdict::Refused),
        ("of an unknown session", packet(Kind::Echo, SELF, WID, 50), 0, Verdict::Refused),
        ("a vote request about a peer", packet(Kind::VoteRequest, PEER, WID + 1, 3), 0, Verdict::Passed),
        ("a vote about none", packet(Kind::Vote, 1, WID + 1, 3), 0, Verdict::Refused),
        ("the end of this session", packet(Kind::Ended, SELF, 0, 0), 0, Verdict::Ended),
        ("of another one", packet(Kind::Ended, PEER, 0, 0), 0, Verdict::Passed),
    ];
    for (what, packet, segment, verdict) in rows {
        assert_eq!(wired().receive(packet, segment, session, at(100)), verdict, "{what}");
    }
    let no_session = packet(Kind::Ping, 0, WID + 1, 50);
    assert_eq!(wired().receive(no_session, 0, None, at(100)), Verdict::Refused, "no session");
}

#[test]
fn an_old_echo_is_no_news_and_an_end_is_reported_once() {
    let mut wired = wired();
    let session = Session::from_number(SELF);
    wired.receive(packet(Kind::Echo, PEER, WID, 60), 0, session, at(100));
    wired.receive(packet(Kind::Echo, PEER, WID, 50), 0, session, at(110));
    let peer = Session::from_number(PEER).expect("a session");
    assert_eq!(wired.holder(peer, "eth0"), Sight { answered: at(60), received: at(100) });
    assert_eq!(wired.holder(peer, "eth1"), Sight::default());
    let ended = packet(Kind::Ended, SELF, 0, 0);
    assert_eq!(wired.receive(ended, 0, session, at(120)), Verdict::Ended);
    assert_eq!(wired.receive(ended, 0, session, at(130)), Verdict::Consumed);
    assert_eq!(wired.notified().map(|word| word.session), session);
}
