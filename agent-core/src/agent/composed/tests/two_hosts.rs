//! Two agents of files, each with the other's MAC in `peers:`, and the LAN between them.

use proptest::prelude::*;
use vipward_common::{
    DeadlineState, EventKind, MacAddr, OPER_REPLY, OPER_REQUEST, Role, VipEntry, WireState,
};

use super::{file::parse, world::*, *};
use crate::{base::samples::HOLDER, segment::announce};

const STEP: u64 = 5;
/// The lines that a test reads.
const SAID: &str = "log yields|log doubled|log no longer";
const MACS: [MacAddr; 2] = [HOLDER, PEER];
const PLAIN: &str = "vips: [{address: 10.0.0.10}]\n";
const FORCED: &str = "vips: [{address: 10.0.0.10, force: true}]\n";
/// Time in which the LAN has one holder after it has healed.
const SETTLES: u64 = 5_000;

struct Lan {
    hosts: [World; 2],
    is_cut: bool,
    /// True while the process of an agent is stopped.
    stopped: [bool; 2],
    /// The inputs that a stopped agent receives when it goes on.
    waiting: [Vec<Input>; 2],
    /// The hosts' log lines about holds.
    lines: Vec<String>,
}

impl Lan {
    /// Returns two hosts that have not begun.
    fn of(files: [&str; 2]) -> Self {
        let host = |it: usize| {
            let text = format!("{}peers: [\"{}\"]\n", files[it], MACS[1 - it]);
            let config = parse(&text);
            // The sample of `lo` has the MAC of host 0.
            let set_macs = |view: &mut NetView| {
                view.interfaces.values_mut().for_each(|interface| interface.mac = MacAddr::ZERO);
                view.interfaces.get_mut(&ETH0).expect("eth0").mac = MACS[it];
            };
            let mut world = World::of_file(config, it as u64, set_macs);
            set_macs(&mut world.view);
            world
        };
        Self {
            hosts: [host(0), host(1)],
            is_cut: false,
            stopped: [false; 2],
            waiting: [Vec::new(), Vec::new()],
            lines: Vec::new(),
        }
    }

    fn begin(&mut self, it: usize) {
        self.hosts[it].notify(Input::Begin);
    }

    /// Lets time pass.
    fn pass(&mut self, millis: u64) {
        for _ in 0..millis / STEP {
            for it in 0..2 {
                if self.stopped[it] {
                    self.hosts[it].now = self.hosts[it].now + ms(STEP);
                } else {
                    let lines = self.hosts[it].after_only(ms(STEP), SAID);
                    self.lines.extend(lines.into_iter().map(|line| format!("{it}: {line}")));
                }
            }
            for from in 0..2 {
                for effect in std::mem::take(&mut self.hosts[from].sent) {
                    self.send(from, &effect);
                }
            }
        }
    }

    fn stop(&mut self, it: usize) {
        self.stopped[it] = true;
    }

    fn go_on(&mut self, it: usize) {
        self.stopped[it] = false;
        for input in std::mem::take(&mut self.waiting[it]) {
            self.hosts[it].notify(input);
        }
    }

    /// Has a frame leave, as the shell would, and arrive.
    fn send(&mut self, from: usize, effect: &Effect) {
        let to = 1 - from;
        let may_state =
            |world: &World, key: &VipKey| state(world) == DeadlineState::Valid && world.held(key).is_some();
        match effect {
            Effect::Announce { command: announce::Command::Send { key, .. }, .. }
                if may_state(&self.hosts[from], key) =>
            {
                self.claim(to, *key, (OPER_REQUEST, MACS[from]));
            }
            Effect::Probe(key) => self.request(from, *key),
            Effect::AskHost { key, mac } if *mac == MACS[to] => self.request(from, *key),
            Effect::ProbeHeld { key, .. } if may_state(&self.hosts[from], key) => self.request(from, *key),
            Effect::State { ifindex, holds, .. } => {
                let mut holds = holds.clone();
                holds.retain(|(vip, _)| may_state(&self.hosts[from], &VipKey::new(*ifindex, *vip)));
                if !holds.is_empty() && !self.is_cut {
                    let stated = Stated { ifindex: *ifindex, from: MACS[from], holds };
                    self.give(to, Input::Stated(stated));
                }
            }
            _ => {}
        }
    }

    fn give(&mut self, to: usize, input: Input) {
        if self.stopped[to] {
            self.waiting[to].push(input);
        } else {
            let lines = only(self.hosts[to].notify(input), SAID);
            self.lines.extend(lines.into_iter().map(|line| format!("{to}: {line}")));
        }
    }

    fn request(&mut self, from: usize, key: VipKey) {
        let to = 1 - from;
        if !self.is_cut && self.answers(to) {
            self.claim(from, key, (OPER_REPLY, MACS[to]));
        }
    }

    /// Has the program of a host meet a claim, by the first table of docs/internals/dataplane.md.
    fn claim(&mut self, to: usize, key: VipKey, (oper, mac): (u16, MacAddr)) {
        let world = &mut self.hosts[to];
        let Some(entry) = world.entries.get(&key).copied() else { return };
        if self.is_cut {
            return;
        }
        let kind = match (world.held(&key), state(world)) {
            (Some(_), DeadlineState::Valid) => EventKind::Contested,
            (Some(entry), DeadlineState::Grace | DeadlineState::Over) => {
                world
                    .records
                    .insert(entry.slot, vipward_common::Yield { mac: mac.0, generation: entry.generation });
                world.yields += 1;
                EventKind::Yielded
            }
            (None, _) => EventKind::Moved,
        };
        let event = world.event_of(10, kind, mac);
        let event = vipward_common::Event { oper, holder: entry.mac, ..event };
        self.give(to, Input::Program(vec![event]));
    }

    fn answers(&self, it: usize) -> bool {
        self.hosts[it].held(&key(10)).is_some() && state(&self.hosts[it]) != DeadlineState::Over
    }

    fn who(&self) -> Vec<usize> {
        (0..2).filter(|it| self.answers(*it)).collect()
    }

    fn is_doubled(&self, it: usize) -> bool {
        let unanswered = self.hosts[it].agent.unanswered();
        let shown = self.hosts[it].agent.segment().conflicts().any(|conflict| conflict.doubled);
        let why = unanswered.get(&vip(10));
        let is_silent = why.is_some_and(|why| why.contains("yielded"));
        assert!(why.is_some() == shown || !shown && is_silent, "{it}: {unanswered:?}");
        shown
    }
}

impl World {
    /// Returns a held entry that was not yielded.
    fn held(&self, key: &VipKey) -> Option<VipEntry> {
        let entry = self.entries.get(key).filter(|entry| entry.role == Role::Held)?;
        let yielded = self.records.get(&entry.slot).filter(|record| record.generation == entry.generation);
        yielded.is_none().then_some(*entry)
    }
}

fn state(world: &World) -> DeadlineState {
    world.lease_deadline.state(world.now.as_nanos(), WireState::default())
}

/// Returns a LAN that was cut after host 0 had taken the VIP, and on whose other side host 1 has.
fn torn(files: [&str; 2]) -> Lan {
    let mut lan = Lan::of(files);
    lan.begin(0);
    lan.pass(3_000);
    assert_eq!(lan.who(), [0]);
    lan.is_cut = true;
    lan.begin(1);
    lan.pass(20_000);
    assert_eq!(lan.who(), [0, 1]);
    lan.is_cut = false;
    lan
}

#[test]
fn after_a_partition_the_older_hold_stays() {
    let mut lan = torn([PLAIN, PLAIN]);
    lan.pass(SETTLES);
    assert_eq!(lan.who(), [0]);
    assert_eq!(lan.lines.iter().filter(|line| *line == "1: log yields 10 to 01").count(), 1);
    lan.pass(60_000);
    assert_eq!(lan.who(), [0], "it stays there");
    assert!(!lan.is_doubled(0) && !lan.is_doubled(1), "{:?}", lan.lines);
    lan.is_cut = true;
    lan.pass(20_000);
    assert_eq!(lan.who(), [0, 1], "whoever has yielded takes it when the other is gone");
    lan.is_cut = false;
    lan.pass(SETTLES);
    assert_eq!(lan.who(), [0]);
}

#[test]
fn a_forced_vip_never_yields() {
    for (files, who) in [([PLAIN, FORCED], &[1][..]), ([FORCED, PLAIN], &[0]), ([FORCED, FORCED], &[0, 1])] {
        let mut lan = torn(files);
        lan.pass(SETTLES);
        assert_eq!(lan.who(), who, "{files:?}");
        lan.pass(15_000);
        let doubled = [lan.is_doubled(0), lan.is_doubled(1)];
        assert_eq!(doubled, [who.len() == 2; 2], "{files:?}: {:?}", lan.lines);
    }
}

#[test]
fn the_doubled_state_lasts_as_long_as_two_answer_and_the_defence_keeps_its_pace() {
    let mut lan = torn([FORCED, FORCED]);
    lan.pass(10_000);
    assert!(lan.is_doubled(0) && lan.is_doubled(1));
    let before = lan.lines.len();
    lan.pass(600_000);
    assert!(lan.is_doubled(0) && lan.is_doubled(1));
    assert_eq!(lan.lines[before..], [""; 0], "it is said once");
    lan.is_cut = true;
    lan.pass(15_000);
    assert!(!lan.is_doubled(0) && !lan.is_doubled(1));
    assert_eq!(lan.lines[before..], ["0: log no longer doubled", "1: log no longer doubled"]);
}

#[test]
fn an_agent_that_was_stopped_meanwhile_settles_it_when_it_goes_on() {
    let mut lan = Lan::of([PLAIN, PLAIN]);
    lan.begin(0);
    lan.pass(3_000);
    lan.is_cut = true;
    lan.stop(0);
    lan.begin(1);
    lan.pass(20_000);
    assert_eq!(lan.who(), [0, 1], "the program of the stopped agent answers in its grace period");
    lan.is_cut = false;
    lan.go_on(0);
    lan.pass(SETTLES);
    assert_eq!(lan.who().len(), 1, "{:?}", lan.lines);
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Cut,
    Heal,
    Stop(usize),
    GoOn(usize),
}

fn step() -> impl Strategy<Value = (Step, u64)> {
    let step = prop_oneof![
        3 => Just(Step::Cut),
        3 => Just(Step::Heal),
        1 => (0..2_usize).prop_map(Step::Stop),
        2 => (0..2_usize).prop_map(Step::GoOn),
    ];
    (step, 1..5_000_u64)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn five_seconds_after_it_is_whole_a_lan_has_one_holder(
        steps in prop::collection::vec(step(), 1..12),
        late in 0..4_000_u64,
    ) {
        let mut lan = Lan::of([PLAIN, PLAIN]);
        lan.begin(0);
        lan.pass(late);
        lan.begin(1);
        for (step, millis) in steps {
            match step {
                Step::Cut => lan.is_cut = true,
                Step::Heal => lan.is_cut = false,
                Step::Stop(it) => lan.stop(it),
                Step::GoOn(it) => lan.go_on(it),
            }
            lan.pass(millis);
        }
        lan.is_cut = false;
        (0..2).for_each(|it| lan.go_on(it));
        lan.pass(SETTLES);
        prop_assert!(lan.who().len() <= 1, "{:?}: {:?}", lan.who(), lan.lines);
        lan.pass(15_000);
        prop_assert_eq!(lan.who().len(), 1, "{:?}", lan.lines);
        let holder = lan.who();
        lan.pass(30_000);
        prop_assert_eq!(lan.who(), holder, "it stays");
        prop_assert!(!lan.is_doubled(0) && !lan.is_doubled(1));
    }
}
