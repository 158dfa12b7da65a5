//! Proves, segment by segment, that the program sees the frames that the kernel receives.
//!
//! A program can be attached and see nothing. Native XDP on a bond runs with the index of a port. A
//! program of another kind may take the frames before it. So the agent listens on each segment for
//! a moment, and probes hosts there. It compares the frames that its sockets received with the
//! program's counts (`received`):
//!
//! | socket | count | requests for held VIPs | finding |
//! |---|---|---|---|
//! | any | rose | none received | [`Proof::Proven`] |
//! | nothing | stood | none received | [`Proof::Unproven`] |
//! | frames | stood | any | [`Proof::Blind`] |
//! | frames | rose | received | [`Proof::Bypassed`] |
//!
//! The last two findings need two rounds in a row, because an entry or an attachment may change in
//! between. A round follows an attachment and each change of the links ([`Stack`]).
//!
//! The rounds also show if a host was heard since the link came up.

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

use vipward_common::{MacAddr, Proof};

use self::hearing::Hearing;
pub use self::targets::{MOST_ASKED, targets};
use crate::{
    base::time::Monotonic,
    host::{
        attaching::Mode,
        net::{Interface, NetView},
    },
};

mod hearing;
mod targets;

#[cfg(test)]
mod tests;

pub const LISTEN: Duration = Duration::from_secs(1);
/// Time until the next round where the program has been proven.
pub const PROVEN_FOR: Duration = Duration::from_mins(1);
/// Time until the next round elsewhere.
pub const DOUBTED_FOR: Duration = Duration::from_secs(10);
/// Time after which a round counts as ended without a result.
const LATEST: Duration = Duration::from_secs(5);
/// First rounds that begin together, of a host with very many segments.
const MOST_AT_ONCE: u32 = 16;
/// Rounds without a passed request, after which a bypass counts as over.
const CLEAN_ROUNDS: u8 = 6;

/// The links that a segment's frames take, with the programs on them: the segment's own first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stack(Vec<Link>);

/// A link, as far as its change may change what the program sees.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Link {
    index: u32,
    mac: MacAddr,
    master: Option<u32>,
    lower: Option<u32>,
    receives: bool,
    carrier_losses: u32,
    mode: Option<Mode>,
    xdp_programs: Vec<u32>,
    tc_programs: Option<Vec<u32>>,
}

impl Stack {
    /// Returns the stack of a segment, or `None` if its interface is gone. `mode` returns the mode of
    /// the program on a link.
    pub fn of(view: &NetView, segment: u32, mode: impl Fn(u32) -> Option<Mode>) -> Option<Self> {
        let link = |interface: &Interface| Link {
            index: interface.index,
            mac: interface.mac,
            master: interface.master,
            lower: interface.lower,
            receives: interface.up && interface.carrier,
            carrier_losses: interface.carrier_losses,
            mode: mode(interface.index),
            xdp_programs: interface.xdp_programs.clone(),
            tc_programs: interface.tc_programs.clone(),
        };
        let own = link(view.interfaces.get(&segment)?);
        let below = view.path(segment);
        let below = below.iter().filter_map(|index| view.interfaces.get(index)).map(link);
        Some(Self([own].into_iter().chain(below).collect()))
    }

    /// Returns true if the segment's interface can receive.
    fn receives(&self) -> bool {
        self.0.first().is_some_and(|link| link.receives)
    }

    /// Returns true if one of the links has come up since an earlier observation. A port does not count
    /// while another one of the same bond, team or bridge has been up all the time.
    fn has_come_up(&self, before: &Self) -> bool {
        let stayed_up = |link: &Link| {
            let before = before.0.iter().find(|it| it.index == link.index);
            let was_up = |it: &Link| it.receives && it.carrier_losses == link.carrier_losses;
            link.receives && before.is_some_and(was_up)
        };
        let is_carried = |link: &Link| {
            let mut others = self.0.iter().filter(|it| it.master.is_some() && it.master == link.master);
            others.any(stayed_up)
        };
        self.0.iter().any(|link| link.receives && !stayed_up(link) && !is_carried(link))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Received {
    /// Frames of ARP and Neighbour Discovery that the sockets received, up to a bound.
    pub frames: u32,
    /// Such frames that the program counted meanwhile.
    pub counted: u64,
    /// A VIP whose entry was held all the time, and for which a socket received a request. The
    /// program passes no such request on.
    pub passed: Option<IpAddr>,
}

impl Received {
    /// Returns the fault that the round shows, if any.
    const fn blindness(&self) -> Option<Proof> {
        match self {
            Self { frames: 1.., counted: 0, .. } => Some(Proof::Blind),
            Self { passed: Some(_), .. } => Some(Proof::Bypassed),
            _ => None,
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// The segments that the program serves, as just observed.
    Observed(BTreeMap<u32, Stack>),
    /// A frame of another host was received on the segment.
    Heard {
        segment: u32,
    },
    Received {
        segment: u32,
        round: u64,
        received: Received,
    },
    Tick,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Command {
    /// Listen on the segment for [`LISTEN`], and probe its hosts.
    Listen { segment: u32, round: u64 },
    /// Record a finding: the first of a segment, or one that differs from the last.
    Found { segment: u32, from: Proof, to: Proof, received: Received },
    /// Prove the way out of the segment anew: its links have changed.
    Anew { segment: u32 },
    /// Announce and probe the held VIPs of a segment on which no host was heard until now: hosts
    /// and switches may have missed it.
    HeardAgain { segment: u32 },
}

#[derive(Debug, Default)]
pub struct Proving {
    segments: BTreeMap<u32, Segment>,
    /// Findings of an earlier agent, about segments that have not been observed yet.
    earlier: BTreeMap<u32, Proof>,
    rounds: u64,
}

#[derive(Debug)]
struct Segment {
    stack: Stack,
    proof: Proof,
    /// True if this agent has recorded a finding.
    is_recorded: bool,
    /// True if the finding is about another stack, or of an earlier agent.
    is_old: bool,
    /// True if the last round showed a fault, and a second one is to confirm it.
    is_suspected: bool,
    /// Rounds in a row that did not show the bypass that an earlier one had found.
    clean: u8,
    phase: Phase,
    hearing: Hearing,
    /// The time at which the proof of the way out needs a round.
    wanted: Option<Monotonic>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// The next round is due at this time, if the interface can receive then.
    Waiting(Monotonic),
    /// A round is under way.
    Listening { round: u64, until: Monotonic, is_old: bool },
}

impl Proving {
    /// Returns the state at the start. `earlier` has the findings in the pinned maps. They stay until
    /// this agent has its own.
    pub fn start(earlier: BTreeMap<u32, Proof>) -> Self {
        Self { earlier, ..Self::default() }
    }

    pub fn on_event(&mut self, event: Event, now: Monotonic) -> Vec<Command> {
        let mut commands = Vec::new();
        match event {
            Event::Observed(stacks) => {
                let changed = self.observe(stacks, now);
                commands.extend(changed.into_iter().map(|segment| Command::Anew { segment }));
            }
            Event::Heard { segment } => {
                let heard = self.segments.get_mut(&segment).is_some_and(|it| it.hearing.hear(now));
                return heard.then_some(Command::HeardAgain { segment }).into_iter().collect();
            }
            Event::Received { segment, round, received } => {
                if let Some(it) = self.segments.get_mut(&segment) {
                    it.on_received(segment, round, received, now, &mut commands);
                }
            }
            Event::Tick => {}
        }
        for (segment, it) in &mut self.segments {
            if let Phase::Listening { round, until, .. } = it.phase
                && until <= now
            {
                it.on_received(*segment, round, Received::default(), now, &mut commands);
            }
            if it.is_due(now) {
                self.rounds += 1;
                let round = self.rounds;
                it.phase = Phase::Listening { round, until: now + LISTEN + LATEST, is_old: false };
                commands.push(Command::Listen { segment: *segment, round });
            }
        }
        commands
    }

    pub fn next_deadline(&self) -> Option<Monotonic> {
        self.segments.values().filter_map(Segment::next_deadline).min()
    }

    pub fn proof(&self, segment: u32) -> Proof {
        let earlier = self.earlier.get(&segment).copied().unwrap_or_default();
        self.segments.get(&segment).map_or(earlier, |it| it.proof)
    }

    /// Returns true if [`Event::Heard`] would change anything. The program may report very many frames.
    pub fn awaits_hosts(&self, segment: u32) -> bool {
        self.segments.get(&segment).is_some_and(|it| it.hearing.is_news())
    }

    /// Returns the segments on which no other host was heard since their links came up, with the
    /// times until which silence proves nothing there.
    pub fn unheard(&self) -> BTreeMap<u32, Monotonic> {
        let unheard = |(segment, it): (&u32, &Segment)| Some((*segment, it.hearing.unheard_until()?));
        self.segments.iter().filter_map(unheard).collect()
    }

    /// Sets the time at which the proof of the way out needs a round. The round may come sooner.
    pub fn want(&mut self, segment: u32, at: Option<Monotonic>) {
        if let Some(it) = self.segments.get_mut(&segment) {
            it.wanted = at;
        }
    }

    /// Records the stacks. Returns the segments whose stack has changed.
    fn observe(&mut self, stacks: BTreeMap<u32, Stack>, now: Monotonic) -> Vec<u32> {
        self.segments.retain(|segment, _| stacks.contains_key(segment));
        let (mut new, mut changed) = (0, Vec::new());
        for (segment, stack) in stacks {
            let earlier = self.earlier.remove(&segment).unwrap_or_default();
            if let Some(it) = self.segments.get_mut(&segment) {
                if it.observe(stack, now) {
                    changed.push(segment);
                }
            } else {
                let first = now + LISTEN * (new / MOST_AT_ONCE);
                self.segments.insert(segment, Segment::new(stack, earlier, first));
                new += 1;
            }
        }
        // A segment that comes later has been away.
        self.earlier.clear();
        changed
    }
}

impl Segment {
    fn new(stack: Stack, proof: Proof, now: Monotonic) -> Self {
        Self {
            stack,
            proof,
            is_recorded: false,
            is_old: true,
            is_suspected: false,
            clean: 0,
            phase: Phase::Waiting(now),
            hearing: Hearing::start(now),
            wanted: None,
        }
    }

    /// Records the stack. Returns true if it has changed.
    fn observe(&mut self, stack: Stack, now: Monotonic) -> bool {
        if self.stack == stack {
            return false;
        }
        if stack.has_come_up(&self.stack) {
            self.hearing = Hearing::start(now);
        }
        self.stack = stack;
        self.is_old = true;
        self.is_suspected = false;
        match &mut self.phase {
            Phase::Waiting(until) => *until = now,
            // One socket for each segment at a time, however often the stack changes.
            Phase::Listening { is_old, .. } => *is_old = true,
        }
        true
    }

    fn is_due(&self, now: Monotonic) -> bool {
        matches!(self.phase, Phase::Waiting(_)) && self.next_deadline().is_some_and(|due| due <= now)
    }

    fn next_deadline(&self) -> Option<Monotonic> {
        match self.phase {
            Phase::Waiting(until) => {
                let next = self.wanted.map_or(until, |wanted| wanted.min(until));
                Some(next).filter(|_| self.stack.receives())
            }
            Phase::Listening { until, .. } => Some(until),
        }
    }

    fn on_received(
        &mut self,
        segment: u32,
        round: u64,
        received: Received,
        now: Monotonic,
        commands: &mut Vec<Command>,
    ) {
        match self.phase {
            Phase::Listening { round: current, is_old, .. } if current == round => {
                self.phase = Phase::Waiting(now);
                if is_old {
                    return;
                }
            }
            Phase::Listening { .. } | Phase::Waiting(_) => return,
        }
        if received.frames == 0 && received.counted == 0 {
            self.hearing.hear_nothing();
        } else if self.hearing.hear(now) {
            commands.push(Command::HeardAgain { segment });
        }
        let is_known = !self.is_old;
        let to = match received.blindness() {
            Some(blind) if self.is_suspected || is_known && self.proof == blind => {
                self.clean = 0;
                blind
            }
            Some(_) => {
                self.is_suspected = true;
                return;
            }
            None if received.counted == 0 => match self.proof {
                Proof::Blind | Proof::Bypassed if is_known => self.proof,
                Proof::Unproven | Proof::Proven | Proof::Blind | Proof::Bypassed => Proof::Unproven,
            },
            None if self.proof == Proof::Bypassed && is_known && self.clean + 1 < CLEAN_ROUNDS => {
                self.clean += 1;
                Proof::Bypassed
            }
            None => Proof::Proven,
        };
        commands.extend(self.conclude(segment, to, received, now));
    }

    fn conclude(&mut self, segment: u32, to: Proof, received: Received, now: Monotonic) -> Option<Command> {
        self.is_suspected = false;
        self.is_old = false;
        let pause = match to {
            Proof::Proven => PROVEN_FOR,
            Proof::Unproven | Proof::Blind | Proof::Bypassed if self.hearing.is_awaited(now) => {
                Duration::ZERO
            }
            Proof::Unproven | Proof::Blind | Proof::Bypassed => DOUBTED_FOR,
        };
        self.phase = Phase::Waiting(now + pause);
        let from = std::mem::replace(&mut self.proof, to);
        if std::mem::replace(&mut self.is_recorded, true) && from == to {
            return None;
        }
        Some(Command::Found { segment, from, to, received })
    }
}
