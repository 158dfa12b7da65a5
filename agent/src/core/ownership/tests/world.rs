//! One node's engine, an API server whose every answer the test gives, and a clock that moves when it is told to.
//!
//! Commands are shown as lines, so that a test reads as a table of what happens and what is done about it. Moves of the
//! fence and of the peers are not shown but kept (`World::fence`, `World::peers`); neither are renewals, which succeed at
//! once unless the test answers them itself (`World::by_hand`).

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    net::Ipv4Addr,
    sync::Arc,
    time::Duration,
};

use vipward_common::{MacAddr, Policy};

use crate::core::{
    cluster::{
        ClaimNote, ClaimRecord, ClaimState, Epoch, Holder, LeaseRecord, NodeLink, NodeName, NodeRecord,
        Selector, ServiceName, Session, Version,
    },
    ownership::{
        ClaimWrite, Command, Demand, Engine, Entry, Event, Expected, Fenced, Found, FoundEntry, LeaseWrite,
        Notice, Outcome, Settings,
    },
    time::Monotonic,
};

pub(super) const VIP: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 10);
pub(super) const VIP_2: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 11);
pub(super) const VIP_3: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 12);

pub(super) const LEASE: Duration = Duration::from_secs(4);
pub(super) const RENEWAL: Duration = Duration::from_secs(1);
pub(super) const MARGIN: Duration = Duration::from_millis(500);
pub(super) const CLOCK_LATE: Duration = Duration::from_millis(4);
/// How long a claim rests, an owner has to repair, and a MAC is new.
pub(super) const REST: Duration = Duration::from_millis(4_500);
pub(super) const STABLE_FOR: Duration = Duration::from_secs(30);
pub(super) const HANDOVER_PACE: Duration = Duration::from_secs(1);
pub(super) const HOLD_FOR: Duration = Duration::from_hours(1);
pub(super) const RESTART_LEASE: Duration = Duration::from_mins(1);

/// Nodes with this label come first for a VIP that is wanted by [`World::want`].
const FIRST: &str = "first";

pub(super) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// One millisecond less.
pub(super) const fn just_before(duration: Duration) -> Duration {
    duration.saturating_sub(ms(1))
}

/// A number for a node of one letter.
fn number(node: &str) -> u8 {
    node.as_bytes()[0]
}

pub(super) fn mac(node: &str) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, number(node)])
}

/// The session of a node's life; the first is 1.
pub(super) fn session(node: &str, life: u8) -> Session {
    Session::from_number(u64::from(number(node)) << 8 | u64::from(life)).expect("a number that is not zero")
}

pub(super) fn holder(node: &str, life: u8) -> Holder {
    Holder { node: node.into(), session: session(node, life), mac: mac(node), interface: "eth0".into() }
}

/// Held by a node in its first life.
pub(super) fn held(node: &str) -> ClaimState {
    ClaimState::Held(holder(node, 1))
}

/// Offered by one node to another, in their first lives.
pub(super) fn offered(from: &str, to: &str) -> ClaimState {
    ClaimState::Offered { to: holder(to, 1), from: (from.into(), session(from, 1)) }
}

pub(super) fn link(node: &str) -> NodeLink {
    NodeLink {
        name: "eth0".into(),
        mac: mac(node),
        subnets: vec!["192.0.2.0/24".parse().expect("a subnet")],
        carrier: true,
    }
}

pub(super) fn lease(node: &str, session: Option<Session>, ended: &[Session]) -> LeaseRecord {
    LeaseRecord {
        node: node.into(),
        version: "0".into(),
        session,
        ended: ended.to_vec(),
        duration: LEASE,
        links: vec![link(node)],
        leaving: false,
    }
}

pub(super) fn node(name: &str) -> NodeRecord {
    NodeRecord {
        name: name.into(),
        labels: BTreeMap::new(),
        cordoned: false,
        ready: true,
        network_unavailable: false,
        out_of_service: false,
    }
}

pub(super) fn selector(text: &str) -> Selector {
    text.parse().expect("a selector")
}

pub(super) fn demand() -> Demand {
    let service = ServiceName { namespace: "default".into(), name: "web".into() };
    Demand { services: vec![service], preferred: Some(selector(FIRST)), ..Demand::default() }
}

pub(super) fn settings(node: &str) -> Settings {
    Settings {
        node: node.into(),
        lease: LEASE,
        renewal: RENEWAL,
        margin: MARGIN,
        policy: Policy::Hold,
        hold_for: HOLD_FOR,
        restart_lease: RESTART_LEASE,
        stable_for: STABLE_FOR,
        handover_pace: HANDOVER_PACE,
        honour_exclude_label: true,
        clock_late: CLOCK_LATE,
        seed: 1,
    }
}

pub(super) struct World {
    engine: Engine,
    us: &'static str,
    pub(super) now: Monotonic,
    /// What etcd has, whatever the engine has seen of it.
    leases: BTreeMap<NodeName, LeaseRecord>,
    claims: BTreeMap<Ipv4Addr, ClaimRecord>,
    version: u64,
    /// Requests that have no answer yet, the oldest first.
    asked: VecDeque<Command>,
    /// Other nodes that renew their Leases each second.
    renewing: BTreeSet<NodeName>,
    next_renewals: Monotonic,
    by_hand: bool,
    fence: Option<Fenced>,
    peers: BTreeSet<MacAddr>,
    /// What each entry was last made.
    entries: BTreeMap<Ipv4Addr, Option<Entry>>,
    /// Sessions that the engine has made up, the oldest first.
    made_up: Vec<Session>,
    is_over: bool,
}

impl World {
    /// A process that has just started on node `us`, and has been told nothing.
    pub(super) fn start(us: &'static str, found: Found) -> Self {
        Self::start_with(&settings(us), us, found)
    }

    pub(super) fn start_with(settings: &Settings, us: &'static str, found: Found) -> Self {
        let now = Monotonic::from_nanos(1_000_000_000_000);
        Self {
            engine: Engine::start(settings.clone(), found, now),
            us,
            now,
            leases: BTreeMap::new(),
            claims: BTreeMap::new(),
            version: 0,
            asked: VecDeque::new(),
            renewing: BTreeSet::new(),
            next_renewals: now + RENEWAL,
            by_hand: false,
            fence: None,
            peers: BTreeSet::new(),
            entries: BTreeMap::new(),
            made_up: Vec::new(),
            is_over: false,
        }
    }

    /// What is pinned when a process in its first session, with a valid fence, has ended.
    pub(super) fn pinned(us: &str, entries: &[(Ipv4Addr, FoundEntry)]) -> Found {
        Found {
            session: Some(session(us, 1)),
            deadline: Monotonic::from_nanos(1_003_000_000_000),
            entries: entries.iter().copied().collect(),
            foreign: BTreeMap::new(),
        }
    }

    /// Tells a node that has started about itself and others that live.
    pub(super) fn introduce(&mut self, others: &[&'static str]) {
        self.tell(Event::Links(vec![link(self.us)]));
        let first = NodeRecord { labels: [(FIRST.to_owned(), String::new())].into(), ..node(self.us) };
        self.tell(Event::Node(first));
        for other in others {
            self.tell(Event::Node(node(other)));
            self.lease(lease(other, Some(session(other, 1)), &[]));
            self.renewing.insert((*other).into());
        }
    }

    /// Node `us` lives in its first session among others that live; all MACs are known, and nothing is wanted yet.
    pub(super) fn living(us: &'static str, others: &[&'static str]) -> Self {
        let mut world = Self::start(us, Self::pinned(us, &[]));
        world.lease(lease(us, Some(session(us, 1)), &[]));
        world.introduce(others);
        world.tell(Event::Synced);
        world.after(REST + RENEWAL);
        world
    }

    /// Node a holds the VIP in its first session, and for so long that its claim has rested.
    pub(super) fn holding(others: &[&'static str]) -> Self {
        Self::holding_all(others, &[VIP])
    }

    pub(super) fn holding_all(others: &[&'static str], vips: &[Ipv4Addr]) -> Self {
        let entries: Vec<_> = vips.iter().map(|vip| (*vip, FoundEntry::Held)).collect();
        let mut world = Self::start("a", Self::pinned("a", &entries));
        world.lease(lease("a", Some(session("a", 1)), &[]));
        world.introduce(others);
        for vip in vips {
            world.claim_of(*vip, held("a"), 1);
            world.tell(Event::Demand(*vip, Some(demand())));
        }
        world.tell(Event::Synced);
        world.after(REST + RENEWAL);
        for vip in vips {
            assert!(world.engine.holds(*vip), "{vip} is held");
        }
        world
    }

    /// From now on the test answers the renewals, and they are shown, and so are moves of the fence.
    pub(super) fn by_hand(mut self) -> Self {
        self.by_hand = true;
        self
    }

    /// Renewals succeed by themselves again.
    pub(super) fn automatic(mut self) -> Self {
        self.by_hand = false;
        self
    }

    pub(super) fn holds(&self) -> bool {
        self.engine.holds(VIP)
    }

    pub(super) fn fence(&self) -> Fenced {
        self.fence.expect("a fence that was set")
    }

    pub(super) fn peers(&self) -> &BTreeSet<MacAddr> {
        &self.peers
    }

    /// What the VIP's entry was last made.
    pub(super) fn entry(&self) -> Option<Entry> {
        self.entries.get(&VIP).copied().flatten()
    }

    pub(super) fn claimed(&self) -> &ClaimRecord {
        &self.claims[&VIP]
    }

    pub(super) fn has_claim(&self) -> bool {
        self.claims.contains_key(&VIP)
    }

    /// Whether the engine keeps out, since another agent has its name.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Whether nothing is waiting for an answer.
    pub(super) fn is_idle(&self) -> bool {
        self.asked.is_empty()
    }

    fn next_version(&mut self) -> Version {
        self.version += 1;
        self.version.to_string().as_str().into()
    }

    // What others do, and what is seen of it.

    /// Somebody writes a Lease; the watch has not shown it yet.
    pub(super) fn store_lease(&mut self, record: LeaseRecord) {
        let version = self.next_version();
        self.leases.insert(record.node.clone(), LeaseRecord { version, ..record });
    }

    pub(super) fn see_lease(&mut self, node: &str) -> Vec<String> {
        let name = node.into();
        match self.leases.get(&name) {
            Some(record) => self.tell(Event::Lease(record.clone())),
            None => self.tell(Event::LeaseGone(name)),
        }
    }

    pub(super) fn lease(&mut self, record: LeaseRecord) -> Vec<String> {
        let name = record.node.clone();
        self.store_lease(record);
        self.see_lease(name.as_str())
    }

    pub(super) fn delete_lease(&mut self, node: &str) -> Vec<String> {
        self.leases.remove(&node.into());
        self.see_lease(node)
    }

    /// The Lease of a node, as it is stored.
    pub(super) fn stored_lease(&self, node: &str) -> LeaseRecord {
        self.leases[&node.into()].clone()
    }

    /// A node renews its Lease, and the watch shows it.
    pub(super) fn renew(&mut self, node: &str) -> Vec<String> {
        self.lease(self.stored_lease(node))
    }

    /// A node renews once more, and never again.
    pub(super) fn kill(&mut self, node: &str) {
        self.renew(node);
        self.renewing.remove(&node.into());
    }

    /// Somebody ends a node's first session, and the watch shows it.
    pub(super) fn end(&mut self, node: &str) -> Vec<String> {
        self.renewing.remove(&node.into());
        self.lease(lease(node, None, &[session(node, 1)]))
    }

    /// A node dies, and nothing but its Lease is left of it.
    pub(super) fn bury(&mut self, node: &'static str) {
        self.renewing.remove(&node.into());
        self.tell(Event::NodeGone(node.into()));
        self.see_lease(node);
    }

    /// Somebody deletes a Lease; the watch has not shown it yet.
    pub(super) fn forget_lease(&mut self, node: &str) {
        self.leases.remove(&node.into());
    }

    pub(super) fn cordon(&mut self, name: &str, cordoned: bool) -> Vec<String> {
        self.tell(Event::Node(NodeRecord { cordoned, ..node(name) }))
    }

    pub(super) fn store_claim(&mut self, state: ClaimState, epoch: u64) {
        let record = self.claims.get(&VIP).cloned().unwrap_or_else(|| claim_record(VIP));
        self.store_record(ClaimRecord { state, epoch: Epoch(epoch), ..record });
    }

    /// Stores a claim as it is given, but for its version.
    pub(super) fn store_record(&mut self, record: ClaimRecord) {
        let version = self.next_version();
        self.claims.insert(record.vip, ClaimRecord { version, ..record });
    }

    pub(super) fn see_claim(&mut self) -> Vec<String> {
        self.see_claim_of(VIP)
    }

    fn see_claim_of(&mut self, vip: Ipv4Addr) -> Vec<String> {
        match self.claims.get(&vip) {
            Some(record) => self.tell(Event::Claim(record.clone())),
            None => self.tell(Event::ClaimGone(vip)),
        }
    }

    /// Somebody writes the VIP's claim, and the watch shows it.
    pub(super) fn claim(&mut self, state: ClaimState, epoch: u64) -> Vec<String> {
        self.store_claim(state, epoch);
        self.see_claim()
    }

    pub(super) fn claim_of(&mut self, vip: Ipv4Addr, state: ClaimState, epoch: u64) -> Vec<String> {
        self.store_record(ClaimRecord { state, epoch: Epoch(epoch), ..claim_record(vip) });
        self.see_claim_of(vip)
    }

    /// The object vanishes, finalizer or not.
    pub(super) fn erase_claim(&mut self) {
        self.claims.remove(&VIP);
    }

    /// An operator asks for a move.
    pub(super) fn wish(&mut self, to: &str) -> Vec<String> {
        let record = self.claimed().clone();
        self.store_record(ClaimRecord { move_to: Some(to.into()), ..record });
        self.see_claim()
    }

    /// Somebody asks to delete the object, which the finalizer keeps.
    pub(super) fn ask_to_delete(&mut self) -> Vec<String> {
        let record = self.claimed().clone();
        self.store_record(ClaimRecord { deleting: true, ..record });
        self.see_claim()
    }

    pub(super) fn want(&mut self) -> Vec<String> {
        self.want_so(demand())
    }

    pub(super) fn want_so(&mut self, demand: Demand) -> Vec<String> {
        self.tell(Event::Demand(VIP, Some(demand)))
    }

    pub(super) fn sync(&mut self) -> Vec<String> {
        self.tell(Event::Synced)
    }

    // What becomes of requests.

    /// The API server does what the oldest open request asks, if its compare-and-swap allows it.
    pub(super) fn answer(&mut self) -> Vec<String> {
        let request = self.oldest();
        let event = self.serve(request);
        self.tell(event)
    }

    /// It does so, and the answer gets lost.
    pub(super) fn lose_answer(&mut self) -> Vec<String> {
        let request = self.oldest();
        let unknown = Self::outcome_for(&request, Failed::Unknown);
        self.serve(request);
        self.tell(unknown)
    }

    /// The request gets lost.
    pub(super) fn lose(&mut self) -> Vec<String> {
        self.fail(Failed::Unknown)
    }

    pub(super) fn refuse(&mut self) -> Vec<String> {
        self.fail(Failed::Refused)
    }

    /// The API server knows no such object, nor how to make one.
    pub(super) fn miss(&mut self) -> Vec<String> {
        self.fail(Failed::Missing)
    }

    /// The same for all that are open.
    pub(super) fn miss_all(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        while !self.is_idle() {
            lines.extend(self.miss());
        }
        lines
    }

    /// Keeps the oldest open request back, to answer it later.
    pub(super) fn take_request(&mut self) -> Command {
        self.oldest()
    }

    pub(super) fn put_back(&mut self, request: Command) {
        self.asked.push_front(request);
    }

    fn fail(&mut self, failed: Failed) -> Vec<String> {
        let request = self.oldest();
        self.tell(Self::outcome_for(&request, failed))
    }

    fn oldest(&mut self) -> Command {
        self.asked.pop_front().expect("an open request")
    }

    fn outcome_for(command: &Command, failed: Failed) -> Event {
        fn outcome<T>(failed: Failed) -> Outcome<T> {
            match failed {
                Failed::Unknown => Outcome::Unknown,
                Failed::Missing => Outcome::Missing,
                Failed::Refused => Outcome::Refused("forbidden".into()),
            }
        }
        match command {
            Command::WriteLease(write) => {
                Event::LeaseWritten { node: write.node.clone(), outcome: outcome(failed) }
            }
            Command::ReadLease(node) => Event::LeaseRead { node: node.clone(), outcome: outcome(failed) },
            Command::WriteClaim(write) => Event::ClaimWritten { vip: write.vip, outcome: outcome(failed) },
            Command::DeleteClaim { vip, expected: _ } => {
                Event::ClaimDeleted { vip: *vip, outcome: outcome(failed) }
            }
            Command::ReadClaim(vip) => Event::ClaimRead { vip: *vip, outcome: outcome(failed) },
            Command::SetFence(_)
            | Command::SetEntry { .. }
            | Command::SetPeers(_)
            | Command::Announce { .. }
            | Command::Notify(_)
            | Command::Stopped => unreachable!("{command:?} is no request"),
        }
    }

    fn serve(&mut self, request: Command) -> Event {
        match request {
            Command::WriteLease(write) => {
                let node = write.node.clone();
                Event::LeaseWritten { node, outcome: self.put_lease(write) }
            }
            Command::ReadLease(node) => {
                let outcome = self.leases.get(&node).cloned().map_or(Outcome::Missing, Outcome::Done);
                Event::LeaseRead { node, outcome }
            }
            Command::WriteClaim(write) => {
                Event::ClaimWritten { vip: write.vip, outcome: self.put_claim(write) }
            }
            Command::DeleteClaim { vip, expected } => {
                let known = self.claims.get(&vip).map(|record| record.version.clone());
                let outcome = match compare(&Expected::At(expected), known.as_ref()) {
                    Ok(()) => {
                        self.claims.remove(&vip);
                        Outcome::Done(())
                    }
                    Err(outcome) => outcome,
                };
                Event::ClaimDeleted { vip, outcome }
            }
            Command::ReadClaim(vip) => {
                let outcome = self.claims.get(&vip).cloned().map_or(Outcome::Missing, Outcome::Done);
                Event::ClaimRead { vip, outcome }
            }
            other @ (Command::SetFence(_)
            | Command::SetEntry { .. }
            | Command::SetPeers(_)
            | Command::Announce { .. }
            | Command::Notify(_)
            | Command::Stopped) => unreachable!("{other:?} is no request"),
        }
    }

    fn put_lease(&mut self, write: LeaseWrite) -> Outcome<LeaseRecord> {
        let known = self.leases.get(&write.node).map(|record| &record.version);
        if let Err(outcome) = compare(&write.expected, known) {
            return outcome;
        }
        let LeaseWrite { node, expected: _, session, ended, duration, links, leaving } = write;
        let record =
            LeaseRecord { node, version: self.next_version(), session, ended, duration, links, leaving };
        self.leases.insert(record.node.clone(), record.clone());
        Outcome::Done(record)
    }

    fn put_claim(&mut self, write: ClaimWrite) -> Outcome<ClaimRecord> {
        let known = self.claims.get(&write.vip);
        if let Err(outcome) = compare(&write.expected, known.map(|record| &record.version)) {
            return outcome;
        }
        let deleting = known.is_some_and(|known| known.deleting);
        let ClaimWrite { vip, expected: _, epoch, state, note } = write;
        let version = self.next_version();
        let record = ClaimRecord { vip, version, epoch, state, deleting, move_to: None, note };
        self.claims.insert(vip, record.clone());
        Outcome::Done(record)
    }

    // Time, and the engine.

    /// Lets time pass; returns what is done meanwhile.
    pub(super) fn after(&mut self, duration: Duration) -> Vec<String> {
        self.pass(duration).into_iter().map(|(_, line)| line).collect()
    }

    /// The same, each line with the seconds that have passed.
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
                let renewing = self.renewing.iter().filter(|node| self.leases.contains_key(*node));
                for node in renewing.cloned().collect::<Vec<_>>() {
                    said.extend(self.renew(node.as_str()));
                }
            }
            said.extend(self.tell(Event::Tick));
            let passed = self.now.saturating_since(begin);
            lines.extend(said.into_iter().map(|line| (passed, line)));
            if self.now == end {
                return lines;
            }
        }
    }

    /// Tells the engine something; returns what it wants done.
    pub(super) fn tell(&mut self, event: Event) -> Vec<String> {
        let commands = self.engine.on_event(event, self.now);
        if let Some(deadline) = self.engine.next_deadline() {
            assert!(deadline > self.now, "woken at {:?} for {deadline:?}", self.now);
        }
        let mut lines = Vec::new();
        let mut renewal = None;
        for command in commands {
            self.take_note(&command);
            if self.is_renewal(&command) && !self.by_hand {
                self.asked.retain(|open| *open != command);
                renewal = Some(command);
            } else if let Some(line) = self.line(&command) {
                lines.push(line);
            }
        }
        if let Some(renewal) = renewal {
            let event = self.serve(renewal);
            lines.extend(self.tell(event));
        }
        lines
    }

    /// A renewal that goes on in the session as usual.
    fn is_renewal(&self, command: &Command) -> bool {
        let Command::WriteLease(write) = command else { return false };
        write.node.as_str() == self.us && write.session.is_some() && write.duration == LEASE
    }

    fn take_note(&mut self, command: &Command) {
        match command {
            Command::SetFence(fenced) => self.fence = Some(*fenced),
            Command::SetPeers(peers) => self.peers.clone_from(peers),
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
            Command::Announce { .. } | Command::Notify(_) | Command::Stopped => {}
        }
    }
}

/// A request that failed otherwise than by compare-and-swap.
#[derive(Clone, Copy)]
enum Failed {
    Unknown,
    Missing,
    Refused,
}

fn compare<T>(expected: &Expected, known: Option<&Version>) -> Result<(), Outcome<T>> {
    match (expected, known) {
        (Expected::Absent, None) => Ok(()),
        (Expected::At(expected), Some(known)) if expected == known => Ok(()),
        (Expected::Absent | Expected::At(_), Some(_)) => Err(Outcome::Conflict),
        (Expected::At(_), None) => Err(Outcome::Missing),
    }
}

/// What a request is about: of each there is one at a time.
fn subject(command: &Command) -> Option<String> {
    match command {
        Command::WriteLease(write) => Some(write.node.to_string()),
        Command::ReadLease(node) => Some(node.to_string()),
        Command::WriteClaim(write) => Some(write.vip.to_string()),
        Command::DeleteClaim { vip, expected: _ } | Command::ReadClaim(vip) => Some(vip.to_string()),
        Command::SetFence(_)
        | Command::SetEntry { .. }
        | Command::SetPeers(_)
        | Command::Announce { .. }
        | Command::Notify(_)
        | Command::Stopped => None,
    }
}

fn claim_record(vip: Ipv4Addr) -> ClaimRecord {
    ClaimRecord {
        vip,
        version: "0".into(),
        epoch: Epoch(0),
        state: ClaimState::Blank,
        deleting: false,
        move_to: None,
        note: ClaimNote { services: demand().services, cause: "a test".to_owned(), trouble: None },
    }
}

// How commands read.
impl World {
    fn line(&mut self, command: &Command) -> Option<String> {
        let line = match command {
            Command::SetPeers(_) => return None,
            Command::SetFence(_) if !self.by_hand => return None,
            Command::SetFence(fenced) => {
                format!("fence for {}", seconds(fenced.deadline.saturating_since(self.now)))
            }
            Command::SetEntry { vip, entry, home } => {
                let home = if home.is_some() { "" } else { " on no interface" };
                self.entry_line(*entry) + home + &which(*vip)
            }
            Command::Announce { vip } => format!("announce{}", which(*vip)),
            Command::WriteLease(write) => self.lease_line(write),
            Command::ReadLease(node) => format!("read lease of {node}"),
            Command::WriteClaim(write) => self.claim_line(write),
            Command::DeleteClaim { vip, expected: _ } => format!("delete claim{}", which(*vip)),
            Command::ReadClaim(vip) => format!("read claim{}", which(*vip)),
            Command::Notify(notice) => self.notice_line(notice),
            Command::Stopped => "stopped".to_owned(),
        };
        Some(line)
    }

    fn entry_line(&self, entry: Option<Entry>) -> String {
        match entry {
            None => "no entry".to_owned(),
            Some(Entry::Held) => "entry held".to_owned(),
            Some(Entry::Foreign { mac }) => format!("entry foreign {}", place(mac)),
            Some(Entry::Handover { mac, until }) => {
                format!("entry handover {} for {}", place(mac), seconds(until.saturating_since(self.now)))
            }
        }
    }

    /// a1 is the first session of node a; new, new2 … are those that the engine has made up.
    fn session_name(&mut self, session: Session) -> String {
        if session.number() < 0x1_0000 {
            let node = char::from(u8::try_from(session.number() >> 8).unwrap_or(b'?'));
            return format!("{node}{}", session.number() & 0xff);
        }
        if !self.made_up.contains(&session) {
            self.made_up.push(session);
        }
        match self.made_up.iter().position(|known| *known == session) {
            Some(0) | None => "new".to_owned(),
            Some(later) => format!("new{}", later + 1),
        }
    }

    fn lease_line(&mut self, write: &LeaseWrite) -> String {
        let verb = verb(&write.expected);
        let session = write.session.map_or_else(|| "no session".to_owned(), |one| self.session_name(one));
        let ended: Vec<String> = write.ended.iter().map(|one| self.session_name(*one)).collect();
        let ended = if ended.is_empty() { "none".to_owned() } else { ended.join(" ") };
        format!("{verb} lease of {}: {session}, ended {ended}, {}", write.node, seconds(write.duration))
    }

    fn holder_name(&mut self, holder: &Holder) -> String {
        let name = self.session_name(holder.session);
        if holder.mac == mac(holder.node.as_str()) {
            name
        } else {
            format!("{name} at {}", place(holder.mac))
        }
    }

    fn claim_line(&mut self, write: &ClaimWrite) -> String {
        let state = match &write.state {
            ClaimState::Held(holder) => format!("held by {}", self.holder_name(holder)),
            ClaimState::Offered { to, from: (_, from) } => {
                format!("offered to {} by {}", self.holder_name(to), self.session_name(*from))
            }
            ClaimState::Released => "released".to_owned(),
            ClaimState::Blank => "blank".to_owned(),
        };
        format!("{} claim: {state}, epoch {}{}", verb(&write.expected), write.epoch, which(write.vip))
    }

    fn notice_line(&mut self, notice: &Notice) -> String {
        match notice {
            Notice::Holds { vip, services: _, from, cause: _ } => {
                let from = from.as_ref().map_or("nobody", NodeName::as_str);
                format!("tell: held, from {from}{}", which(*vip))
            }
            Notice::Nobody { vip, services: _, why } => format!("tell: nobody, {why}{}", which(*vip)),
            Notice::CannotMove { vip, services: _, to, why } => {
                format!("tell: cannot move to {to}, {why}{}", which(*vip))
            }
            Notice::Repaired { what } => format!("tell: repaired {what}"),
            Notice::SessionEnded { session } => format!("tell: {} has ended", self.session_name(*session)),
            Notice::NotAlone { session } => format!("tell: not alone, {}", self.session_name(*session)),
            Notice::Refused { what, message } => format!("tell: {what}: {message}"),
        }
    }
}

fn verb(expected: &Expected) -> &'static str {
    match expected {
        Expected::Absent => "create",
        Expected::At(_) => "write",
    }
}

fn which(vip: Ipv4Addr) -> String {
    if vip == VIP { String::new() } else { format!(" ({vip})") }
}

fn seconds(duration: Duration) -> String {
    format!("{}s", duration.as_secs_f64())
}

/// The node that a MAC is of.
fn place(mac: MacAddr) -> String {
    match mac {
        MacAddr::ZERO => "?".to_owned(),
        MacAddr([2, 0, 0, 0, 0, node]) => char::from(node).to_string(),
        other => other.to_string(),
    }
}

/// Links that are as usual but for what `change` does.
pub(super) fn changed_link(node: &str, change: impl FnOnce(&mut NodeLink)) -> Vec<NodeLink> {
    let mut changed = link(node);
    change(&mut changed);
    vec![changed]
}

pub(super) fn named(name: &str) -> Arc<str> {
    name.into()
}
