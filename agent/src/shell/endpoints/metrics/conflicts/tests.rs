use std::net::{IpAddr, Ipv4Addr};

use vipward_common::{MacAddr, VipKey};
use vipward_core::{
    base::time::Monotonic,
    segment::conflict::{End, Offender, Right, Sight, What},
};

use super::*;

const KEY: VipKey = VipKey { ifindex: 2, addr: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 10)) };
const OTHER: VipKey = VipKey { addr: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 11)), ..KEY };

fn mac(last: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, last])
}

fn conflict(key: VipKey, offenders: &[u8]) -> Conflict {
    let now = Monotonic::default();
    let offender = |last: &u8| Offender {
        mac: mac(*last),
        source: mac(*last),
        oper: 1,
        first: now,
        last: now,
        claims: 1,
        answerer: None,
    };
    let offenders: Vec<Offender> = offenders.iter().map(offender).collect();
    let (what, holder) = (What::Held, MacAddr::ZERO);
    let (begun, last) = (now, now);
    Conflict {
        key,
        what,
        holder,
        begun,
        last,
        claims: 1,
        offenders,
        more: false,
        defences: 0,
        doubled: false,
    }
}

fn began(key: VipKey, last: u8) -> Line {
    let (mac, what) = (mac(last), What::Held);
    let sight = Sight {
        key,
        what,
        mac,
        source: mac,
        oper: 1,
        holder: MacAddr::ZERO,
        times: 1,
        at: Monotonic::default(),
        right: Right::NoClaims,
    };
    Line::Began { conflict: conflict(key, &[last]), sight }
}

/// Returns a VIP that a peer holds too, or did.
fn shared(key: VipKey, doubled: bool) -> Conflict {
    Conflict { what: What::Contested, doubled, ..conflict(key, &[3]) }
}

fn ended(key: VipKey) -> Line {
    Line::Ended { conflict: conflict(key, &[]), why: End::Quiet }
}

#[test]
fn conflicts_are_counted_from_their_beginning_to_their_end() {
    let joined = Line::NewOffender { conflict: conflict(KEY, &[1, 2]), mac: mac(2) };
    let both = vec![conflict(KEY, &[1, 2]), conflict(OTHER, &[1])];
    let steps = [
        ("an unknown host claims", began(KEY, 1), vec![conflict(KEY, &[1])], (1, 1, 1)),
        ("another joins it", joined, vec![conflict(KEY, &[1, 2])], (1, 2, 1)),
        ("the same on another VIP", began(OTHER, 1), both.clone(), (2, 3, 2)),
        ("more than are listed", Line::TooMany { times: 7 }, both, (2, 3, 2)),
        ("the first is over", ended(KEY), vec![conflict(OTHER, &[1])], (1, 1, 2)),
        ("the second, too", ended(OTHER), vec![], (0, 0, 2)),
        ("it begins again", began(KEY, 1), vec![conflict(KEY, &[1])], (1, 1, 3)),
        (
            "a peer answers too",
            Line::Doubled { conflict: shared(OTHER, true) },
            vec![conflict(KEY, &[1]), shared(OTHER, true)],
            (2, 2, 4),
        ),
        (
            "it has yielded",
            Line::Doubled { conflict: shared(OTHER, false) },
            vec![conflict(KEY, &[1])],
            (1, 1, 4),
        ),
    ];
    let metrics = ConflictMetrics::default();
    for (what, line, open, (active, offenders, total)) in steps {
        metrics.on_line(&line, open.iter());
        let now = (metrics.active.get(), metrics.offenders.get(), metrics.total.get());
        assert_eq!(now, (active, offenders, total), "{what}");
    }
}
