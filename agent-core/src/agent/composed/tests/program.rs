//! Events of the program, about a VIP that this node holds or guards, or that has no entry.

use vipward_common::{EventKind, MacAddr};

use super::{api, world::*};
use crate::base::samples::unknown_host;

const FILE: &str = "vips: [{address: 10.0.0.10}, {address: 10.0.0.11, mac: \"02:00:00:00:00:08\"}]\n";
const HELD: u8 = 10;
const GUARDED: u8 = 11;
const UNKNOWN: u8 = 12;

/// A kind, the VIP, and the lines of a file's agent and of a cluster's.
type Row = (EventKind, u8, &'static [&'static str], &'static [&'static str]);

#[test]
fn an_event_of_the_program() {
    use EventKind::*;
    // Each event is followed by a read of the number of yields.
    let rows: [Row; 18] = [
        (
            Conflict,
            HELD,
            &["announce 10 01 Defence", "log conflict Held"],
            &["announce 10 01 Defence", "post Conflict", "post Conflict", "log conflict Held"],
        ),
        (Conflict, GUARDED, &["log conflict Guarded"], &["log conflict Guarded"]),
        (Conflict, UNKNOWN, &["log conflict Guarded"], &["log conflict Guarded"]),
        // The file is the authority. A cluster's is the claim, which is read and believed.
        (
            Contested,
            HELD,
            &["log conflict Contested", "announce 10 01 Defence"],
            &[
                "log conflict Contested",
                "read claim 10",
                "read 10",
                "holder 10 here",
                "announce 10 01 Defence",
            ],
        ),
        (Contested, GUARDED, &["log conflict Contested"], &[]),
        (Contested, UNKNOWN, &["log conflict Contested"], &[]),
        // The claim may explain a move when it has been read.
        (Moved, HELD, &["log conflict Moved"], &[]),
        (Moved, GUARDED, &["log conflict Moved"], &[]),
        (Moved, UNKNOWN, &["log conflict Moved"], &[]),
        (Yielded, HELD, &["log conflict Yielded"], &[]),
        (Yielded, GUARDED, &["log conflict Yielded"], &[]),
        (Yielded, UNKNOWN, &["log conflict Yielded"], &[]),
        (Sighted, HELD, &["log conflict Sighted"], &["log conflict Sighted"]),
        (Sighted, GUARDED, &["log conflict Sighted"], &["log conflict Sighted"]),
        (Sighted, UNKNOWN, &["log conflict Sighted"], &["log conflict Sighted"]),
        // A host that probes is a rival only while this node probes.
        (Probed, HELD, &[], &[]),
        (Probed, GUARDED, &[], &[]),
        (Probed, UNKNOWN, &[], &[]),
    ];
    for (kind, host, file, cluster) in rows {
        let mac = match kind {
            Conflict | Sighted | Probed => unknown_host(1),
            Contested | Moved | Yielded => PEER,
        };
        let worlds = [(World::running(FILE, &[HELD]), file), (World::living(&[HELD], &[GUARDED]), cluster)];
        for (mut world, expected) in worlds {
            world.after(ms(20_500));
            let mut lines = world.event(host, kind, mac);
            let looks = lines.iter().position(|line| line == "read yields").expect("a look at the yields");
            lines.remove(looks);
            assert_eq!(lines, expected, "{kind:?} about {host}, {}", world.agent.cluster().is_some());
        }
    }
}

#[test]
fn a_frame_of_this_host_is_no_claim() {
    let own = MacAddr([2, 0, 0, 0, 0, 1]);
    for kind in [EventKind::Conflict, EventKind::Sighted, EventKind::Probed] {
        let mut world = World::running(FILE, &[HELD]);
        assert_eq!(world.event(HELD, kind, own), ["read yields"], "{kind:?}");
    }
}

#[test]
fn a_conflict_is_shown_on_the_claim_and_its_end_too() {
    let mut world = World::living(&[HELD], &[]);
    world.event(HELD, EventKind::Conflict, unknown_host(1));
    assert_eq!(world.after_only(ms(200), "show"), ["show 10 Conflict"]);
    let quiet = world.agent.config().conflicts.quiet;
    let lines = world.after_only(quiet + ms(60_000), "log conflict over|post|show");
    assert!(lines.contains(&"log conflict over Quiet".to_owned()), "{lines:?}");
    assert_eq!(lines.iter().filter(|line| *line == "post ConflictOver").count(), 2, "{lines:?}");
}

#[test]
fn peers_announcements_that_the_claim_does_not_explain_are_logged_later() {
    let mut world = World::living(&[], &[GUARDED]);
    let lines = world.event(GUARDED, EventKind::Moved, MacAddr([2, 0, 0, 0, 0, 8]));
    assert_eq!(only(lines, "log conflict"), [""; 0]);
    let lines = world.after_only(ms(60_000), "log conflict");
    assert_eq!(lines, ["log conflict Moved"], "two looks found the claim without the peer");
}

#[test]
fn the_announcement_of_a_successor_reaches_the_engine() {
    // A holder that has received its successor's announcement reads the claim before it takes the
    // VIP back.
    let back = "claim 10: held by a, 3";
    for (kind, expected) in [(EventKind::Moved, &["read claim 10", back][..]), (EventKind::Probed, &[back])] {
        let mut world = World::living(&[HELD], &[]);
        let record = world.api.claims[&vip(HELD)].clone();
        world.api.put_claim(crate::records::ClaimRecord { move_to: Some("b".into()), ..record });
        let seen = api::seen_claim(&world.api.claims[&vip(HELD)]);
        let lines = only(world.see(vec![seen]), "write 10|claim");
        assert_eq!(lines, ["write 10 handover 09", "claim 10: offered to b, 2"]);
        world.after(ms(500));
        world.event(HELD, kind, PEER);
        assert_eq!(world.after_only(ms(3_000), "read claim|claim"), expected, "{kind:?}");
    }
}
