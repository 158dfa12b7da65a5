//! A file as the source of the VIPs: its own heartbeat moves the lease deadline.

use std::{collections::BTreeSet, net::IpAddr, time::Duration};

use vipward_common::{Defence, LeaseDeadline, Policy};

use super::{
    effect::{Effect, Line},
    input::Unread,
};
use crate::{
    base::time::Monotonic,
    config::{Config, OnYield},
    host::heartbeat::{Beat, Heartbeat},
    segment::probing::Probed,
};

/// Time between two log lines about the progress of probes.
const PROGRESS: Duration = Duration::from_secs(5);
/// Time during which free addresses are collected, to be taken together.
const TOGETHER: Duration = Duration::from_millis(10);

/// Time for which a file must be unchanged before it takes something away: its writer may go on.
const SETTLE: Duration = Duration::from_secs(2);
/// The longest time for which a file that goes on changing is not applied.
const MOST_UNSETTLED: Duration = Duration::from_secs(10);

/// A file that takes something away, and may not be complete yet.
struct Unsettled {
    config: Box<Config>,
    /// Time of the first such file since one was applied.
    since: Monotonic,
    /// Time from which this one counts as complete.
    due: Monotonic,
    /// True if it is being read again.
    is_read_again: bool,
}

/// The decision about a file that was read.
#[derive(Debug)]
pub(super) enum Settled {
    /// The file is the running configuration.
    Unchanged,
    Faulty,
    Applies(Box<Config>),
    /// The file is read again later. The first since one was applied is logged.
    Waits(Option<Line>),
}

/// The state of a standalone agent.
pub struct File {
    heartbeat: Heartbeat,
    /// VIPs whose addresses were found free.
    free: BTreeSet<IpAddr>,
    /// VIPs that are taken without a probe.
    forced: BTreeSet<IpAddr>,
    /// True if a yielded VIP is taken back when no peer answers for it.
    takes_back: bool,
    /// The program's part in the defence of held VIPs.
    defence: Defence,
    /// Time of the next taking of free VIPs, if one is due.
    take_due: Option<Monotonic>,
    /// Earliest time of the next taking. A taking of very many VIPs must leave time for other work.
    take_next: Monotonic,
    /// Time of the last log line about probes; `None` while no address is probed.
    logged: Option<Monotonic>,
    /// Time of the lease deadline's last move.
    beaten: Monotonic,
    unsettled: Option<Box<Unsettled>>,
}

impl File {
    /// Starts without a beat. `tick` is the resolution of the coarse clock.
    pub fn start(config: &Config, tick: Duration, now: Monotonic) -> Self {
        Self {
            heartbeat: Heartbeat::start(&config.fence, tick, now),
            free: BTreeSet::new(),
            forced: forced(config),
            takes_back: takes_back(config),
            defence: config.conflicts.defend.in_program(),
            take_due: None,
            take_next: now,
            logged: None,
            beaten: now,
            unsettled: None,
        }
    }

    /// Returns the first lease deadline, for new maps.
    pub fn first_deadline(&mut self, now: Monotonic) -> LeaseDeadline {
        let beat = self.heartbeat.beat(now);
        self.lease_deadline(&beat, 0)
    }

    /// Returns the time of the lease deadline's last move.
    pub fn beaten(&self) -> Monotonic {
        self.beaten
    }

    pub(super) fn configure(&mut self, config: &Config, now: Monotonic) {
        self.heartbeat.configure(&config.fence, now);
        self.forced = forced(config);
        self.takes_back = takes_back(config);
        self.defence = config.conflicts.defend.in_program();
    }

    pub(super) fn takes_back(&self) -> bool {
        self.takes_back
    }

    pub(super) fn must_be_free(&self, vip: IpAddr) -> bool {
        !self.free.contains(&vip) && !self.is_forced(vip)
    }

    pub(super) fn is_forced(&self, vip: IpAddr) -> bool {
        self.forced.contains(&vip)
    }

    pub(super) fn next_deadline(&self) -> Monotonic {
        let unsettled = self.unsettled.as_ref().filter(|it| !it.is_read_again).map(|it| it.due);
        let others = [self.take_due, unsettled];
        others.into_iter().flatten().fold(self.heartbeat.next_deadline(), Ord::min)
    }

    /// Returns the configuration of a file, if it is to be applied now. A file that only adds VIPs is
    /// applied at once. Any other may be the first half of what its writer has in mind: it is applied
    /// when it was read again after [`SETTLE`] and has not changed. An operator's request cannot wait.
    pub(super) fn settle(
        &mut self,
        read: Result<Box<Config>, Unread>,
        running: &Config,
        is_requested: bool,
        now: Monotonic,
    ) -> Settled {
        if read == Err(Unread::Unknown) {
            return Settled::Faulty;
        }
        let before = self.unsettled.take();
        let Ok(config) = read else { return Settled::Faulty };
        if *config == *running {
            return Settled::Unchanged;
        }
        if is_requested || config.only_adds_to(running) {
            return Settled::Applies(config);
        }
        let since = before.as_ref().map_or(now, |it| it.since);
        let end = since + MOST_UNSETTLED;
        let is_first = before.is_none();
        let stay: BTreeSet<IpAddr> = config.vips.iter().map(|vip| vip.address).collect();
        let vips = running.vips.iter().filter(|vip| !stay.contains(&vip.address)).count();
        let due = match before {
            Some(before) if before.config == config => before.due,
            Some(_) | None => (now + SETTLE).min(end),
        };
        if due <= now {
            return Settled::Applies(config);
        }
        self.unsettled = Some(Box::new(Unsettled { config, since, due, is_read_again: false }));
        Settled::Waits(is_first.then(|| Line::Unsettled { vips, within: due.saturating_since(now) }))
    }

    /// Returns true once if a file that waits is to be read again.
    pub(super) fn begin_to_read_again(&mut self, now: Monotonic) -> bool {
        let due = self.unsettled.as_mut().filter(|it| it.due <= now && !it.is_read_again);
        due.map(|it| it.is_read_again = true).is_some()
    }

    /// Returns true if addresses were found free that are not held yet.
    pub(super) fn is_taking(&self) -> bool {
        self.take_due.is_some()
    }

    /// Returns true if the lease deadline must be moved.
    pub(super) fn is_due(&self, now: Monotonic) -> bool {
        self.heartbeat.next_deadline() <= now
    }

    /// Moves the lease deadline.
    pub(super) fn beat(&mut self, yields_settled: u64, now: Monotonic) -> Vec<Effect> {
        let beat = self.heartbeat.beat(now);
        self.beaten = now;
        let deadline_ms = u64::try_from(beat.deadline.saturating_since(now).as_millis()).unwrap_or(u64::MAX);
        let late = beat.late.map(|late| Effect::Log(Line::Late(late, deadline_ms)));
        let lease_deadline = Effect::SetDeadline(self.lease_deadline(&beat, yields_settled));
        late.into_iter().chain([lease_deadline]).collect()
    }

    fn lease_deadline(&self, beat: &Beat, yields_settled: u64) -> LeaseDeadline {
        LeaseDeadline {
            deadline_ns: beat.deadline.as_nanos(),
            grace_until_ns: beat.grace_until.as_nanos(),
            yields_settled,
            session: 0,
            notices_settled: 0,
            policy: beat.policy,
            defence: self.defence,
        }
    }

    pub(super) fn on_probed(&mut self, vip: IpAddr, probed: Probed, now: Monotonic) {
        match probed {
            Probed::Free => {
                self.free.insert(vip);
                self.take_due.get_or_insert((now + TOGETHER).max(self.take_next));
            }
            // The prober probes it again. A late answer may follow a result.
            Probed::InUse { .. } | Probed::Late { .. } | Probed::Unheard => _ = self.free.remove(&vip),
        }
    }

    /// Returns the VIPs whose addresses were found free, if it is time to take them.
    pub(super) fn begin_to_take(&mut self, now: Monotonic) -> Option<BTreeSet<IpAddr>> {
        self.take_due.take_if(|due| *due <= now)?;
        Some(self.free.clone())
    }

    /// Ends a taking that began at `began`.
    pub(super) fn taken(&mut self, began: Monotonic, now: Monotonic) {
        self.free.clear();
        self.take_next = now + now.saturating_since(began) * 2;
    }

    /// Returns the log line about the progress of probing, if one is due. `left` addresses have no
    /// result yet, and `in_use` are in use.
    pub(super) fn progress(
        &mut self,
        left: usize,
        in_use: impl FnOnce() -> usize,
        now: Monotonic,
    ) -> Option<Line> {
        if left > 0 && self.logged.is_none_or(|logged| logged + PROGRESS <= now) {
            self.logged = Some(now);
            return Some(Line::Probing(left));
        }
        (left == 0 && self.take_due.is_none() && self.logged.take().is_some()).then(|| Line::Probed(in_use()))
    }
}

fn takes_back(config: &Config) -> bool {
    config.fence.policy == Policy::Hold && config.yields == OnYield::Ask && config.probe.count > 0
}

fn forced(config: &Config) -> BTreeSet<IpAddr> {
    config.vips.iter().filter(|vip| vip.force).map(|vip| vip.address).collect()
}
