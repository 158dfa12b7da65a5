//! The state of the event loop, and what it does at its deadlines and when the network changes.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use tokio::sync::mpsc;
use tracing::{info, warn};
use vipward_common::{Fence, MacAddr};
use vipward_core::{
    agent::{
        answers::Answers,
        host::Host,
        memberships::Memberships,
        segment::{self, Input, Segment},
    },
    base::time::Monotonic,
    config::Config,
    host::{net::NetView, stale::Stale},
    segment::proving::Proving,
};

use super::{
    error::RunError,
    inputs::Inputs,
    report::{self, Problems},
    source::Source,
    starting::Desk,
    timing::now,
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

/// The agent's open objects, and the core's state machines.
pub(super) struct EventLoop<S> {
    pub(super) source: S,
    /// The configuration in force.
    pub(super) config: Config,
    pub(super) plane: DataPlane,
    pub(super) inputs: Inputs,
    pub(super) view: NetView,
    pub(super) packets: Packets,
    pub(super) host: Host,
    pub(super) segment: Segment,
    pub(super) proving: Proving,
    /// The interfaces of the segments that the program serves, from the last reconciliation.
    pub(super) segments: BTreeSet<u32>,
    /// VIPs with entries that have changed since the present rounds of `proving` began.
    pub(super) changed_entries: BTreeSet<IpAddr>,
    pub(super) memberships: Memberships,
    pub(super) problems: Problems,
    pub(super) stale: Stale,
    /// VIPs that this node is said to hold and does not answer.
    pub(super) answers: Answers,
    /// Changes of entries for the log, by the roles before and after.
    pub(super) entry_lines: Lines<(&'static str, &'static str)>,
    /// Lines about conflicts.
    pub(super) conflict_lines: Lines<Trouble>,
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
            answers: Answers::start(source.grace(&config), now),
            host: Host::start(yields_settled, now),
            segment: Segment::start(&settings(&config), seed, now),
            proving: Proving::start(plane.maps().proofs()?),
            segments: BTreeSet::new(),
            changed_entries: BTreeSet::new(),
            memberships: Memberships::default(),
            source,
            config,
            plane,
            inputs,
            view,
            packets: Packets::open()?,
            problems: Problems::default(),
            stale: Stale::default(),
            entry_lines: Lines::start(
                MOST_ENTRIES,
                |(from, to), entries| info!(entries, from, to, "more entries changed"),
                now,
            ),
            conflict_lines: Trouble::lines(now),
            metrics: desk.metrics,
            questions: desk.questions,
            _pages: desk.pages,
        })
    }

    /// Returns the earliest deadline of the host's part.
    pub(super) fn next_deadline(&self) -> Monotonic {
        // No VIP is examined before it is known what this node is to hold.
        let silent = self.answers.next_deadline().filter(|_| self.segment.is_started());
        [
            self.segment.next_deadline(),
            self.proving.next_deadline(),
            self.memberships.next_deadline(),
            self.entry_lines.next_deadline(),
            self.conflict_lines.next_deadline(),
            silent,
        ]
        .into_iter()
        .flatten()
        .fold(self.host.next_deadline(), Ord::min)
    }

    pub(super) async fn on_deadline(&mut self) -> Result<(), RunError> {
        let began = now()?;
        if self.host.begin_if_due(began) {
            self.observe().await?;
        }
        // With very many VIPs, observing takes longer than a pace allows its items to be late.
        let now = now()?;
        self.entry_lines.on_time(now);
        self.conflict_lines.on_time(now);
        self.on_segment(Input::Tick)?;
        self.tick_hearing(now).await;
        self.tick_proving(now).await?;
        self.take_back().await;
        Ok(())
    }

    /// Writes the program's yields into the entries. Returns the new ones, each with its peer.
    pub(super) async fn settle_yields(&mut self) -> Result<BTreeMap<IpAddr, MacAddr>, RunError> {
        let settled = self.host.yields_settled();
        if self.plane.maps().yields()?.total == settled {
            return Ok(BTreeMap::new());
        }
        let before = self.host.yielded().clone();
        self.reconcile(false).await;
        if self.host.yields_settled() == settled {
            return Ok(BTreeMap::new());
        }
        let new = self.host.yielded().iter().filter(|(vip, _)| !before.contains_key(vip));
        Ok(new.map(|(vip, mac)| (*vip, *mac)).collect())
    }

    pub(super) async fn on_network(&mut self, changed: &Changed) -> Result<(), RunError> {
        let heard = now()?;
        if changed.overrun || !self.segments.is_disjoint(&changed.downs) {
            self.memberships.on_down(heard);
        }
        let before = changed.overrun.then(|| self.view.clone());
        if changed.overrun {
            warn!("network notifications were lost; everything is observed again");
        }
        self.observe().await?;
        self.on_segment(Input::Notices { notices: &changed.notices, lost_since: before.as_ref(), at: heard })
    }

    pub(super) async fn observe(&mut self) -> Result<(), RunError> {
        let view = match self.inputs.netlink.observe().await {
            Ok(view) => view,
            Err(error) => {
                warn!(error = chain(&error), "the network could not be observed; trying again");
                self.host.try_again_soon(now()?);
                return Ok(());
            }
        };
        let before = std::mem::replace(&mut self.view, view);
        self.on_segment(Input::Network(&before))?;
        // Containers come and go: a change that concerns no VIP
        // must not cost a reading of all maps.
        if !self.is_settled()? {
            self.reconcile(false).await;
        }
        self.observe_segments().await
    }
}

/// Returns the settings of announcing, probing and conflicts.
pub(super) fn settings(config: &Config) -> segment::Settings {
    segment::Settings { announce: config.announce, probe: config.probe, conflicts: config.conflicts }
}
