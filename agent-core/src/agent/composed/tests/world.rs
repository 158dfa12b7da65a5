//! A host that carries out the agent's effects: its maps, its network, and what can fail.

mod effects;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    time::Duration,
};

use vipward_common::{
    EventKind, LeaseDeadline, MacAddr, Offender, OffenderKey, Proof, Role, VipEntry, VipKey, Yield,
};

use super::fixtures::event_about;
pub(super) use super::fixtures::{ETH0, PEER};
use super::{api::Api, lines, *};
use crate::{
    base::samples::HOLDER,
    host::net::{ConnectedRoute, Interface},
    segment::groups::Membership,
};

/// The interface of no VIP.
pub(super) const VETH: u32 = 9;
/// The beginning of each test.
pub(super) const BEGIN: Monotonic = Monotonic::from_nanos(1_000_000_000_000);

/// Returns the VIP with this last byte: of IPv4, and of IPv6 from 100 on.
pub(super) fn vip(host: u8) -> IpAddr {
    if host < 100 {
        Ipv4Addr::new(10, 0, 0, host).into()
    } else {
        Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, host.into()).into()
    }
}

pub(super) fn key(host: u8) -> VipKey {
    VipKey::new(ETH0, vip(host))
}

pub(super) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A reading or write that can fail.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Part {
    Network,
    Yields,
    Maps,
    Prepare,
    Entries,
    Records,
    Macs,
    Held,
    LeaseDeadline,
    Seen,
    Groups,
    ChangeGroup,
    AttachAgain,
}

pub(super) struct World {
    pub(super) agent: Agent,
    pub(super) now: Monotonic,
    pub(super) view: NetView,
    pub(super) attachments: Attachments,
    pub(super) entries: BTreeMap<VipKey, VipEntry>,
    /// The program's records, by slot.
    pub(super) records: BTreeMap<u32, Yield>,
    pub(super) yields: u64,
    pub(super) own: BTreeMap<u32, MacAddr>,
    pub(super) peers: BTreeSet<(u32, MacAddr)>,
    pub(super) binds: BTreeSet<(String, IpAddr)>,
    pub(super) groups: BTreeSet<Membership>,
    pub(super) lease_deadline: LeaseDeadline,
    pub(super) warnings: Vec<String>,
    /// The readings and writes that fail now.
    pub(super) fails: BTreeSet<Part>,
    /// The program's counts of claims.
    pub(super) counts: BTreeMap<OffenderKey, Offender>,
    /// The VIPs whose entries cannot be written.
    pub(super) unwritable: BTreeSet<IpAddr>,
    /// The API server of a cluster.
    pub(super) api: Api,
    /// The effects that send a frame, until a LAN takes them.
    pub(super) sent: Vec<Effect>,
    /// The lines of the effects since [`World::take`].
    lines: Vec<String>,
    pub(super) problems: BTreeSet<String>,
    /// Effects that are not carried out yet.
    effects: VecDeque<Effect>,
    /// Results that the agent does not have yet.
    results: VecDeque<Outcome>,
    /// The last round of listening that has begun, until a test takes it.
    pub(super) listening: Option<u64>,
    /// True if no other host is heard on the segment.
    pub(super) is_unheard: bool,
    /// The segment on which a host is heard, until the agent knows.
    heard: Option<u32>,
    /// The hosts that were asked in the names of VIPs, since a test took them.
    pub(super) asked: BTreeSet<(IpAddr, IpAddr)>,
    /// The finding of the next rounds about frames with the own MAC.
    pub(super) twin: Twin,
    /// True if the agent has ended.
    is_over: bool,
    /// The number of results after which the host stops.
    pub(super) most: Option<usize>,
}

impl World {
    /// Returns a host that has not begun. `make` makes the agent of its network.
    pub(super) fn new(make: impl FnOnce(Network) -> Start) -> Self {
        let nets = ["10.0.0.1/16", "2001:db8::1/64"].map(|net| net.parse().expect("an address"));
        let eth0 = Interface { mac: HOLDER, addresses: nets.into(), ..Interface::sample(ETH0, "eth0") };
        let lo = Interface { ethernet: false, loopback: true, ..Interface::sample(1, "lo") };
        let interfaces = [(1, lo), (ETH0, eth0)].into();
        let routes = ["10.0.0.0/16", "2001:db8::/64"].map(|prefix| ConnectedRoute {
            prefix: prefix.parse().expect("a subnet"),
            interface: ETH0,
            metric: 0,
        });
        let view = NetView { interfaces, routes: routes.into(), ..NetView::default() };
        let network = Network {
            view: view.clone(),
            attachments: Attachments::default(),
            name_servers: BTreeSet::new(),
        };
        let policy = vipward_common::Policy::Hold;
        Self {
            agent: Agent::start(make(network), BEGIN),
            now: BEGIN,
            view,
            attachments: Attachments::default(),
            entries: BTreeMap::new(),
            records: BTreeMap::new(),
            yields: 0,
            own: BTreeMap::new(),
            peers: BTreeSet::new(),
            binds: BTreeSet::new(),
            groups: BTreeSet::new(),
            lease_deadline: LeaseDeadline {
                deadline_ns: 0,
                grace_until_ns: 0,
                yields_settled: 0,
                session: 0,
                notices_settled: 0,
                policy,
                defence: vipward_common::Defence::Match,
            },
            warnings: Vec::new(),
            fails: BTreeSet::new(),
            counts: BTreeMap::new(),
            unwritable: BTreeSet::new(),
            api: Api::default(),
            sent: Vec::new(),
            lines: Vec::new(),
            problems: BTreeSet::new(),
            effects: VecDeque::new(),
            results: VecDeque::new(),
            listening: None,
            is_unheard: false,
            heard: None,
            asked: BTreeSet::new(),
            twin: Twin::None,
            is_over: false,
            most: None,
        }
    }

    /// Pins an entry, as an earlier agent would have.
    pub(super) fn pin(&mut self, host: u8, role: Role) {
        let slot = u32::try_from(self.entries.len()).expect("a few");
        let mac = if role == Role::Held { HOLDER } else { PEER };
        let entry = VipEntry { mac: mac.0, generation: 1, role, slot, until_ns: 0 };
        self.entries.insert(key(host), entry);
    }

    /// Has the program yield a VIP to the peer. The agent does not know it yet.
    pub(super) fn yield_to(&mut self, host: u8, mac: MacAddr) {
        let entry = self.entries[&key(host)];
        self.records.insert(entry.slot, Yield { mac: mac.0, generation: entry.generation });
        self.yields += 1;
    }

    /// Gives the agent an input, and carries the effects out. Returns their lines.
    pub(super) fn notify(&mut self, input: Input) -> Vec<String> {
        self.give(input);
        self.carry_on();
        self.take()
    }

    /// Gives the agent an input, and keeps the effects.
    pub(super) fn give(&mut self, input: Input) {
        let effects = self.agent.on(input, self.now);
        self.effects.extend(effects);
    }

    /// Keeps effects, to carry them out after all others.
    pub(super) fn give_effects(&mut self, effects: Vec<Effect>) {
        self.effects.extend(effects);
    }

    /// Carries effects out until none is left, or [`World::most`] results have been given.
    pub(super) fn carry_on(&mut self) {
        let mut steps = 0;
        while self.most != Some(0) {
            steps += 1;
            assert!(steps < 10_000, "it goes on and on: {:?}", self.effects);
            if let Some(effect) = self.effects.pop_front() {
                self.lines.extend(lines::of(&effect, &self.view));
                let outcome = self.carry_out(effect);
                self.results.extend(outcome);
            } else if let Some(outcome) = self.results.pop_front() {
                self.most = self.most.map(|most| most - 1);
                self.give(Input::Result(outcome));
            } else if let Some(segment) = self.heard.take() {
                self.give(Input::Heard(segment));
            } else if let Some(input) = self.api.serve() {
                self.give(Input::Cluster(input));
            } else {
                return;
            }
        }
    }

    /// Returns the lines since the last time.
    pub(super) fn take(&mut self) -> Vec<String> {
        std::mem::take(&mut self.lines)
    }

    /// Lets time pass. Returns the lines of that time.
    pub(super) fn after(&mut self, duration: Duration) -> Vec<String> {
        let end = self.now + duration;
        let mut last = None;
        let mut times = 0;
        loop {
            let next = self.agent.next_deadline();
            let renewed = self.api.next_renewal().unwrap_or(end);
            self.now = next.min(renewed).min(end).max(self.now);
            if let Some(input) = self.api.renew(self.now) {
                self.give(Input::Cluster(input));
                self.carry_on();
            }
            if self.is_over || next > self.now && self.now == end {
                return self.take();
            }
            times = if last.replace(self.now) == Some(self.now) { times + 1 } else { 0 };
            assert!(times < 20, "woken again and again at {:?}: {:?}", self.now, self.lines);
            if next <= self.now {
                self.give(Input::Deadline);
                self.carry_on();
            }
        }
    }

    /// Lets time pass. Returns the lines that begin with one of these words.
    pub(super) fn after_only(&mut self, duration: Duration, words: &str) -> Vec<String> {
        only(self.after(duration), words)
    }

    pub(super) fn event(&mut self, host: u8, kind: EventKind, mac: MacAddr) -> Vec<String> {
        let event = self.event_of(host, kind, mac);
        self.count(&event);
        self.notify(Input::Program(vec![event]))
    }

    /// Has the program count the claim of an event.
    fn count(&mut self, event: &vipward_common::Event) {
        let new = Offender {
            first_ns: event.at_ns,
            last_ns: event.at_ns,
            claims: 0,
            kind: event.kind,
            oper: event.oper,
            source: event.source,
            answered: 0,
            strays: 0,
            defended_ns: 0,
        };
        let key = OffenderKey { vip: event.key(), mac: MacAddr(event.sha) };
        let count = self.counts.entry(key).or_insert(new);
        (count.last_ns, count.kind, count.claims) = (event.at_ns, event.kind, count.claims + 1);
    }

    pub(super) fn event_of(&self, host: u8, kind: EventKind, mac: MacAddr) -> vipward_common::Event {
        let vip = match vip(host) {
            IpAddr::V4(vip) => vip.to_ipv6_mapped(),
            IpAddr::V6(vip) => vip,
        };
        let holder = self.entries.get(&key(host)).map_or([0; 6], |entry| entry.mac);
        vipward_common::Event {
            at_ns: self.now.as_nanos(),
            vip: vip.octets(),
            holder,
            ..event_about(10, kind, mac)
        }
    }

    /// Notifies the agent that the network has changed.
    pub(super) fn changed(&mut self) -> Vec<String> {
        self.notify(Input::Changed(Changed::default()))
    }

    pub(super) fn changed_mac(&mut self) -> Vec<String> {
        self.eth0().mac = MacAddr([2, 0, 0, 0, 0, 7]);
        self.changed()
    }

    pub(super) fn eth0(&mut self) -> &mut Interface {
        self.view.interfaces.get_mut(&ETH0).expect("invariant: the host has it")
    }

    /// Returns the roles of the entries, by VIP.
    pub(super) fn roles(&self) -> Vec<String> {
        let text = |(key, entry): (&VipKey, &VipEntry)| {
            format!("{} {}", lines::named(key.addr), lines::entry(entry))
        };
        self.entries.iter().map(text).collect()
    }
}

/// Returns the lines whose first words are among these, which `|` separates.
pub(super) fn only(lines: Vec<String>, words: &str) -> Vec<String> {
    let is_one = |line: &String| words.split('|').any(|word| line.starts_with(word));
    lines.into_iter().filter(is_one).collect()
}

/// Returns the word for what is known of a segment.
pub(super) fn proof(proof: Proof) -> String {
    format!("{proof:?}").to_lowercase()
}
