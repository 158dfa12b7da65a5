//! Rounds of listening: whether the program sees the frames of a segment.

use std::time::Duration;

use vipward_common::{Proof, Twin};

use super::{world::*, *};

const VIPS: &str = "vips: [{address: 10.0.0.10, force: true}, {address: 10.0.0.11, force: true}]\n";
/// Enough for the next round.
const NEXT: Duration = Duration::from_mins(2);

/// The result of a round: the frames, the count, and if a question for the VIP came.
type Received = (u32, u64, bool);

impl World {
    /// Lets time pass until a round begins. Returns its number.
    pub(super) fn listening(&mut self) -> u64 {
        for _ in 0..NEXT.as_millis() / 100 {
            if let Some(round) = self.listening.take() {
                return round;
            }
            self.after(ms(100));
        }
        panic!("no round begins");
    }

    fn listened(&mut self, round: u64, (frames, counted, asked): Received) -> Vec<String> {
        let answered = if asked { [vip(10)].into() } else { BTreeSet::new() };
        let egress = egress::Outcome::default();
        let mut lines = self.notify(Input::Listened(Listened {
            segment: ETH0,
            round,
            frames,
            counted,
            answered,
            egress,
            of_others: BTreeMap::new(),
            twin: self.twin,
        }));
        lines.retain(|line| !line.starts_with("listen"));
        lines
    }

    /// Has two rounds with this result. Returns the lines of the second one.
    fn twice(&mut self, received: Received) -> Vec<String> {
        let round = self.listening();
        self.listened(round, received);
        let round = self.listening();
        self.listened(round, received)
    }

    /// Has the VIP's entry removed and written again.
    fn take_again(&mut self) {
        self.reload(Some("vips: []\n"), false);
        self.reload(Some(VIPS), false);
        assert_eq!(self.roles(), ["10 held 01", "11 held 01"]);
    }

    fn proven() -> Self {
        let mut world = Self::running(VIPS, &[10]);
        world.listening = None;
        world.twice((3, 3, false));
        assert_eq!(world.agent.proof(ETH0), Proof::Proven);
        world
    }
}

#[test]
fn another_machine_with_the_own_mac_is_named_after_two_rounds() {
    let named = ["put twin 3 Clone", "log twin None > Clone"];
    let with_event = [named[0], named[1], "post Conflict"];
    for (mut world, expected) in
        [(World::running(VIPS, &[10]), &named[..]), (World::living(&[10], &[]), &with_event)]
    {
        (world.listening, world.twin) = (None, Twin::Clone);
        let lines = only(world.twice((3, 3, false)), "put twin|log twin|post");
        assert_eq!(lines[..expected.len()], *expected, "{lines:?}");
        assert_eq!(world.agent.twin(ETH0), Twin::Clone);
        assert_eq!(only(world.twice((3, 3, false)), "put twin|log twin|post"), [""; 0], "it is said once");
        world.twin = Twin::None;
        let over = only(world.twice((3, 3, false)), "put twin|log twin|post");
        assert_eq!(over, ["put twin 3 None", "log twin Clone > None"]);
    }
}

#[test]
fn two_rounds_in_a_row_show_what_the_program_sees() {
    let rows: [(&str, Received, &[&str]); 4] = [
        ("frames are counted", (3, 3, false), &[]),
        ("nothing was received", (0, 0, false), &["put proof 3 unproven", "log proof proven > unproven"]),
        (
            "frames are not counted",
            (3, 0, false),
            &["put proof 3 blind", "log proof proven > blind", "attach again 3"],
        ),
        (
            "a question got past the program",
            (3, 3, true),
            &["put proof 3 bypassed", "log proof proven > bypassed"],
        ),
    ];
    for (what, received, expected) in rows {
        let mut world = World::proven();
        let round = world.listening();
        let first = world.listened(round, received);
        let lines = if first.is_empty() && !expected.is_empty() {
            let round = world.listening();
            world.listened(round, received)
        } else {
            first
        };
        assert_eq!(lines, expected, "{what}");
    }
}

#[test]
fn an_entry_that_changed_during_the_round_proves_no_bypass() {
    type Change = fn(&mut World);
    let rows: [(&str, Change, Proof); 3] = [
        ("nothing changes", |_| (), Proof::Bypassed),
        (
            "another entry changes",
            |world| drop(world.reload(Some("vips: [{address: 10.0.0.10, force: true}]\n"), false)),
            Proof::Bypassed,
        ),
        ("it goes and comes back", World::take_again, Proof::Proven),
    ];
    for (what, change, expected) in rows {
        let mut world = World::proven();
        for _ in 0..2 {
            let round = world.listening();
            change(&mut world);
            world.listened(round, (3, 3, true));
        }
        assert_eq!(world.agent.proof(ETH0), expected, "{what}");
    }
}

#[test]
fn a_round_that_came_too_late_ends_no_other() {
    let mut world = World::proven();
    // It counts as ended without a result, and the next one begins.
    let mut late = world.listening();
    for _ in 0..2 {
        let round = world.listening();
        world.listened(late, (3, 3, false));
        world.take_again();
        world.listened(round, (3, 3, true));
        late = round;
    }
    assert_eq!(world.agent.proof(ETH0), Proof::Proven);
}

#[test]
fn a_round_without_a_result_hides_no_later_bypass() {
    let mut world = World::proven();
    world.listening();
    world.take_again();
    let round = world.listening();
    world.listened(round, (3, 3, true));
    let round = world.listening();
    world.listened(round, (3, 3, true));
    assert_eq!(world.agent.proof(ETH0), Proof::Bypassed);
}

#[test]
fn a_program_that_cannot_be_attached_again_is_attached_by_the_next_full_round() {
    for (fails, expected) in [(false, &[][..]), (true, &["observe", "read maps"])] {
        let mut world = World::proven();
        if fails {
            world.fails.insert(Part::AttachAgain);
        }
        let lines = world.twice((3, 0, false));
        assert_eq!(lines.last().map(String::as_str), Some("attach again 3"), "{fails}");
        assert_eq!(world.after_only(host::RETRY, "observe|read maps"), expected, "{fails}");
    }
}

#[test]
fn the_vips_of_a_blind_interface_are_silent() {
    let mut world = World::proven();
    world.twice((3, 0, false));
    let lines = world.after_only(Duration::from_secs(6), "log silent");
    assert_eq!(lines, ["log silent [10 11], over []"]);
    let round = world.listening();
    world.listened(round, (3, 3, false));
    let lines = world.after_only(Duration::from_secs(6), "log silent");
    assert_eq!(lines, ["log silent [], over [10 11]"]);
}
