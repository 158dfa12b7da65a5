//! VIPs whose clients do not reach their holders: which ones this node asks for, and what other nodes found
//! about its own.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    ops::Bound::{Excluded, Unbounded},
};

use super::Engine;
use crate::{
    base::{address, time::Monotonic},
    ownership::{command::Command, nodes::weight, vip::Vip},
    records::{ClaimState, LeaseRecord, NodeInterface, NodeName},
    segment::inquiry::Question,
};

/// The most VIPs that a node asks for in a round, and the most that it looks at for them.
const MOST: usize = 100;
const MOST_LOOKED_AT: usize = 500;

impl Engine {
    /// Returns the VIPs on an interface's segment for which it is this node's turn to ask, of those after one,
    /// and the last that was looked at. Of all VIPs, a round takes a few.
    pub fn questions(
        &self,
        interface: &str,
        after: Option<IpAddr>,
        now: Monotonic,
    ) -> (Vec<Question>, Option<IpAddr>) {
        let later = self.vips.range((after.map_or(Unbounded, Excluded), Unbounded));
        let earlier = after.into_iter().flat_map(|after| self.vips.range(..=after));
        let (mut questions, mut last) = (Vec::new(), after);
        for (vip, known) in later.chain(earlier).take(MOST_LOOKED_AT) {
            if questions.len() == MOST {
                break;
            }
            last = Some(*vip);
            questions.extend(self.question_about(*vip, known, interface, now));
        }
        (questions, last)
    }

    /// Returns the question about a VIP, if it is this node's to ask.
    pub fn question(&self, vip: IpAddr, interface: &str, now: Monotonic) -> Option<Question> {
        self.question_about(vip, self.vips.get(&vip)?, interface, now)
    }

    fn question_about(&self, vip: IpAddr, known: &Vip, interface: &str, now: Monotonic) -> Option<Question> {
        let claim = known.claim.record.as_ref()?;
        let ClaimState::Held(holder) = &claim.state else { return None };
        // The former holder may answer with the new one's MAC until then.
        if now < known.claim.changed + self.nodes.rest()
            || holder.node == self.nodes.settings.node
            || self.nodes.live_session(&holder.node) != Some(holder.session)
            || self.nodes.home(vip, known.demand.as_ref()).is_none_or(|home| &*home.name != interface)
        {
            return None;
        }
        let lease = self.nodes.lease(&holder.node)?;
        let theirs = lease.interfaces.iter().find(|theirs| theirs.name == holder.interface)?;
        let host = theirs.addresses().filter(|address| address.is_ipv4() == vip.is_ipv4()).min()?;
        let question = Question { vip, mac: holder.mac, host, epoch: claim.epoch };
        self.is_asker(vip, &holder.node, now).then_some(question)
    }

    /// Returns true if this node comes first among those that can ask for a VIP and do not hold it. That
    /// spreads the questions.
    fn is_asker(&self, vip: IpAddr, holder: &NodeName, now: Monotonic) -> bool {
        let us = &self.nodes.settings.node;
        let place = |name: &NodeName| (weight(name.as_str(), address::octets(vip)), name.clone());
        let can_ask =
            |interfaces: &[NodeInterface]| interfaces.iter().any(|interface| interface.can_ask_for(vip));
        let own = place(us);
        let mut others = self.nodes.others().filter(|(name, member)| {
            *name != holder
                && member.lease.as_ref().is_some_and(|lease| can_ask(&lease.interfaces))
                && self.nodes.is_alive(name, now)
        });
        self.nodes.is_alive(us, now)
            && can_ask(&self.nodes.own.interfaces)
            && others.all(|(name, _)| place(name) < own)
    }

    /// Reads what other nodes found about the VIPs that this node holds.
    pub(super) fn update_unreached(&mut self) {
        let leases = self.nodes.others().filter_map(|(_, member)| member.lease.as_ref());
        let living = leases.filter(|lease| lease.live_session().is_some());
        let found = living.flat_map(|lease: &LeaseRecord| &lease.interfaces).flat_map(|it| &it.unreached);
        let is_held = |vip: IpAddr, epoch| {
            self.vips.get(&vip).is_some_and(|known| known.tenure.held_in() == Some(epoch))
        };
        let unreached: BTreeMap<_, _> =
            found.filter(|it| is_held(it.vip, it.epoch)).map(|it| (it.vip, it.fault)).collect();
        if self.unreached != unreached {
            self.unreached.clone_from(&unreached);
            self.command(Command::SetUnreached(unreached));
        }
    }
}
