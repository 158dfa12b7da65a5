//! The way out of the nodes: the gateway of each segment, which answers agents that ask it.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv4Addr},
    time::Duration,
};

use vipward_common::{VipFault, VipKey};
use vipward_core::{
    agent::Input,
    segment::{
        egress::Answers,
        inquiry::{Answered, Question},
        proving::LISTEN,
    },
};

use super::{Happening, World};
use crate::schedule::{Drops, names};

/// The time from the questions of a round of listening to the first answer.
const ANSWERED: Duration = Duration::from_millis(1);

/// The longest time until a node knows what another found: a watch may stall.
const TELLS: Duration = Duration::from_mins(2);

impl World {
    /// Begins a round of listening.
    pub(super) fn listen(&mut self, node: usize, segment: u32, round: u64, questions: Vec<Question>) {
        if let Some(process) = &mut self.nodes[node].process {
            process.questions.insert(segment, questions);
        }
        let life = self.nodes[node].life;
        self.after(ANSWERED, Happening::Heard { node, life, segment, round });
        self.after(LISTEN / 2, Happening::HalfListened { node, life, segment, round });
        self.after(LISTEN, Happening::Listened { node, life, segment, round });
    }

    /// Lets an agent receive the first answer in a round of listening: the gateway's.
    pub(super) fn heard(&mut self, node: usize, life: u32, segment: u32, round: u64) {
        let answers = self.hears(node, segment).then(|| {
            let gateway = names::gateway(names::segment_behind(segment));
            (gateway, Answers { own: 1, ..Answers::default() })
        });
        let Some(process) = self.nodes[node].process_of(life) else { return };
        process.egress.insert(segment, answers.clone().into_iter().collect());
        if let Some((host, _)) = answers {
            self.incoming(node, life, Input::Heard(segment));
            let (mac, own) = (names::GATEWAY, Ipv4Addr::UNSPECIFIED.into());
            self.incoming(node, life, Input::Answered { segment, round, host, mac, own });
        }
    }

    pub(super) fn half_listened(&mut self, node: usize, life: u32, segment: u32, round: u64) {
        let Some(process) = self.nodes[node].process_of(life) else { return };
        let answers = process.egress.get(&segment);
        let heard = answers.into_iter().flatten().flat_map(|(_, answers)| answers.vips.clone()).collect();
        self.incoming(node, life, Input::Halfway { segment, round, heard });
    }

    /// Has a node ask the gateway in the names of the VIPs that it holds, and then in its own. Returns the VIPs
    /// in whose names it has.
    pub(super) fn ask_as(
        &mut self,
        node: usize,
        segment: u32,
        host: IpAddr,
        vips: Vec<IpAddr>,
    ) -> BTreeSet<IpAddr> {
        let Some(mac) = self.seen_mac(node, segment) else { return BTreeSet::new() };
        let is_held = |vip: &IpAddr| {
            let process = self.nodes[node].process.as_ref();
            let is_taken_back = process.is_some_and(|it| it.agent.segment().is_taken_back(*vip));
            self.may_announce(node, VipKey::new(segment, *vip), mac, is_taken_back)
        };
        let sent: BTreeSet<IpAddr> = vips.into_iter().filter(is_held).collect();
        let is_filtered = self.nodes[node].faults.drops(Drops::Answers);
        if self.hears(node, segment)
            && let Some(process) = &mut self.nodes[node].process
            && let Some(answers) = process.egress.entry(segment).or_default().get_mut(&host)
        {
            answers.own += 1;
            answers.vips.extend(sent.iter().filter(|_| !is_filtered));
        }
        sent
    }

    /// Returns the VIPs of others that are answered. Adds the holders that answer to `hosts`.
    pub(super) fn answered_questions(
        &mut self,
        node: usize,
        ifindex: u32,
        questions: Vec<Question>,
        hosts: &mut BTreeMap<IpAddr, Answers>,
    ) -> BTreeMap<IpAddr, Option<Answered>> {
        let segment = names::segment_behind(ifindex);
        let mut answered = BTreeMap::new();
        for Question { vip, mac, host, .. } in questions {
            let holder = names::mac_node(mac);
            let it = &self.nodes[holder];
            let wire = &self.network.segments[segment];
            let is_reached = wire.passes(node, holder)
                && wire.passes(holder, node)
                && it.links[segment].mac == mac
                && [node, holder].iter().all(|node| !self.has_no_carrier(*node, segment));
            answered.insert(vip, None);
            if !is_reached || !it.kernel_runs() {
                continue;
            }
            hosts.insert(host, Answers { own: 1, ..Answers::default() });
            let is_answered = it.answer(names::vip_index(vip), segment, self.now).is_some();
            let is_deaf = it.faults.drops(Drops::Requests);
            let by = if is_deaf { Answered::ToUnicast } else { Answered::ToAll };
            let answer = Some(by).filter(|_| is_answered && !it.faults.drops(Drops::Answers));
            let missing = match answer {
                Some(Answered::ToAll) => None,
                Some(Answered::ToUnicast) => Some(Drops::Requests),
                None => Some(Drops::Answers),
            };
            if let Some(missing) = missing {
                self.nodes[holder].times.unanswered[missing as usize] = self.now;
            }
            answered.insert(vip, answer);
        }
        answered
    }

    /// Writes a finding about a VIP. Promise `egress`: only a VIP is unheard or blind whose frames of that
    /// kind the network drops, or has dropped in the last two rounds; or which did not answer another
    /// node lately.
    pub(super) fn put_fault(&mut self, node: usize, key: VipKey, fault: Option<VipFault>) {
        let it = &mut self.nodes[node];
        it.program.put_fault(key, fault);
        let Some(fault) = fault else { return };
        let (drops, is_found) = match fault {
            VipFault::Unheard => (Drops::Answers, &mut self.record.facts.switches.found.unheard),
            VipFault::Blind => (Drops::Requests, &mut self.record.facts.switches.found.blind),
        };
        *is_found = true;
        let is_filtered = it.faults.drops(drops)
            || self.now < it.times.filtered[drops as usize] + LISTEN * 3
            || self.now < it.times.unanswered[drops as usize] + TELLS;
        if !is_filtered {
            self.violate("egress", format!("{} finds {} {fault:?}", names::node(node), key.addr));
        }
    }

    /// Returns true if the gateway of a segment receives the requests of a node's agent, and is received.
    pub(super) fn hears(&self, node: usize, ifindex: u32) -> bool {
        let segment = names::segment_behind(ifindex);
        !self.has_no_carrier(node, segment) && !self.network.segments[segment].is_dead(node)
    }
}
