//! World of one node: its engine, an API server whose every answer the
//! test gives, and a clock that the test moves.
//!
//! Commands are shown as lines, so that a test reads as a table of events and
//! responses. Moves of the lease deadline and of the peers are not shown, but kept
//! (`World::lease_deadline`, `World::peers`). Renewals are not shown either. They succeed at
//! once unless the test answers them itself (`World::by_hand`).

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    net::IpAddr,
    time::Duration,
};

use vipward_common::MacAddr;

pub(super) use super::records::*;
use super::{
    api::{Api, Failed, outcome_for, subject},
    lines::Lines,
};
use crate::{
    base::time::Monotonic,
    liveness::Plan,
    ownership::{Command, Engine, Entry, Event, Found, NewDeadline, Notice, Settings},
    records::{ClaimRecord, ClaimState, Demand, Epoch, LeaseRecord, NodeName, NodeRecord},
};

pub(super) struct World {
    pub(super) engine: Engine,
    us: &'static str,
    pub(super) now: Monotonic,
    api: Api,
    /// Requests without an answer, the oldest first.
    asked: VecDeque<Command>,
    /// Other nodes that renew their Leases each second.
    pub(super) renewing: BTreeSet<NodeName>,
    next_renewals: Monotonic,
    by_hand: bool,
    lease_deadline: Option<NewDeadline>,
    peers: BTreeSet<MacAddr>,
    plan: Plan,
    /// The nodes whose API servers get no request for now.
    pub(super) avoided: Vec<String>,
    /// True if the program heeds frames of wire failover.
    heeds: bool,
    /// The last command for each entry.
    entries: BTreeMap<IpAddr, Option<Entry>>,
    lines: Lines,
    is_over: bool,
}

impl World {
    /// Starts a process on node `us`. It knows nothing yet.
    pub(super) fn start(us: &'static str, found: Found) -> Self {
        Self::start_with(&settings(us), us, found)
    }

    pub(super) fn start_with(settings: &Settings, us: &'static str, found: Found) -> Self {
        let now = Monotonic::from_nanos(1_000_000_000_000);
        Self {
            engine: Engine::start(settings.clone(), found, now),
            us,
            now,
            api: Api::default(),
            asked: VecDeque::new(),
            renewing: BTreeSet::new(),
            next_renewals: now + RENEWAL,
            by_hand: false,
            lease_deadline: None,
            peers: BTreeSet::new(),
            plan: Plan::default(),
            avoided: Vec::new(),
            heeds: true,
            entries: BTreeMap::new(),
            lines: Lines::default(),
            is_over: false,
        }
    }

    /// Returns the pins of a process that has ended in its first session, before its lease
    /// deadline.
    pub(super) fn pinned(us: &str, entries: &[(IpAddr, Entry)]) -> Found {
        Found {
            session: Some(session(us, 1)),
            deadline: Monotonic::from_nanos(1_003_000_000_000),
            answers_until: Monotonic::from_nanos(1_003_000_000_000) + HOLD_FOR,
            entries: entries.iter().copied().collect(),
            yielded: BTreeSet::new(),
            notices_settled: 0,
        }
    }

    /// Gives a node that has started the objects of itself and of others that live.
    pub(super) fn introduce(&mut self, others: &[&'static str]) {
        self.notify(Event::Interfaces(vec![interface(self.us)]));
        let first = NodeRecord { labels: [(FIRST.to_owned(), String::new())].into(), ..node(self.us) };
        self.notify(Event::Node(first));
        for other in others {
            self.notify(Event::Node(node(other)));
            self.lease(lease(other, Some(session(other, 1)), &[]));
            self.renewing.insert((*other).into());
        }
    }

    /// Returns a world in which `us` lives in its first session, among others that live. All nodes
    /// know all MACs, and no Service wants a VIP yet.
    pub(super) fn living(us: &'static str, others: &[&'static str]) -> Self {
        Self::living_with(&settings(us), us, others)
    }

    pub(super) fn living_with(settings: &Settings, us: &'static str, others: &[&'static str]) -> Self {
        let mut world = Self::start_with(settings, us, Self::pinned(us, &[]));
        world.lease(lease(us, Some(session(us, 1)), &[]));
        world.introduce(others);
        world.notify(Event::Synced);
        world.after(REST + RENEWAL);
        world
    }

    /// Returns a world in which a holds the VIP in its first session. Its claim has rested.
    pub(super) fn holding(others: &[&'static str]) -> Self {
        Self::holding_all(others, &[VIP])
    }

    pub(super) fn holding_all(others: &[&'static str], vips: &[IpAddr]) -> Self {
        let entries: Vec<_> = vips.iter().map(|vip| (*vip, Entry::Held)).collect();
        let mut world = Self::start("a", Self::pinned("a", &entries));
        world.lease(lease("a", Some(session("a", 1)), &[]));
        world.introduce(others);
        for vip in vips {
            world.claim_of(*vip, held("a"), 1);
            world.notify(Event::Demand(*vip, Some(demand())));
        }
        world.notify(Event::Synced);
        world.after(REST + RENEWAL);
        for vip in vips {
            assert!(world.engine.holds(*vip), "{vip} is held");
        }
        world
    }

    /// Leaves the answers of renewals to the test, from now on.
    /// Renewals and moves of the lease deadline are shown.
    pub(super) fn by_hand(mut self) -> Self {
        self.by_hand = true;
        self
    }

    /// Lets renewals succeed by themselves again.
    pub(super) fn automatic(mut self) -> Self {
        self.by_hand = false;
        self
    }

    pub(super) fn holds(&self) -> bool {
        self.engine.holds(VIP)
    }

    pub(super) fn lease_deadline(&self) -> NewDeadline {
        self.lease_deadline.expect("a lease deadline that was set")
    }

    pub(super) fn peers(&self) -> &BTreeSet<MacAddr> {
        &self.peers
    }

    /// Returns the last plan of the monitor.
    pub(super) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns true if the program heeds frames of wire failover.
    pub(super) fn heeds(&self) -> bool {
        self.heeds
    }

    /// Returns the last command for the VIP's entry.
    pub(super) fn entry(&self) -> Option<Entry> {
        self.entries.get(&VIP).copied().flatten()
    }

    pub(super) fn claimed(&self) -> &ClaimRecord {
        &self.api.claims[&VIP]
    }

    pub(super) fn has_claim(&self) -> bool {
        self.api.claims.contains_key(&VIP)
    }

    /// Returns true if the engine has withdrawn, because another agent has its name.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Returns true if no request waits for an answer.
    pub(super) fn is_idle(&self) -> bool {
        self.asked.is_empty()
    }

    // Changes by others, and their news.

    /// Stores a Lease, as another writer. The watch has not shown it yet.
    pub(super) fn store_lease(&mut self, record: LeaseRecord) {
        self.api.store_lease(record);
    }

    pub(super) fn see_lease(&mut self, node: &str) -> Vec<String> {
        let name = node.into();
        match self.api.leases.get(&name) {
            Some(record) => self.notify(Event::Lease(record.clone())),
            None => self.notify(Event::LeaseGone(name)),
        }
    }

    pub(super) fn lease(&mut self, record: LeaseRecord) -> Vec<String> {
        let name = record.node.clone();
        self.store_lease(record);
        self.see_lease(name.as_str())
    }

    pub(super) fn delete_lease(&mut self, node: &str) -> Vec<String> {
        self.api.leases.remove(&node.into());
        self.see_lease(node)
    }

    pub(super) fn stored_lease(&self, node: &str) -> LeaseRecord {
        self.api.leases[&node.into()].clone()
    }

    /// Renews a node's Lease. The watch shows it.
    pub(super) fn renew(&mut self, node: &str) -> Vec<String> {
        self.lease(self.stored_lease(node))
    }

    /// Renews a node's Lease once more, and never again.
    pub(super) fn kill(&mut self, node: &str) {
        self.renew(node);
        self.renewing.remove(&node.into());
    }

    /// Ends a node's first session, as another node. The watch shows it.
    pub(super) fn end(&mut self, node: &str) -> Vec<String> {
        self.renewing.remove(&node.into());
        self.lease(lease(node, None, &[session(node, 1)]))
    }

    /// Lets a node die. Only its Lease is left.
    pub(super) fn bury(&mut self, node: &'static str) {
        self.renewing.remove(&node.into());
        self.notify(Event::NodeGone(node.into()));
        self.see_lease(node);
    }

    /// Deletes a Lease. The watch has not shown that yet.
    pub(super) fn forget_lease(&mut self, node: &str) {
        self.api.leases.remove(&node.into());
    }

    pub(super) fn cordon(&mut self, name: &str, cordoned: bool) -> Vec<String> {
        self.notify(Event::Node(NodeRecord { cordoned, ..node(name) }))
    }

    pub(super) fn store_claim(&mut self, state: ClaimState, epoch: u64) {
        let record = self.api.claims.get(&VIP).cloned().unwrap_or_else(|| claim_record(VIP));
        self.store_record(ClaimRecord { state, epoch: Epoch(epoch), ..record });
    }

    /// Stores a claim as given, except for its version.
    pub(super) fn store_record(&mut self, record: ClaimRecord) {
        self.api.store_claim(record);
    }

    pub(super) fn see_claim(&mut self) -> Vec<String> {
        self.see_claim_of(VIP)
    }

    fn see_claim_of(&mut self, vip: IpAddr) -> Vec<String> {
        let lines = self.watch_shows(vip);
        // If this node has a stake in the VIP, it reads the claim, and the API server confirms it.
        let reads = matches!(self.asked.back(), Some(Command::ReadClaim(read)) if *read == vip);
        if !reads || lines.len() != 1 {
            return lines;
        }
        let event = self.asked.pop_back().map(|read| self.api.serve(read)).expect("it was looked at");
        self.notify(event)
    }

    pub(super) fn watch_shows(&mut self, vip: IpAddr) -> Vec<String> {
        match self.api.claims.get(&vip) {
            Some(record) => self.notify(Event::Claim(record.clone())),
            None => self.notify(Event::ClaimGone(vip)),
        }
    }

    /// Writes the VIP's claim, as another writer. The watch shows it.
    pub(super) fn claim(&mut self, state: ClaimState, epoch: u64) -> Vec<String> {
        self.store_claim(state, epoch);
        self.see_claim()
    }

    pub(super) fn claim_of(&mut self, vip: IpAddr, state: ClaimState, epoch: u64) -> Vec<String> {
        self.store_record(ClaimRecord { state, epoch: Epoch(epoch), ..claim_record(vip) });
        self.see_claim_of(vip)
    }

    /// Removes the object, in spite of its finalizer.
    pub(super) fn erase_claim(&mut self) {
        self.api.claims.remove(&VIP);
    }

    /// Requests a move, as an operator.
    pub(super) fn wish(&mut self, to: &str) -> Vec<String> {
        let record = self.claimed().clone();
        self.store_record(ClaimRecord { move_to: Some(to.into()), ..record });
        self.see_claim()
    }

    /// Requests the deletion of the object. The finalizer keeps it.
    pub(super) fn ask_to_delete(&mut self) -> Vec<String> {
        let record = self.claimed().clone();
        self.store_record(ClaimRecord { deleting: true, ..record });
        self.see_claim()
    }

    pub(super) fn want(&mut self) -> Vec<String> {
        self.want_so(demand())
    }

    pub(super) fn want_so(&mut self, demand: Demand) -> Vec<String> {
        self.notify(Event::Demand(VIP, Some(demand)))
    }

    pub(super) fn sync(&mut self) -> Vec<String> {
        self.notify(Event::Synced)
    }

    // Results of requests.

    /// Carries out the oldest open request, if its compare-and-swap allows it, and answers it.
    pub(super) fn answer(&mut self) -> Vec<String> {
        let request = self.oldest();
        let event = self.api.serve(request);
        self.notify(event)
    }

    /// Carries out the oldest open request, but loses the answer.
    pub(super) fn lose_answer(&mut self) -> Vec<String> {
        let request = self.oldest();
        let unknown = outcome_for(&request, Failed::Unknown);
        self.api.serve(request);
        self.notify(unknown)
    }

    /// Loses the oldest open request.
    pub(super) fn lose(&mut self) -> Vec<String> {
        self.fail(Failed::Unknown)
    }

    pub(super) fn refuse(&mut self) -> Vec<String> {
        self.fail(Failed::Refused)
    }

    /// Answers that the API server knows no such object, and cannot create one.
    pub(super) fn miss(&mut self) -> Vec<String> {
        self.fail(Failed::Missing)
    }

    /// Answers for 10 s that there is no such object. Returns the number of requests.
    pub(super) fn miss_for_10_s(&mut self) -> u32 {
        let mut requests = 0;
        for _ in 0..100 {
            self.after(ms(100));
            while !self.is_idle() && requests < 1_000 {
                self.miss();
                requests += 1;
            }
        }
        requests
    }

    /// Returns the present store of the API server.
    pub(super) fn save(&self) -> Api {
        self.api.clone()
    }

    /// Sets the store back to an older state, versions included. No watch shows that.
    pub(super) fn restore(&mut self, saved: &Api) {
        self.api = saved.clone();
    }

    /// Answers so to all open requests.
    pub(super) fn miss_all(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        while !self.is_idle() {
            lines.extend(self.miss());
        }
        lines
    }

    /// Takes the oldest open request, to answer it later.
    pub(super) fn take_request(&mut self) -> Command {
        self.oldest()
    }

    pub(super) fn put_back(&mut self, request: Command) {
        self.asked.push_front(request);
    }

    fn fail(&mut self, failed: Failed) -> Vec<String> {
        let request = self.oldest();
        self.notify(outcome_for(&request, failed))
    }

    fn oldest(&mut self) -> Command {
        self.asked.pop_front().expect("an open request")
    }

    // Time and the engine.

    /// Lets time pass. Returns the lines of that time.
    pub(super) fn after(&mut self, duration: Duration) -> Vec<String> {
        self.pass(duration).into_iter().map(|(_, line)| line).collect()
    }

    /// Lets this number of renewals pass, and answers each request. Returns the lines of that time.
    pub(super) fn after_renewals(&mut self, number: u32) -> Vec<String> {
        let mut lines = Vec::new();
        for _ in 0..number {
            lines.extend(self.after(RENEWAL));
            while !self.is_idle() {
                lines.extend(self.answer());
            }
        }
        lines
    }

    /// Lets time pass. Returns the lines of that time, each with the seconds that have passed.
    pub(super) fn timeline(&mut self, duration: Duration) -> Vec<String> {
        let lines = self.pass(duration).into_iter();
        lines.map(|(after, line)| format!("{:.3} {line}", after.as_secs_f64())).collect()
    }

    fn pass(&mut self, duration: Duration) -> Vec<(Duration, String)> {
        let begin = self.now;
        let end = begin + duration;
        let mut lines = Vec::new();
        let mut steps = 0;
        loop {
            steps += 1;
            assert!(steps < 100_000, "it wakes and wakes: {:?}", self.engine);
            let next = self.engine.next_deadline().map_or(end, |deadline| deadline.min(end));
            self.now = next.min(self.next_renewals).max(self.now);
            let mut said = Vec::new();
            if self.now >= self.next_renewals {
                self.next_renewals = self.now + RENEWAL;
                let renewing = self.renewing.iter().filter(|node| self.api.leases.contains_key(*node));
                for node in renewing.cloned().collect::<Vec<_>>() {
                    said.extend(self.renew(node.as_str()));
                }
            }
            said.extend(self.notify(Event::Tick));
            let passed = self.now.saturating_since(begin);
            lines.extend(said.into_iter().map(|line| (passed, line)));
            if self.now == end {
                return lines;
            }
        }
    }

    /// Gives the engine an event. Returns its commands as lines.
    pub(super) fn notify(&mut self, event: Event) -> Vec<String> {
        let commands = self.engine.on_event(event, self.now);
        if let Some(deadline) = self.engine.next_deadline() {
            assert!(deadline > self.now, "woken at {:?} for {deadline:?}", self.now);
        }
        let mut lines = Vec::new();
        let mut renewal = None;
        for command in commands {
            self.record_notice(&command);
            if self.is_renewal(&command) && !self.by_hand {
                self.asked.retain(|open| *open != command);
                renewal = Some(command);
            } else if self.by_hand || !matches!(command, Command::SetDeadline(_)) {
                lines.extend(self.lines.line(&command, self.now));
            }
        }
        if let Some(renewal) = renewal {
            let event = self.api.serve(renewal);
            lines.extend(self.notify(event));
        }
        lines
    }

    /// Returns true if the command is a renewal that goes on in the session as usual.
    fn is_renewal(&self, command: &Command) -> bool {
        let Command::WriteLease(write) = command else { return false };
        write.node.as_str() == self.us && write.session.is_some() && write.duration == LEASE
    }

    fn record_notice(&mut self, command: &Command) {
        match command {
            Command::SetDeadline(new_deadline) => self.lease_deadline = Some(*new_deadline),
            Command::SetPeers(peers) => self.peers.clone_from(peers),
            Command::SetWire(plan) => self.plan.clone_from(plan),
            Command::AvoidServer(node) => self.avoided.push(node.to_string()),
            Command::SetHeeding(heeds) => self.heeds = *heeds,
            Command::SetEntry { vip, entry, home: _ } => {
                self.entries.insert(*vip, *entry);
            }
            Command::WriteLease(_)
            | Command::ReadLease(_)
            | Command::WriteClaim(_)
            | Command::DeleteClaim { .. }
            | Command::ReadClaim(_) => {
                let about = subject(command);
                let is_open = self.asked.iter().any(|open| subject(open) == about);
                assert!(!is_open, "{command:?} while {:?} are open", self.asked);
                self.asked.push_back(command.clone());
            }
            Command::Notify(Notice::NotAlone { .. }) => self.is_over = true,
            Command::Announce { .. }
            | Command::NotifyFormer { .. }
            | Command::SetSuccessor { .. }
            | Command::SetUnreached(_)
            | Command::Probe { .. }
            | Command::StopProbing { .. }
            | Command::ListAnew
            | Command::Notify(_)
            | Command::Stopped => {}
        }
    }
}
