//! Decides where a switch sends a frame: by the MACs that it has learnt, and by the rules of its ports.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use crate::frames::{Mac, Message};

/// Port, and a frame that leaves there.
pub(super) type Outgoing = (usize, Vec<u8>);

/// Rules of a port. By default it passes everything on. Requests, answers and announcements are those of
/// ARP and neighbour discovery.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Rules {
    /// Nothing passes in either direction: a spanning tree's port after link-up.
    pub blocks: bool,
    /// Delay of the answers that come from the port: a host that saves power, a proxy.
    pub answers_late: Duration,
    /// The switch itself answers requests to all that come from the port, with the MAC that it has learnt
    /// from answers and announcements, and passes them to no other port: suppression in an EVPN fabric.
    /// It does not answer with the MAC of a host at the same port.
    pub answers_from_cache: bool,
    /// Only these addresses may come from the port as a sender's: port security, ARP inspection. Probes
    /// have no sender and pass.
    pub senders: Option<BTreeSet<IpAddr>>,
    /// Only requests to all for these addresses leave at the port: the firmware of a wireless card.
    pub requests_for: Option<BTreeSet<IpAddr>>,
    /// Frames that come from the port also leave there: a loop, some teams of cards.
    pub reflects: bool,
}

impl Rules {
    fn lets_in(&self, message: &Message) -> bool {
        let is_allowed = |address| self.senders.as_ref().is_none_or(|allowed| allowed.contains(&address));
        message.sender_address().is_none_or(is_allowed)
    }

    fn lets_out(&self, message: &Message) -> bool {
        let is_wanted = |address| self.requests_for.as_ref().is_none_or(|wanted| wanted.contains(&address));
        !is_group(message.eth_dst()) || message.asks_for().is_none_or(is_wanted)
    }
}

#[derive(Debug, Default)]
pub(super) struct Forwarding {
    /// Rules, by the number of the port.
    pub(super) ports: Vec<Rules>,
    /// Port at which a MAC was last a source, or asked. The test's observers ask by MACs that are no
    /// sources; other hosts must not receive their answers.
    stations: BTreeMap<Mac, usize>,
    /// MACs of addresses, from answers and announcements.
    cache: BTreeMap<IpAddr, Mac>,
    /// Delayed frames with their port, in the order of leaving. A number tells frames of one time apart.
    delayed: BTreeMap<(Instant, u64), Outgoing>,
    delayed_so_far: u64,
}

impl Forwarding {
    /// Returns what leaves because of a frame from a port.
    pub(super) fn receive(&mut self, from: usize, frame: Vec<u8>, now: Instant) -> Vec<Outgoing> {
        let delay = self.ports[from].answers_late;
        let is_answer = || Message::parse(&frame).is_some_and(|message| message.answers_for().is_some());
        if delay.is_zero() || !is_answer() {
            return self.pass(from, &frame);
        }
        self.delayed_so_far += 1;
        self.delayed.insert((now + delay, self.delayed_so_far), (from, frame));
        Vec::new()
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        self.delayed.first_key_value().map(|((due, _), _)| *due)
    }

    /// Returns what leaves because of frames whose delay is over.
    pub(super) fn release(&mut self, now: Instant) -> Vec<Outgoing> {
        let mut released = Vec::new();
        while let Some(first) = self.delayed.first_entry()
            && first.key().0 <= now
        {
            let (from, frame) = first.remove();
            released.extend(self.pass(from, &frame));
        }
        released
    }

    pub(super) fn learnt(&self, address: IpAddr) -> Option<Mac> {
        self.cache.get(&address).copied()
    }

    /// Returns what leaves because of a frame that comes from a port now.
    fn pass(&mut self, from: usize, frame: &[u8]) -> Vec<Outgoing> {
        let Some((header, _)) = frame.split_first_chunk::<12>() else { return Vec::new() };
        let [to, source] = [0, 6].map(|at| Mac(header[at..at + 6].try_into().expect("invariant: six bytes")));
        let (message, rules) = (Message::parse(frame), &self.ports[from]);
        if rules.blocks || message.as_ref().is_some_and(|message| !rules.lets_in(message)) {
            return Vec::new();
        }
        let mut leaving: Vec<usize> = rules.reflects.then_some(from).into_iter().collect();
        self.stations.insert(source, from);
        if let Some(message) = &message {
            self.learn(from, message);
            if let Some(answer) = self.answer(from, message) {
                let reflected = leaving.into_iter().map(|port| (port, frame.to_vec()));
                return reflected.chain([(from, answer.to_bytes())]).collect();
            }
        }
        let known = self.stations.get(&to).filter(|_| !is_group(to)).copied();
        let others = (0..self.ports.len()).filter(|port| *port != from);
        leaving.extend(others.filter(|port| known.is_none_or(|known| known == *port)));
        leaving.retain(|port| {
            let rules = &self.ports[*port];
            !rules.blocks && message.as_ref().is_none_or(|message| rules.lets_out(message))
        });
        leaving.into_iter().map(|port| (port, frame.to_vec())).collect()
    }

    fn learn(&mut self, from: usize, message: &Message) {
        if message.asks_for().is_some() && !message.is_announcement() {
            self.stations.insert(message.sender(), from);
        }
        let is_claim = message.answers_for().is_some() || message.is_announcement();
        if let Some(address) = message.sender_address().filter(|_| is_claim) {
            self.cache.insert(address, message.sender());
        }
    }

    /// Returns the switch's own answer to a request from a port.
    fn answer(&self, from: usize, message: &Message) -> Option<Message> {
        let is_suppressed =
            self.ports[from].answers_from_cache && is_group(message.eth_dst()) && !message.is_announcement();
        let mac = self.learnt(message.asks_for().filter(|_| is_suppressed)?)?;
        (self.stations.get(&mac) != Some(&from)).then(|| message.answered_by(mac))
    }
}

/// Returns true if frames to a MAC are for all, or for a group.
fn is_group(Mac([first, ..]): Mac) -> bool {
    first & 1 == 1
}
