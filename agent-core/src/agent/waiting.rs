//! Why a VIP that this node is to hold is not held yet, for those who look at this host.

use std::{collections::BTreeMap, net::IpAddr};

use serde::{Deserialize, Serialize};
use vipward_common::VipKey;

use super::segment::Segment;
use crate::{
    host::{net::NetView, placement::Obstacle},
    segment::{confirming::Answerer, conflict::What},
};

/// A VIP that waits, silent.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Waiting {
    pub interface: String,
    /// The MAC of the host that has the address, if it is in use on the segment.
    pub mac: Option<String>,
    pub why: String,
    pub remedy: String,
}

impl Segment {
    /// Returns the VIPs that are held back, with the reasons.
    pub fn waiting(&self, view: &NetView) -> BTreeMap<IpAddr, Waiting> {
        let own: BTreeMap<IpAddr, Obstacle> =
            self.own_addresses(view).into_iter().filter_map(|it| Some((it.vip()?, it))).collect();
        let one = |key: &VipKey| (key.addr, self.waits(key, own.get(&key.addr), view));
        self.held_back_keys().map(one).collect()
    }

    fn waits(&self, key: &VipKey, own: Option<&Obstacle>, view: &NetView) -> Waiting {
        let interface = view.name_of(key.ifindex);
        let mut waiting = Waiting { interface, mac: None, why: String::new(), remedy: "wait".to_owned() };
        if let Some(Obstacle::OwnAddress { net, interface, owner, .. }) = own {
            waiting.why =
                format!("this host has it as {net} on {interface}, and vipward has not put it there");
            waiting.remedy = owner.remedy("this host", net, interface);
            return waiting;
        }
        let in_use = self.conflict_about(key).filter(|conflict| conflict.what == What::InUse);
        if let Some(offender) = in_use.and_then(|conflict| conflict.offenders.first()) {
            let answerer = offender.answerer.unwrap_or(Answerer::Host);
            let (mac, vendor) = (offender.mac, vipward_vendors::of(offender.mac));
            waiting.mac = Some(mac.to_string());
            waiting.why = format!("{mac} ({}) has the address: {}", vendor, answerer.says());
            waiting.remedy =
                format!("{}; or have it taken all the same (`force: true` of the VIP)", answerer.remedy());
            return waiting;
        }
        let seen = view.interfaces.get(&key.ifindex);
        waiting.why = if !seen.is_some_and(|it| it.up && it.carrier) {
            "see the interface: it is down, or has no carrier".clone_into(&mut waiting.remedy);
            format!("no probe leaves {}: it is down, or has no carrier", waiting.interface)
        } else if self.unheard().contains_key(&key.ifindex) {
            format!(
                "no other host was heard on {} since its link came up, so no answer to a probe proves nothing",
                waiting.interface
            )
        } else {
            "the address is being probed".to_owned()
        };
        waiting
    }
}
