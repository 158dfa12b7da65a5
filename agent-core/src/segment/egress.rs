//! Decides whether the network lets this host send frames from its held VIPs.
//!
//! Port security, ARP inspection and the filters of hypervisors drop such frames. No host gets the
//! answers then, although the program gives them. So each round of listening ([`super::proving`]) also
//! proves the way out. It asks hosts in the name of this host's own address. A host that answers is
//! asked again at once, by unicast: in the name of each VIP that is due, and then once more in the own
//! name. A VIP is *heard* if any host answers it. Silence counts only if a witness gives it:
//!
//! |a host that answers the own address before and after each question|is a witness for|
//! |---|---|
//! |a gateway that is no peer|VIPs in a subnet in which this host has an address, and VIPs that it answered before|
//! |another host, but no peer|VIPs that it answered before|
//! |a peer, also one that is a gateway|no VIP|
//! |any host, where the sockets lost frames|no VIP|
//!
//! So it proves nothing in each of these states:
//!
//! |between the answers to the own address|then|
//! |---|---|
//! |the VIP is not held or yielded, has another MAC, or its deadline is over|no question: [`Event::Asked`] lacks it|
//! |it is released, or taken again|[`Event::Released`] removes it from the round|
//! |the agent was paused, or the interface had no room|the last question has no answer: see below|
//! |the host, the link to it, or a switch between was away|likewise|
//! |this host's own address is gone|that question is not sent|
//! |this host's link was down, or its stack changed|[`Event::Anew`] ends the round|
//! |the sockets lost an answer|[`Outcome::has_lost`]|
//!
//! A witness has answered the own address once more than it was asked again. So each question in a VIP's
//! name lies between two that were answered.
//!
//! Hosts that answer the own address and no VIP are well known. Linux (`arp_process`, `arp_ignore`,
//! `arp_filter`, `fib_validate_source`) asks its routes about the sender of a request:
//!
//! |setting|a request is not answered if its sender|
//! |---|---|
//! |`rp_filter` 1|is routed through another interface, or not at all|
//! |`rp_filter` 2|is not routed at all|
//! |`arp_filter` 1|is routed through another interface, or not at all|
//! |`arp_ignore` 2|is in no subnet of the receiving interface|
//! |any|is a local address there: kube-proxy in IPVS mode, or a server behind this host, has the VIP|
//!
//! A gateway with such a route does not reach the VIP either, if it is in the gateway's subnet. All
//! others may. For IPv6, Linux asks none of these, and BSD answers only senders in a prefix of the link
//! (`nd6_is_addr_neighbor`).
//!
//! Two silent rounds in a row show that a VIP is unheard. One round in which it is heard ends that.
//! Each VIP that is heard makes an entry in the neighbour table of the host that answers, so these
//! are limited (`MOST` in `EVERY`).

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    net::IpAddr,
    time::Duration,
};

use ipnet::IpNet;
use vipward_common::{MacAddr, VipFault, VipKey};

use crate::base::{pace::Pace, time::Monotonic};

pub use self::resting::Resting;

mod resting;
#[cfg(test)]
mod tests;

/// The most VIPs in a round, and the most that are heard in [`EVERY`], of one family on a segment.
const MOST: u32 = 200;
const EVERY: Duration = Duration::from_mins(1);
/// The most hosts that are asked about a VIP in a round.
const MOST_HOSTS: usize = 3;
/// The time after which a VIP is asked for again with others, and after which a round begins for it.
const AGAIN: Duration = Duration::from_secs(50);
const TOGETHER: Duration = Duration::from_secs(10);
/// The least time until the next round about an unheard VIP.
const UNHEARD_AGAIN: Duration = Duration::from_secs(10);
/// The least time between two rounds about VIPs that were just taken.
const PAUSE: Duration = Duration::from_secs(1);
/// Silent rounds in a row that show that a VIP is unheard.
const STRIKES: u8 = 2;

/// The relation of a host that is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Gateway,
    Peer,
    Other,
}

/// A host that has answered this host's own address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Host {
    pub address: IpAddr,
    pub mac: MacAddr,
    /// The address that it answered.
    pub own: IpAddr,
    pub kind: Kind,
}

/// The answers of one host in a round.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Answers {
    /// The number of answers to this host's own address.
    pub own: u32,
    /// The VIPs that it answered.
    pub vips: BTreeSet<IpAddr>,
}

/// The result of a round.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    /// The answers, by the address of the host.
    pub answers: BTreeMap<IpAddr, Answers>,
    /// True if the sockets have lost frames, so that silence proves nothing.
    pub has_lost: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// This node holds the VIP, and has announced it. An earlier agent has this finding.
    Held { key: VipKey, fault: Option<VipFault> },
    /// This node holds the VIP no longer, or takes it again.
    Released(VipKey),
    /// Frames take another way from now on, or are heard again.
    Anew(u32),
    /// A round begins.
    Began { segment: u32, round: u64 },
    /// A host has answered the own address in a round. This host has addresses in `subnets`.
    Answered { segment: u32, round: u64, host: Host, subnets: Vec<IpNet> },
    /// A host was asked by [`Command::Ask`]. Questions were sent in the names of these VIPs.
    Asked { segment: u32, round: u64, host: IpAddr, sent: BTreeSet<IpAddr> },
    /// Half of a round is over, in which these VIPs were answered.
    Halfway { segment: u32, round: u64, heard: BTreeSet<IpAddr> },
    /// A round is over.
    Ended { segment: u32, round: u64, result: Outcome },
}

impl Event {
    pub const fn segment(&self) -> u32 {
        match self {
            Self::Held { key, .. } | Self::Released(key) => key.ifindex,
            Self::Anew(segment)
            | Self::Began { segment, .. }
            | Self::Answered { segment, .. }
            | Self::Asked { segment, .. }
            | Self::Halfway { segment, .. }
            | Self::Ended { segment, .. } => *segment,
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    /// Ask the host by unicast in the name of each of these VIPs that is held, and then in the name of the
    /// own address. [`Event::Asked`] follows.
    Ask { segment: u32, round: u64, host: IpAddr, mac: MacAddr, vips: Vec<IpAddr>, own: IpAddr },
    /// Record a change of findings. `host` answered the own address, and these VIPs or not.
    Found { segment: u32, begun: Vec<IpAddr>, over: Vec<IpAddr>, host: Option<IpAddr> },
}

/// The order in which VIPs are asked for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Rank {
    /// The last round was silent.
    Suspect,
    /// The VIP was just taken, or the way out is another.
    Fresh,
    Turn,
}

const RANKS: [Rank; 3] = [Rank::Suspect, Rank::Fresh, Rank::Turn];

#[derive(Clone, Copy, Debug)]
struct Vip {
    rank: Rank,
    due: Monotonic,
    /// Silent rounds in a row.
    strikes: u8,
    /// The host that answered last.
    heard_by: Option<IpAddr>,
    is_unheard: bool,
    /// True if the finding is about another way out, or of an earlier agent.
    is_old: bool,
}

#[derive(Debug)]
struct Round {
    hosts: Vec<Host>,
    subnets: Vec<IpNet>,
    /// The VIPs in question.
    vips: BTreeSet<IpAddr>,
    asked: BTreeMap<IpAddr, Asked>,
}

/// The questions to a host in a round.
#[derive(Debug)]
struct Asked {
    /// The number of questions in the own name that ended those in the names of VIPs.
    times: u32,
    /// The VIPs in whose names it was asked each time.
    vips: BTreeSet<IpAddr>,
}

/// The held VIPs of one family on a segment.
#[derive(Debug)]
struct Line {
    vips: BTreeMap<IpAddr, Vip>,
    /// The times from which VIPs may be asked for, by [`Rank`].
    due: [BTreeSet<(Monotonic, IpAddr)>; 3],
    pace: Pace,
    ended: Monotonic,
    /// The time before which no round begins only because it is some VIP's turn.
    not_before: Monotonic,
    /// The round under way, unless frames take another way since.
    listening: Option<u64>,
    round: Option<Round>,
}

#[derive(Debug, Default)]
pub struct Egress {
    /// By ifindex, and whether it is IPv6.
    lines: BTreeMap<(u32, bool), Line>,
}

impl Egress {
    pub fn on_event(&mut self, event: Event, now: Monotonic) -> Vec<Command> {
        let mut commands = Vec::new();
        match event {
            Event::Held { key, fault } => {
                let line = self.lines.entry(line_of(key)).or_insert_with(|| Line::new(now));
                line.hold(key.addr, fault == Some(VipFault::Unheard), now);
            }
            Event::Released(key) => {
                if let Some(line) = self.lines.get_mut(&line_of(key)) {
                    line.release(key.addr);
                    if line.vips.is_empty() {
                        self.lines.remove(&line_of(key));
                    }
                }
            }
            Event::Anew(segment) => self.on_segment(segment).for_each(|line| line.begin_anew(now)),
            Event::Began { segment, round } => {
                for line in self.on_segment(segment) {
                    line.round = None;
                    // A round that has not ended by now counts for nothing.
                    if let Some(late) = line.listening {
                        commands.extend(line.on_ended(late, &Outcome::default(), now).command(segment));
                    }
                    line.listening = Some(round);
                }
            }
            Event::Answered { segment, round, host, subnets } => {
                if let Some(line) = self.lines.get_mut(&(segment, host.address.is_ipv6())) {
                    let vips = line.on_answered(round, &host, subnets, now);
                    commands.extend(ask(segment, round, &host, vips));
                }
            }
            Event::Asked { segment, round, host, sent } => {
                if let Some(line) = self.lines.get_mut(&(segment, host.is_ipv6())) {
                    line.on_asked(round, host, sent);
                }
            }
            Event::Halfway { segment, round, heard } => {
                for line in self.on_segment(segment) {
                    let (hosts, vips) = line.on_halfway(round, &heard);
                    commands.extend(hosts.iter().filter_map(|host| ask(segment, round, host, vips.clone())));
                }
            }
            Event::Ended { segment, round, result } => {
                for line in self.on_segment(segment) {
                    commands.extend(line.on_ended(round, &result, now).command(segment));
                }
            }
        }
        commands
    }

    /// Returns the time at which a segment needs a round.
    pub fn wanted(&self, segment: u32) -> Option<Monotonic> {
        let of_segment = self.lines.range((segment, false)..=(segment, true));
        of_segment.filter_map(|(_, line)| line.wanted()).min()
    }

    pub fn is_unheard(&self, key: VipKey) -> bool {
        let vip = self.lines.get(&line_of(key)).and_then(|line| line.vips.get(&key.addr));
        vip.is_some_and(|vip| vip.is_unheard)
    }

    /// Returns the keys with which this node holds a VIP, once it is announced.
    pub fn keys_of(&self, vip: IpAddr) -> impl Iterator<Item = VipKey> {
        let lines = self.lines.iter().filter(move |(_, line)| line.vips.contains_key(&vip));
        lines.map(move |((segment, _), _)| VipKey::new(*segment, vip))
    }

    fn on_segment(&mut self, segment: u32) -> impl Iterator<Item = &mut Line> {
        self.lines.range_mut((segment, false)..=(segment, true)).map(|(_, line)| line)
    }
}

#[derive(Default)]
struct Found {
    begun: Vec<IpAddr>,
    over: Vec<IpAddr>,
    host: Option<IpAddr>,
}

impl Found {
    fn command(self, segment: u32) -> Option<Command> {
        let Self { begun, over, host } = self;
        (!begun.is_empty() || !over.is_empty()).then_some(Command::Found { segment, begun, over, host })
    }
}

impl Line {
    fn new(now: Monotonic) -> Self {
        Self {
            vips: BTreeMap::new(),
            due: Default::default(),
            pace: Pace::with_burst(MOST, EVERY / MOST, now),
            ended: now.saturating_sub(PAUSE),
            not_before: now,
            listening: None,
            round: None,
        }
    }

    fn hold(&mut self, address: IpAddr, is_unheard: bool, now: Monotonic) {
        let is_unheard = is_unheard || self.vips.get(&address).is_some_and(|vip| vip.is_unheard);
        self.release(address);
        self.vips.insert(address, Vip::fresh(is_unheard, now));
        self.due[Rank::Fresh as usize].insert((now, address));
    }

    fn release(&mut self, address: IpAddr) {
        if let Some(vip) = self.vips.remove(&address) {
            self.due[vip.rank as usize].remove(&(vip.due, address));
        }
        if let Some(round) = &mut self.round {
            round.vips.remove(&address);
        }
    }

    fn begin_anew(&mut self, now: Monotonic) {
        (self.listening, self.round) = (None, None);
        self.due = Default::default();
        for (address, vip) in &mut self.vips {
            *vip = Vip::fresh(vip.is_unheard, now);
            self.due[Rank::Fresh as usize].insert((now, *address));
        }
    }

    fn set(&mut self, address: IpAddr, change: impl FnOnce(&mut Vip)) {
        if let Some(vip) = self.vips.get_mut(&address) {
            self.due[vip.rank as usize].remove(&(vip.due, address));
            change(vip);
            self.due[vip.rank as usize].insert((vip.due, address));
        }
    }

    /// Returns the VIPs for which a host is asked that has just answered. Gateways are asked for all, and
    /// another host only if none has answered before it.
    fn on_answered(&mut self, number: u64, host: &Host, subnets: Vec<IpNet>, now: Monotonic) -> Vec<IpAddr> {
        if self.listening != Some(number) {
            return Vec::new();
        }
        if self.round.is_none() {
            let vips = self.choose(now).into_iter().collect();
            self.round = Some(Round { hosts: Vec::new(), subnets, vips, asked: BTreeMap::new() });
        }
        let Some(round) = &mut self.round else { return Vec::new() };
        if round.hosts.iter().any(|it| it.address == host.address) {
            return Vec::new();
        }
        let is_first = round.hosts.is_empty();
        let has_gateway = round.hosts.iter().any(|it| it.kind == Kind::Gateway);
        // The first hosts are those that are asked at half-time.
        let at = if host.kind == Kind::Gateway { 0 } else { round.hosts.len() };
        round.hosts.insert(at, host.clone());
        if is_first || host.kind == Kind::Gateway && !has_gateway {
            round.vips.iter().copied().collect()
        } else {
            Vec::new()
        }
    }

    /// Returns the VIPs that are due, the most urgent first.
    fn choose(&mut self, now: Monotonic) -> Vec<IpAddr> {
        let mut chosen = Vec::new();
        let mut heard = 0;
        for rank in RANKS {
            for (due, vip) in &self.due[rank as usize] {
                let is_limited = rank != Rank::Suspect;
                if *due > now
                    || chosen.len() >= MOST as usize
                    || is_limited && !self.pace.is_open_beyond(heard, now)
                {
                    break;
                }
                heard += u32::from(is_limited);
                chosen.push(*vip);
            }
        }
        chosen
    }

    fn on_asked(&mut self, number: u64, host: IpAddr, sent: BTreeSet<IpAddr>) {
        let is_under_way = self.listening == Some(number);
        let Some(round) = self.round.as_mut().filter(|_| is_under_way) else { return };
        match round.asked.entry(host) {
            Entry::Vacant(first) => _ = first.insert(Asked { times: 1, vips: sent }),
            Entry::Occupied(mut again) => {
                let asked = again.get_mut();
                asked.times += 1;
                asked.vips.retain(|vip| sent.contains(vip));
            }
        }
    }

    /// Returns the hosts to ask again, and the VIPs that no host has answered.
    fn on_halfway(&mut self, number: u64, heard: &BTreeSet<IpAddr>) -> (Vec<Host>, Vec<IpAddr>) {
        let is_under_way = self.listening == Some(number);
        let Some(round) = self.round.as_ref().filter(|_| is_under_way) else { return Default::default() };
        let hosts = round.hosts.iter().take(MOST_HOSTS).cloned().collect();
        (hosts, round.vips.difference(heard).copied().collect())
    }

    fn on_ended(&mut self, number: u64, result: &Outcome, now: Monotonic) -> Found {
        let mut found = Found::default();
        if self.listening.take_if(|it| *it == number).is_none() {
            return found;
        }
        (self.ended, self.not_before) = (now, now);
        let Some(round) = self.round.take() else {
            self.end_without_host(now, &mut found);
            return found;
        };
        let unheard = self.vips.values().filter(|vip| vip.is_unheard).count();
        let pause = UNHEARD_AGAIN.max(EVERY / MOST * u32::try_from(unheard).unwrap_or(u32::MAX));
        for vip in &round.vips {
            let Some(known) = self.vips.get(vip).copied() else { continue };
            if let Some(host) = heard_by(*vip, result) {
                self.pace.take();
                self.set(*vip, |it| *it = Vip::heard_by(host, now));
                if known.is_unheard {
                    found.host = Some(host);
                    found.over.push(*vip);
                }
            } else if let Some(host) = round.witness(*vip, known.heard_by, result) {
                let strikes = (known.strikes + 1).min(STRIKES);
                let is_unheard = known.is_unheard || strikes == STRIKES;
                let due = if strikes == STRIKES { now + pause } else { now };
                let is_old = known.is_old && strikes < STRIKES;
                let changed = Vip { rank: Rank::Suspect, due, strikes, is_unheard, is_old, ..known };
                self.set(*vip, |it| *it = changed);
                if is_unheard && !known.is_unheard {
                    found.host = Some(host);
                    found.begun.push(*vip);
                }
            } else {
                self.leave_open(*vip, now, &mut found);
            }
        }
        found
    }

    /// Ends a round in which no host has answered the own address.
    fn end_without_host(&mut self, now: Monotonic, found: &mut Found) {
        self.not_before = now + EVERY;
        let urgent: Vec<IpAddr> = [Rank::Suspect, Rank::Fresh]
            .into_iter()
            .flat_map(|rank| self.due[rank as usize].range(..=(now, LAST)).map(|(_, vip)| *vip))
            .collect();
        for vip in urgent {
            self.leave_open(vip, now, found);
        }
    }

    /// Leaves the finding about a VIP as it is, unless that is an old one.
    fn leave_open(&mut self, vip: IpAddr, now: Monotonic, found: &mut Found) {
        let Some(known) = self.vips.get(&vip).copied() else { return };
        let is_unheard = known.is_unheard && !known.is_old;
        if known.is_unheard && !is_unheard {
            found.over.push(vip);
        }
        self.set(vip, |it| {
            *it = Vip { rank: Rank::Turn, due: now + AGAIN, is_unheard, is_old: false, ..known };
        });
    }

    fn wanted(&self) -> Option<Monotonic> {
        let first = |rank: Rank| self.due[rank as usize].first().map(|(due, _)| *due);
        let suspect = first(Rank::Suspect);
        let open = self.pace.next();
        let fresh = first(Rank::Fresh).map(|due| due.max(self.ended + PAUSE));
        let fresh = fresh.map(|due| if open <= due { due } else { open + TOGETHER });
        let turn = first(Rank::Turn).map(|due| (due.max(open) + TOGETHER).max(self.not_before));
        [suspect, fresh, turn].into_iter().flatten().min()
    }
}

/// The last address.
const LAST: IpAddr = IpAddr::V6(std::net::Ipv6Addr::from_bits(u128::MAX));

impl Vip {
    const fn fresh(is_unheard: bool, now: Monotonic) -> Self {
        Self { rank: Rank::Fresh, due: now, strikes: 0, heard_by: None, is_unheard, is_old: is_unheard }
    }

    fn heard_by(host: IpAddr, now: Monotonic) -> Self {
        let due = now + AGAIN;
        Self { rank: Rank::Turn, due, strikes: 0, heard_by: Some(host), is_unheard: false, is_old: false }
    }
}

impl Round {
    /// Returns a host whose silence about a VIP counts. `heard_by` is the host that answered before.
    fn witness(&self, vip: IpAddr, heard_by: Option<IpAddr>, result: &Outcome) -> Option<IpAddr> {
        let is_near = self.subnets.iter().any(|net| net.contains(&vip));
        let is_witness = |host: &&Host| {
            let asked = self.asked.get(&host.address).filter(|asked| asked.vips.contains(&vip));
            let answers = result.answers.get(&host.address);
            let answered_before = heard_by == Some(host.address);
            asked.zip(answers).is_some_and(|(asked, answers)| answers.own > asked.times)
                && match host.kind {
                    Kind::Gateway => is_near || answered_before,
                    Kind::Other => answered_before,
                    Kind::Peer => false,
                }
        };
        self.hosts.iter().filter(|_| !result.has_lost).find(is_witness).map(|host| host.address)
    }
}

/// Returns a host that has answered a VIP.
fn heard_by(vip: IpAddr, result: &Outcome) -> Option<IpAddr> {
    result.answers.iter().find(|(_, answers)| answers.vips.contains(&vip)).map(|(host, _)| *host)
}

fn ask(segment: u32, round: u64, host: &Host, vips: Vec<IpAddr>) -> Option<Command> {
    let Host { address, mac, own, kind: _ } = *host;
    (!vips.is_empty()).then_some(Command::Ask { segment, round, host: address, mac, vips, own })
}

fn line_of(key: VipKey) -> (u32, bool) {
    (key.ifindex, key.addr.is_ipv6())
}
