//! The composed agent: its inputs, its work, and what the caller may see of it.

mod observing;
mod outcomes;
mod reconciling;
mod segments;
mod snapshot;
#[cfg(test)]
mod tests;
mod time;
mod waiting;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use vipward_common::{LeaseDeadline, Proof, Twin, VipKey};

pub use self::snapshot::{ClaimSnapshot, InterfaceSnapshot, Snapshot, VipSnapshot};

use super::{
    answers::Answers,
    cluster::{self, Cluster},
    effect::{Effect, Line, Reading},
    host::Host,
    input::{Input, Network, Stated},
    memberships::Memberships,
    segment::{self, Authority as _, Context, Segment, Settings},
    source::Source,
    visibility::Visibility,
    work::{Queue, Then, Waiting, Work},
};
use crate::{
    base::time::Monotonic,
    config::Config,
    host::{attaching::Attachments, net::NetView, placement::Wanted, stale::Stale},
    ownership::{self, StopReason, Wire},
    records::Session,
    segment::{egress, groups::Membership},
};

/// The state and the settings at the start.
pub struct Start {
    /// The configuration in force.
    pub config: Config,
    /// The network, and what is attached.
    pub network: Network,
    /// The number of entries for which the maps have room.
    pub max_vips: u32,
    /// The number of yields that the pinned lease deadline counts as written.
    pub yields_settled: u64,
    /// The pinned findings about what the program sees.
    pub proofs: BTreeMap<u32, Proof>,
    pub source: Source,
    /// A number that spreads the frames of different agents.
    pub seed: u64,
}

/// The agent of one node.
pub struct Agent {
    config: Config,
    view: NetView,
    attachments: Attachments,
    /// The DNS servers of this host.
    name_servers: BTreeSet<IpAddr>,
    max_vips: u32,
    source: Source,
    host: Host,
    segment: Segment,
    visibility: Visibility,
    memberships: Memberships,
    /// VIPs whose entries could not be written.
    stale: Stale,
    answers: Answers,
    work: Queue,
    /// Yields that the engine knows: the entries, and their generations.
    notified: BTreeSet<(VipKey, u16)>,
    /// The effects of the present input.
    effects: Vec<Effect>,
}

impl Agent {
    /// Starts. [`Input::Begin`] follows.
    pub fn start(start: Start, now: Monotonic) -> Self {
        let Start { config, network, max_vips, yields_settled, proofs, source, seed } = start;
        let Network { view, attachments, name_servers } = network;
        Self {
            answers: Answers::start(source.grace(&config), now),
            host: Host::start(yields_settled, now),
            segment: Segment::start(&settings(&config), seed, now),
            visibility: Visibility::start(proofs),
            config,
            view,
            attachments,
            name_servers,
            max_vips,
            source,
            memberships: Memberships::default(),
            stale: Stale::default(),
            work: Queue::default(),
            notified: BTreeSet::new(),
            effects: Vec::new(),
        }
    }

    pub fn on(&mut self, input: Input, now: Monotonic) -> Vec<Effect> {
        if self.work.is_over {
            return Vec::new();
        }
        match input {
            Input::Begin => self.begin(),
            Input::Deadline => self.on_deadline(now),
            Input::Changed(changed) => self.on_changed(changed, now),
            Input::Program(events) => self.on_program(&events, now),
            Input::Listened(listened) => self.on_listened(listened, now),
            Input::Told { key, mac, answerer } => {
                self.on_segment(segment::Input::Told { key, mac, answerer }, now);
            }
            Input::Stated(Stated { ifindex, from, holds }) => {
                self.on_segment(segment::Input::Stated { ifindex, from, holds: &holds }, now);
            }
            Input::Heard(segment) => self.on_heard(segment, now),
            Input::Answered { segment, round, host, mac, own } => {
                self.on_answered((segment, round), (host, mac, own), now);
            }
            Input::Halfway { segment, round, heard } => {
                self.on_egress(egress::Event::Halfway { segment, round, heard }, now);
            }
            Input::File(file) => self.on_file(file, now),
            Input::Cluster(input) => self.on_cluster(input, now),
            Input::Stop => self.stop(now),
            Input::Result(outcome) => self.on_outcome(outcome, now),
        }
        self.go_on(now);
        // The VIPs whose addresses were found free are held by then.
        if self.is_idle()
            && let Source::File(file) = &mut self.source
        {
            let in_use = || self.segment.held_back().count();
            let line = file.progress(self.segment.undecided(), in_use, now);
            self.effects.extend(line.map(Effect::Log));
        }
        std::mem::take(&mut self.effects)
    }

    /// Returns the time of the next [`Input::Deadline`].
    pub fn next_deadline(&self) -> Monotonic {
        // No VIP is examined before it is known what this node is to hold.
        let silent = self.answers.next_deadline().filter(|_| self.segment.is_started());
        [
            self.segment.next_deadline(),
            self.visibility.next_deadline(),
            self.memberships.next_deadline(),
            self.source.next_deadline(),
            silent,
        ]
        .into_iter()
        .flatten()
        .fold(self.host.next_deadline(), Ord::min)
    }

    /// Returns the configuration in force.
    pub fn config(&self) -> &Config {
        &self.config
    }

    pub fn view(&self) -> &NetView {
        &self.view
    }

    /// Returns true if this host is a member of groups of solicitations.
    pub fn has_groups(&self) -> bool {
        self.memberships.any()
    }

    /// Returns the interfaces with memberships that the kernel, with these, no longer has.
    pub fn left(&self, joined: &BTreeSet<Membership>) -> BTreeSet<u32> {
        self.memberships.left(joined)
    }

    /// Returns what is attached.
    pub fn attachments(&self) -> &Attachments {
        &self.attachments
    }

    /// Returns the state of the reconciliations.
    pub fn host(&self) -> &Host {
        &self.host
    }

    pub fn segment(&self) -> &Segment {
        &self.segment
    }

    /// Returns the VIPs whose entries could not be written.
    pub fn stale(&self) -> &Stale {
        &self.stale
    }

    pub fn source(&self) -> &Source {
        &self.source
    }

    pub fn cluster(&self) -> Option<&Cluster> {
        match &self.source {
            Source::File(_) => None,
            Source::Cluster(cluster) => Some(cluster),
        }
    }

    /// Returns the finding about what the program sees of an interface.
    pub fn proof(&self, ifindex: u32) -> Proof {
        self.visibility.proof(ifindex)
    }

    /// Returns the finding why frames with this host's own MAC come from an interface.
    pub fn twin(&self, ifindex: u32) -> Twin {
        self.visibility.twins.found(ifindex)
    }

    /// Returns true if each VIP of the file is held, or is known to have to wait.
    pub fn has_decided(&self) -> bool {
        let is_taking = match &self.source {
            Source::File(file) => file.is_taking(),
            Source::Cluster(_) => false,
        };
        self.segment.is_started() && self.segment.undecided() == 0 && !is_taking
    }

    /// Returns true if no work waits for a result.
    pub fn is_idle(&self) -> bool {
        self.work.waiting.is_none()
    }

    fn wanted(&self) -> impl Iterator<Item = Wanted<'_>> + Clone {
        self.source.wanted(&self.config)
    }

    fn context(&self, now: Monotonic) -> Context<'_> {
        context((&self.view, &self.config, &self.stale), &self.source, now)
    }

    /// Reads what the work needs.
    fn read(&mut self, reading: Reading, waiting: Waiting) {
        self.wait(Effect::Read(reading), waiting);
    }

    /// Emits an effect whose result the work needs.
    fn wait(&mut self, effect: Effect, waiting: Waiting) {
        debug_assert!(self.work.waiting.is_none(), "{effect:?} overtakes {:?}", self.work.waiting);
        self.effects.push(effect);
        self.work.waiting = Some(waiting);
    }

    fn log(&mut self, line: Line) {
        self.effects.push(Effect::Log(line));
    }

    /// Has the cluster do something, and collects its effects.
    fn with_cluster<R>(&mut self, act: impl FnOnce(&mut Cluster) -> R) -> Option<R> {
        let Source::Cluster(cluster) = &mut self.source else { return None };
        let result = act(cluster);
        self.effects.extend(cluster.take_effects());
        Some(result)
    }

    fn begin(&mut self) {
        let then = match &self.source {
            Source::File(_) => Work::Beat { begins: true },
            Source::Cluster(_) => Work::Interfaces,
        };
        // Entries come first: another node may have the pinned VIPs by now. Announcements come
        // last: none may leave before the lease deadline lies ahead.
        self.work.add([Work::Reconcile { reclaim: false, is_first: true }, then]);
    }

    fn on_cluster(&mut self, input: cluster::Input, now: Monotonic) {
        let quiet = self.config.conflicts.quiet;
        let examine = self.with_cluster(|cluster| cluster.on(input, quiet, now));
        self.answers.examine_some(examine.unwrap_or_default());
    }

    /// Goes on with the work, until it waits for a result.
    fn go_on(&mut self, now: Monotonic) {
        while self.work.waiting.is_none() && !self.work.is_over {
            if let Some(work) = self.work.urgent() {
                self.do_work(work, now);
            } else if self.step_cluster(now) {
            } else if let Some(work) = self.work.later() {
                self.do_work(work, now);
            } else {
                return;
            }
        }
    }

    fn do_work(&mut self, work: Work, now: Monotonic) {
        match work {
            Work::Observe(changed) => self.observe(changed),
            Work::Notices(notices) => self.on_notices(&notices.0, notices.1, &notices.2, now),
            Work::Reconcile { reclaim, is_first } => self.reconcile(reclaim, is_first),
            Work::Some(vips, then) => self.reconcile_some(vips, then),
            Work::Peers => self.reconcile_peers(),
            Work::SettleYields => self.read_yields(),
            Work::Segments => self.observe_segments(now),
            Work::Interfaces => self.report_interfaces(now),
            Work::Tick => self.tick(now),
            Work::Groups => self.groups_due(now),
            Work::ChangeGroups => self.change_groups(None, now),
            Work::Memberships(keys) => self.read_members(keys),
            Work::Proving => self.tick_proving(now),
            Work::TakeBack => self.take_back(),
            Work::TakenBack => self.host.taken_back(),
            Work::Examine => self.examine(now),
            Work::Show => self.show(now),
            Work::Started => self.started(now),
            Work::Adopt => self.adopt(),
            Work::Beat { begins } => self.beat(begins, now),
            Work::Taken(began) => self.taken(began, now),
            Work::Stop => self.end_with(Effect::Stopped(None)),
            Work::NotAlone(session) => self.end_with(Effect::NotAlone(session)),
        }
    }

    /// Takes the next step of the engine's commands. Returns false if there is none.
    fn step_cluster(&mut self, now: Monotonic) -> bool {
        let Source::Cluster(cluster) = &mut self.source else { return false };
        let todo = cluster.step(&self.stale, now);
        self.effects.extend(cluster.take_effects());
        match todo {
            Some(todo) => self.carry_out(todo, now),
            // The engine has named the entries that it wants. All others go, and announcing begins.
            None if cluster.begins() => {
                cluster.begin();
                self.on_segment(segment::Input::Started, now);
                self.work.next([Work::RECONCILE, Work::Started]);
            }
            None => return self.with_cluster(|cluster| cluster.pass_probed(now)).unwrap_or(false),
        }
        true
    }

    fn carry_out(&mut self, todo: cluster::Todo, now: Monotonic) {
        match todo {
            cluster::Todo::WriteEntries(vips) => {
                for vip in &vips {
                    self.on_segment(segment::Input::Decided(*vip), now);
                }
                self.work.next([Work::Some(vips, Then::Held)]);
            }
            cluster::Todo::SetDeadline(new_deadline) => {
                let lease_deadline = self.lease_deadline(&new_deadline);
                self.effects.push(Effect::SetDeadline(lease_deadline));
                if self.source.may_begin_answering(now) && self.host.on_deadline_given() {
                    self.work.next([Work::RECONCILE]);
                }
            }
            cluster::Todo::SetPeers(peers) => {
                self.config.peers = peers.into_iter().collect();
                self.work.next([Work::Peers]);
            }
            cluster::Todo::SetSuccessor(vip, receives) => {
                self.memberships.on_successor(vip, receives);
                let keys = self.attached().into_iter().map(|ifindex| VipKey::new(ifindex, vip)).collect();
                self.work.next([Work::Memberships(keys)]);
            }
            cluster::Todo::SetUnreached(vips) => self.on_unreached(vips, now),
            cluster::Todo::Announce(vip) => self.on_segment(segment::Input::AnnounceAgain(vip), now),
            cluster::Todo::Probe(vip, manner) => {
                if let Some(key) = self.key_of(vip) {
                    self.on_segment(segment::Input::Wanted { key, manner }, now);
                }
            }
            cluster::Todo::StopProbing(vip) => self.on_segment(segment::Input::Unwanted(vip), now),
            cluster::Todo::NotAlone(session) => {
                self.work.next([Work::RECONCILE, Work::NotAlone(session)]);
            }
            cluster::Todo::Stop(reason) => {
                if reason == Some(StopReason::Uninstall) {
                    self.on_segment(segment::Input::Withdrawn, now);
                    self.effects.push(Effect::Withdraw);
                }
                self.end_with(Effect::Stopped(reason));
            }
            cluster::Todo::Nothing => {}
        }
    }

    /// Ends the agent. What has begun would undo a withdrawal.
    fn end_with(&mut self, last: Effect) {
        self.effects.push(last);
        self.work.is_over = true;
    }

    /// Returns the key for probing a VIP: the VIP on this node's interface for it.
    fn key_of(&self, vip: IpAddr) -> Option<VipKey> {
        let interface = self.view.by_name(self.cluster()?.home_of(vip)?)?;
        Some(VipKey::new(interface.index, vip))
    }

    fn lease_deadline(&self, new_deadline: &ownership::NewDeadline) -> LeaseDeadline {
        LeaseDeadline {
            deadline_ns: new_deadline.deadline.as_nanos(),
            grace_until_ns: new_deadline.grace_until.as_nanos(),
            yields_settled: self.host.yields_settled(),
            session: new_deadline.session.map_or(0, Session::number),
            notices_settled: new_deadline.notices_settled,
            policy: self.config.fence.policy,
            defence: self.config.conflicts.defend.in_program(),
        }
    }

    fn attached(&self) -> BTreeSet<u32> {
        self.attachments.attached().map(|(ifindex, _)| ifindex).collect()
    }

    /// Passes an event of the program to the engine.
    fn on_wire(&mut self, vip: IpAddr, received: Wire, now: Monotonic) {
        self.with_cluster(|cluster| cluster.on_wire(vip, received, now));
    }
}

/// Returns the settings of announcing, probing and conflicts.
fn settings(config: &Config) -> Settings {
    Settings { announce: config.announce, probe: config.probe, conflicts: config.conflicts }
}

/// Returns what the segments judge by, from a part of the agent.
fn context<'a>(
    (view, config, stale): (&'a NetView, &'a Config, &'a Stale),
    source: &'a Source,
    now: Monotonic,
) -> Context<'a> {
    Context { view, peers: &config.peers, stale, authority: source, now }
}
