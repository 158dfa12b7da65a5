//! Why a VIP that this node is to hold is not held, for those who look at this host.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use vipward_common::VipKey;

use super::Agent;
use crate::{
    agent::{segment::Segment, source::Source},
    host::{
        answering::Waiting,
        net::NetView,
        placement::{Entry, Obstacle},
    },
    segment::{confirming::Answerer, conflict::What},
};

/// The setting that forces a VIP, in a file and in a cluster.
const FORCE_IN_FILE: &str = "`force: true` of the VIP";
const FORCE_IN_CLUSTER: &str = "the annotation vipward.io/force=true of its VirtualIP";

impl Agent {
    /// Returns the VIPs that this node is to hold and does not hold, with the reasons: those that no
    /// interface is for, those that are probed or in use, and those that are reported as not
    /// answered. The last may have an entry.
    pub fn waiting(&self) -> Vec<Waiting> {
        let mut waiting = self.without_place();
        waiting.extend(match &self.source {
            Source::File(_) => self.segment.waiting(self.segment.held_back_keys(), FORCE_IN_FILE, &self.view),
            Source::Cluster(cluster) => {
                let asked: BTreeSet<VipKey> = self.segment.asked_keys().collect();
                let asked = asked.iter().filter(|key| cluster.engine().asks_first(key.addr));
                self.segment.waiting(asked, FORCE_IN_CLUSTER, &self.view)
            }
        });
        let known: BTreeSet<IpAddr> = waiting.iter().map(|it| it.address).collect();
        let unanswered = self.unanswered().into_iter().filter(|(vip, _)| !known.contains(vip));
        waiting.extend(unanswered.map(|(address, because)| Waiting {
            address,
            interface: None,
            because,
            remedy: "see the agent's log, and vipward explain".to_owned(),
            mac: None,
        }));
        waiting
    }

    /// Returns the VIPs that no interface is for.
    fn without_place(&self) -> Vec<Waiting> {
        let obstacles = self.host.without_place();
        if obstacles.is_empty() {
            return Vec::new();
        }
        let wanted = self.source.wanted_of(&self.config, &obstacles.keys().copied().collect());
        let to_hold = wanted.into_iter().filter(|wanted| match wanted.entry {
            Entry::Held | Entry::Handover { .. } => true,
            Entry::Foreign { .. } => false,
        });
        let waits = |address: IpAddr| {
            let (_, because, remedy) = obstacles.get(&address)?.without_place()?;
            Some(Waiting { address, interface: None, because, remedy, mac: None })
        };
        to_hold.filter_map(|wanted| waits(wanted.address)).collect()
    }
}

impl Segment {
    /// Returns why VIPs wait that are held back or probed. `force` is the setting that has them taken.
    fn waiting<'a>(
        &self,
        keys: impl Iterator<Item = &'a VipKey>,
        force: &str,
        view: &NetView,
    ) -> Vec<Waiting> {
        let own: BTreeMap<IpAddr, Obstacle> =
            self.own_addresses(view).into_iter().filter_map(|it| Some((it.vip()?, it))).collect();
        keys.map(|key| self.waits(key, own.get(&key.addr), force, view)).collect()
    }

    fn waits(&self, key: &VipKey, own: Option<&Obstacle>, force: &str, view: &NetView) -> Waiting {
        let name = view.name_of(key.ifindex);
        let mut waiting = Waiting {
            address: key.addr,
            interface: Some(name.clone()),
            because: String::new(),
            remedy: "wait".to_owned(),
            mac: None,
        };
        if let Some(Obstacle::OwnAddress { net, interface, owner, .. }) = own {
            waiting.mac = view.by_name(interface).map(|it| it.mac.to_string());
            waiting.because =
                format!("this host has it as {net} on {interface}, and vipward has not put it there");
            waiting.remedy = owner.remedy("this host", net, interface);
            return waiting;
        }
        let in_use = self.conflict_about(key).filter(|conflict| conflict.what == What::InUse);
        let offender = in_use.and_then(|conflict| conflict.offenders.first());
        if let Some(mac) = offender.map(|offender| offender.mac).or_else(|| self.user_of(key)) {
            let answerer = offender.and_then(|offender| offender.answerer).unwrap_or(Answerer::Host);
            let vendor = vipward_vendors::of(mac);
            waiting.mac = Some(mac.to_string());
            waiting.because = format!("{mac} ({vendor}) answers for it: {}", answerer.says());
            waiting.remedy = format!("{}; or have it taken all the same ({force})", answerer.remedy());
            return waiting;
        }
        let seen = view.interfaces.get(&key.ifindex);
        waiting.because = if !seen.is_some_and(|it| it.up && it.carrier) {
            "see the interface: it is down, or has no carrier".clone_into(&mut waiting.remedy);
            format!("no probe leaves {name}: it is down, or has no carrier")
        } else if self.unheard().contains_key(&key.ifindex) {
            format!(
                "no other host was heard on {name} since its link came up, so no answer to a probe proves nothing"
            )
        } else {
            "the address is being probed".to_owned()
        };
        waiting
    }
}
