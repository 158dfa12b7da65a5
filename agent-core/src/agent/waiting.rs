//! Why a VIP that this node is to hold is not held yet, for those who look at this host.

use std::{collections::BTreeMap, net::IpAddr};

use vipward_common::VipKey;

use super::segment::Segment;
use crate::{
    host::{answering::Waiting, net::NetView, placement::Obstacle},
    segment::{confirming::Answerer, conflict::What},
};

impl Segment {
    /// Returns the VIPs that are held back, with the reasons.
    pub fn waiting(&self, view: &NetView) -> Vec<Waiting> {
        let own: BTreeMap<IpAddr, Obstacle> =
            self.own_addresses(view).into_iter().filter_map(|it| Some((it.vip()?, it))).collect();
        self.held_back_keys().map(|key| self.waits(key, own.get(&key.addr), view)).collect()
    }

    fn waits(&self, key: &VipKey, own: Option<&Obstacle>, view: &NetView) -> Waiting {
        let mut waiting = Waiting {
            address: key.addr,
            interface: view.name_of(key.ifindex),
            because: String::new(),
            remedy: "wait".to_owned(),
            mac: None,
        };
        if let Some(Obstacle::OwnAddress { net, interface, owner, .. }) = own {
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
            waiting.remedy =
                format!("{}; or have it taken all the same (`force: true` of the VIP)", answerer.remedy());
            return waiting;
        }
        let seen = view.interfaces.get(&key.ifindex);
        waiting.because = if !seen.is_some_and(|it| it.up && it.carrier) {
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
