//! The state of the event loop, and what it does at its deadlines and when the network changes.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
    time::Duration,
};

use tokio::sync::mpsc;
use tracing::{info, warn};
use vipward_common::{Fence, MacAddr, VipKey};
use vipward_core::{
    base::time::Monotonic,
    config::Config,
    host::{net::NetView, plan::Slots, stale::Stale},
    segment::{
        announce::Announcer,
        conflict::Conflicts,
        failover::{self, Failovers},
        probing::Prober,
        proving::Proving,
        yields::Yields,
    },
};

use super::{
    error::RunError,
    inputs::Inputs,
    memberships::Hearing,
    report::{self, Problems},
    silences::Silent,
    source::Source,
    starting::Desk,
    timing::{RETRY, now},
};
use crate::{
    cli::PlaneArgs,
    shell::{
        kernel::{
            bpf::{DataPlane, Loader, Opening, Options},
            netlink::Changed,
            packet::Announcer as Packets,
        },
        logging::{
            causes::chain,
            lines::{Lines, Trouble},
        },
        pages::{Pages, Question, metrics::Metrics},
    },
};

/// Most changes of entries at once with one log line each.
const MOST_ENTRIES: u32 = 16;
/// Time between two full readings of the kernel. The kernel does not report every change.
const VERIFY: Duration = Duration::from_secs(30);

/// The last complete reconciliation.
pub(super) struct Settled {
    /// The digest of the placement, without interfaces that the program is not attached to.
    pub(super) placement: u64,
    /// The VIPs' interfaces before it.
    pub(super) placed: BTreeMap<IpAddr, u32>,
}

/// The agent's open objects, and the core's state machines.
pub(super) struct EventLoop<S> {
    pub(super) source: S,
    /// The configuration in force.
    pub(super) config: Config,
    pub(super) plane: DataPlane,
    pub(super) inputs: Inputs,
    pub(super) view: NetView,
    pub(super) packets: Packets,
    pub(super) announcer: Announcer,
    /// Notifications of failovers that may go on.
    pub(super) failovers: Failovers,
    pub(super) conflicts: Conflicts,
    pub(super) prober: Prober,
    pub(super) proving: Proving,
    /// The interfaces of the segments that the program serves, from the last reconciliation.
    pub(super) segments: BTreeSet<u32>,
    /// VIPs with entries that have changed since the present rounds of `proving` began.
    pub(super) changed_entries: BTreeSet<IpAddr>,
    pub(super) hearing: Hearing,
    /// VIPs that wait until their addresses are known to be free.
    pub(super) held_back: BTreeSet<VipKey>,
    pub(super) problems: Problems,
    pub(super) stale: Stale,
    /// VIPs that this node is said to hold and does not answer.
    pub(super) silent: Silent,
    /// Interfaces that should have the program and could not be attached, with the reason.
    pub(super) unattached: BTreeMap<u32, String>,
    /// Interfaces on which the kernel has refused a better mode than the one that runs.
    pub(super) refused: BTreeSet<u32>,
    /// Yielded VIPs, with the peer's MAC. Their entries may go with an interface and come back.
    pub(super) yielded: BTreeMap<IpAddr, MacAddr>,
    /// Questions to the segment about yielded VIPs, and the VIPs that were taken back.
    pub(super) yields: Yields,
    /// VIPs that are being taken back now.
    pub(super) taking_back: BTreeSet<IpAddr>,
    /// Number of yields that have been written into their entries.
    pub(super) yields_settled: u64,
    /// True if this agent has taken over the fence. Nothing is announced before.
    pub(super) started: bool,
    /// The slots of all entries, from the last reading or write.
    pub(super) slots: Slots,
    /// Changes of entries for the log, by the roles before and after.
    pub(super) entry_lines: Lines<(&'static str, &'static str)>,
    /// Lines about conflicts.
    pub(super) conflict_lines: Lines<Trouble>,
    /// The last reconciliation, if it was complete.
    pub(super) settled: Option<Settled>,
    /// Time of the next full reading. It is sooner after a failure.
    pub(super) verify: Monotonic,
    pub(super) metrics: Arc<Metrics>,
    /// Questions of the pages.
    pub(super) questions: mpsc::Receiver<Question>,
    pub(super) _pages: Pages,
}

impl<S: Source> EventLoop<S> {
    /// Opens the data plane and all inputs. `fence` is the first fence of new maps.
    pub(super) async fn open(
        args: &PlaneArgs,
        loader: Loader,
        config: Config,
        fence: Fence,
        source: S,
        desk: Desk,
    ) -> Result<Self, RunError> {
        let now = now()?;
        let options = Options {
            pin_dir: args.pins.pin_dir.clone(),
            max_vips: args.max_vips,
            log: args.log_claims,
            object: args.ebpf_object.clone(),
            fence,
        };
        let (mut plane, opening) = DataPlane::open(loader, &options)?;
        report::opening(&opening, &options.pin_dir);
        desk.pages.begin(&options.pin_dir)?;
        let inputs = Inputs::open(&mut plane, args.log_claims)?;
        let view = inputs.netlink.observe().await?;
        let yields_settled = if opening == Opening::Fresh { 0 } else { plane.maps().fence()?.yields_settled };
        // The process id is no seed: it is 1 in every Pod.
        let seed = fastrand::u64(..);
        Ok(Self {
            silent: Silent::start(source.grace(&config), now),
            announcer: Announcer::start(&config.announce, seed, now),
            failovers: Failovers::default(),
            conflicts: Conflicts::start(&config.conflicts, now),
            prober: Prober::start(&config.probe, seed, now),
            proving: Proving::start(plane.maps().proofs()?),
            segments: BTreeSet::new(),
            changed_entries: BTreeSet::new(),
            hearing: Hearing::default(),
            held_back: BTreeSet::new(),
            source,
            config,
            plane,
            inputs,
            view,
            packets: Packets::open()?,
            problems: Problems::default(),
            stale: Stale::default(),
            unattached: BTreeMap::new(),
            refused: BTreeSet::new(),
            yielded: BTreeMap::new(),
            yields: Yields::default(),
            taking_back: BTreeSet::new(),
            yields_settled,
            started: false,
            slots: Slots::default(),
            entry_lines: Lines::start(
                MOST_ENTRIES,
                |(from, to), entries| info!(entries, from, to, "more entries changed"),
                now,
            ),
            conflict_lines: Trouble::lines(now),
            settled: None,
            verify: now + VERIFY,
            metrics: desk.metrics,
            questions: desk.questions,
            _pages: desk.pages,
        })
    }

    /// Returns the earliest deadline of the host's part.
    pub(super) fn next_deadline(&self) -> Monotonic {
        // No VIP is examined before it is known what this node is to hold.
        let silent = self.silent.next_deadline().filter(|_| self.started);
        [
            self.announcer.next_deadline(),
            self.conflicts.next_deadline(),
            self.probing_deadline(),
            self.proving.next_deadline(),
            self.yields.next_deadline(),
            self.hearing.next_deadline(),
            self.entry_lines.next_deadline(),
            self.conflict_lines.next_deadline(),
            silent,
        ]
        .into_iter()
        .flatten()
        .fold(self.verify, Ord::min)
    }

    pub(super) async fn on_deadline(&mut self) -> Result<(), RunError> {
        let began = now()?;
        if self.verify <= began {
            self.verify = began + VERIFY;
            self.settled = None;
            self.observe().await?;
        }
        // With very many VIPs, observing takes longer than a pace allows its items to be late.
        let now = now()?;
        self.entry_lines.on_time(now);
        self.conflict_lines.on_time(now);
        self.announce(now);
        self.tick_hearing(now).await;
        self.tick_probing(now)?;
        self.tick_proving(now).await?;
        self.take_back_yielded(now).await?;
        self.tick_conflicts(now)
    }

    /// Writes the program's yields into the entries. Returns the new ones, each with its peer.
    pub(super) async fn settle_yields(&mut self) -> Result<BTreeMap<IpAddr, MacAddr>, RunError> {
        let settled = self.yields_settled;
        if self.plane.maps().yields()?.total == settled {
            return Ok(BTreeMap::new());
        }
        let before = self.yielded.clone();
        self.reconcile(false).await;
        if self.yields_settled == settled {
            return Ok(BTreeMap::new());
        }
        let new = self.yielded.iter().filter(|(vip, _)| !before.contains_key(vip));
        Ok(new.map(|(vip, mac)| (*vip, *mac)).collect())
    }

    pub(super) async fn on_network(&mut self, changed: &Changed) -> Result<(), RunError> {
        let heard = now()?;
        let mut failed_over = BTreeSet::new();
        if changed.overrun || !self.segments.is_disjoint(&changed.downs) {
            self.hearing.on_down(heard);
        }
        if changed.overrun {
            warn!("network notifications were lost; everything is observed again");
            let before = self.view.clone();
            self.observe().await?;
            failed_over = failover::unnoticed(&before, &self.view);
        } else {
            self.observe().await?;
        }
        // The view is new, so that a MAC or a port that came with the failover counts.
        failed_over.append(&mut self.failovers.on_notices(&changed.notices, &self.view, heard));
        self.announce_after_failover(&failed_over, heard)
    }

    pub(super) async fn observe(&mut self) -> Result<(), RunError> {
        let view = match self.inputs.netlink.observe().await {
            Ok(view) => view,
            Err(error) => {
                warn!(error = chain(&error), "the network could not be observed; trying again");
                self.verify = now()? + RETRY;
                return Ok(());
            }
        };
        let before = std::mem::replace(&mut self.view, view);
        self.note_carrier(&before)?;
        // Containers come and go: a change that concerns no VIP
        // must not cost a reading of all maps.
        if !self.is_settled() {
            self.reconcile(false).await;
        }
        self.observe_segments().await
    }
}
