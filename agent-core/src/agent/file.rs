//! A file as the source of the VIPs: its own heartbeat moves the lease deadline.

use std::{collections::BTreeSet, net::IpAddr, time::Duration};

use vipward_common::{Defence, LeaseDeadline, Policy};

use super::effect::{Effect, Line};
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
        let beat = self.heartbeat.next_deadline();
        self.take_due.map_or(beat, |due| due.min(beat))
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
