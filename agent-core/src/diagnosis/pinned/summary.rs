//! One line that says whether all is well with the VIPs of a host.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use vipward_common::{DeadlineState, EventKind};

use super::{PRESENT, Status, VipStatus};
use crate::{diagnosis::finding::State, host::answering::Waiting};

/// The best that this host does for a VIP on any interface. The order is ascending.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Does {
    /// Another host has it, or no host.
    Not,
    Wait,
    /// It has the VIP and does not answer.
    Fail,
    Answer,
}

impl VipStatus {
    /// Returns true if an operator should see the VIP first.
    pub fn is_in_trouble(&self) -> bool {
        self.part.silent_because().is_some() || self.yielded
    }

    /// Returns true if this host has the VIP, or has yielded it.
    fn is_own(&self) -> bool {
        self.part.is_ours() || self.yielded
    }
}

impl Status {
    /// Records the VIPs that the agent reports. The entry of one that this host has says more.
    pub fn set_waiting(&mut self, mut waiting: Vec<Waiting>) {
        let own: BTreeSet<IpAddr> =
            self.vips.iter().filter(|vip| vip.is_own()).map(|vip| vip.address).collect();
        waiting.retain(|it| !own.contains(&it.address));
        self.waiting = Some(waiting);
    }

    /// Returns true if the VIP of an entry waits on the interface of that entry, or has none.
    pub fn waits(&self, vip: &VipStatus) -> bool {
        let mut waiting = self.waiting.iter().flatten();
        waiting.any(|it| {
            it.address == vip.address && it.interface.as_ref().is_none_or(|name| *name == vip.interface)
        })
    }

    /// Returns the line, with the state of the worst part.
    pub fn summary(&self) -> (State, String) {
        let parts = [self.vip_part(), self.deadline_part(), self.conflict_part()];
        let parts = parts.into_iter().chain(self.waiting_part());
        let (states, parts): (Vec<_>, Vec<_>) = parts.unzip();
        let worst = [State::Red, State::Yellow].into_iter().find(|state| states.contains(state));
        (worst.unwrap_or(State::Green), parts.join("; "))
    }

    fn vip_part(&self) -> (State, String) {
        let mut all: BTreeMap<IpAddr, Does> = BTreeMap::new();
        let of_entry = |vip: &VipStatus| match (vip.part.is_answering(), vip.part.is_ours()) {
            (true, _) => Does::Answer,
            (false, true) => Does::Fail,
            (false, false) => Does::Not,
        };
        let waiting = self.waiting.iter().flatten().map(|it| (it.address, Does::Wait));
        for (vip, does) in self.vips.iter().map(|vip| (vip.address, of_entry(vip))).chain(waiting) {
            let known = all.entry(vip).or_insert(does);
            *known = does.max(*known);
        }
        let count = |wanted| all.values().filter(|does| **does == wanted).count();
        let [answered, failed, waits, others] = [Does::Answer, Does::Fail, Does::Wait, Does::Not].map(count);
        let vips = if answered == 1 { "VIP" } else { "VIPs" };
        let mut parts = vec![format!("{answered} {vips} answered")];
        for (number, what) in [(failed, "not answered"), (others, "of other hosts")] {
            if number > 0 {
                parts.push(format!("{number} {what}"));
            }
        }
        if waits > 0 {
            parts.push(format!("{waits} {}", if waits == 1 { "waits" } else { "wait" }));
        }
        let state = match (failed, waits) {
            (0, 0) => State::Green,
            (0, _) => State::Yellow,
            _ => State::Red,
        };
        (state, parts.join(", "))
    }

    fn deadline_part(&self) -> (State, String) {
        let lease_deadline = &self.lease_deadline;
        let state = match lease_deadline.state {
            name if name == DeadlineState::Valid.name() => State::Green,
            name if name == DeadlineState::Over.name() => State::Red,
            _ => State::Yellow,
        };
        (state, format!("lease deadline {}", lease_deadline.state))
    }

    /// Names the held VIPs that other hosts claim at present. A peer of a cluster may claim one while it moves.
    fn conflict_part(&self) -> (State, String) {
        let is_held = |address: &IpAddr| {
            self.vips.iter().any(|vip| vip.address == *address && vip.part.is_ours() && !vip.yielded)
        };
        let present = self.offenders.iter().filter(|it| {
            it.kind == EventKind::Conflict.name()
                && it.last_seconds_ago < PRESENT.as_secs_f64()
                && is_held(&it.address)
        });
        let claimed: BTreeSet<IpAddr> = present.map(|it| it.address).collect();
        match claimed.first() {
            None => (State::Green, "no conflict".to_owned()),
            Some(first) if claimed.len() == 1 => (State::Red, format!("conflict about {first}")),
            Some(first) => (State::Red, format!("conflicts about {first} and {} more", claimed.len() - 1)),
        }
    }

    /// Says that the VIPs that wait are not known, unless they are.
    fn waiting_part(&self) -> Option<(State, String)> {
        let text = "no agent reports which VIPs wait".to_owned();
        self.waiting.is_none().then_some((State::Unknown, text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        diagnosis::pinned::{self, OffenderStatus},
        host::answering::{Part, Silence},
    };

    fn well() -> Status {
        let mut status = Status::of(&pinned::State::sample(), &BTreeMap::new());
        status.waiting = Some(Vec::new());
        status
    }

    fn claim(kind: EventKind, last_seconds_ago: f64) -> OffenderStatus {
        OffenderStatus {
            address: IpAddr::from([192, 0, 2, 10]),
            interface: "eth0".to_owned(),
            vlan: None,
            mac: "02:00:00:00:00:03".to_owned(),
            vendor: String::new(),
            eth_source: String::new(),
            kind: kind.name(),
            claims: 1,
            last_seconds_ago,
        }
    }

    #[test]
    fn the_line_has_the_worst_state_and_counts_each_address_once() {
        type Change = fn(&mut Status);
        let rows: [(&str, Change, State, &str); 9] = [
            (
                "all is well",
                |_| {},
                State::Green,
                "1 VIP answered, 1 of other hosts; lease deadline valid; no conflict",
            ),
            (
                "an address has entries on two interfaces",
                |it| {
                    let shadow =
                        VipStatus { part: Part::Foreign, interface: "eth1".to_owned(), ..it.vips[0].clone() };
                    it.vips.push(shadow);
                },
                State::Green,
                "1 VIP answered, 1 of other hosts; lease deadline valid; no conflict",
            ),
            (
                "one is silent",
                |it| it.vips[0].part = Part::Silent(Silence::LeaseDeadline),
                State::Red,
                "0 VIPs answered, 1 not answered, 1 of other hosts; lease deadline valid; no conflict",
            ),
            (
                "one waits, and has an entry",
                |it| {
                    it.waiting = Some(vec![Waiting {
                        address: it.vips[1].address,
                        interface: Some("eth0".to_owned()),
                        because: String::new(),
                        remedy: String::new(),
                        mac: None,
                    }]);
                },
                State::Yellow,
                "1 VIP answered, 1 waits; lease deadline valid; no conflict",
            ),
            (
                "no interface is for one, and what the agent reports of one with an entry is left out",
                |it| {
                    let waiting = |address| Waiting {
                        address,
                        interface: None,
                        because: String::new(),
                        remedy: String::new(),
                        mac: None,
                    };
                    it.set_waiting(it.vips.iter().map(|vip| waiting(vip.address)).collect());
                    it.vips[0].part = Part::Silent(Silence::LeaseDeadline);
                    assert!(it.waits(&it.vips[1]) && !it.waits(&it.vips[0]));
                },
                State::Red,
                "0 VIPs answered, 1 not answered, 1 waits; lease deadline valid; no conflict",
            ),
            (
                "an unknown host claims one",
                |it| it.offenders = vec![claim(EventKind::Conflict, 9.9)],
                State::Red,
                "1 VIP answered, 1 of other hosts; lease deadline valid; conflict about 192.0.2.10",
            ),
            (
                "one has claimed it",
                |it| it.offenders = vec![claim(EventKind::Conflict, 10.0), claim(EventKind::Probed, 0.1)],
                State::Green,
                "1 VIP answered, 1 of other hosts; lease deadline valid; no conflict",
            ),
            (
                "the grace period",
                |it| it.lease_deadline.state = DeadlineState::Grace.name(),
                State::Yellow,
                "1 VIP answered, 1 of other hosts; lease deadline grace period; no conflict",
            ),
            (
                "no agent",
                |it| it.waiting = None,
                State::Green,
                "1 VIP answered, 1 of other hosts; lease deadline valid; no conflict; no agent reports which VIPs wait",
            ),
        ];
        for (description, change, state, text) in rows {
            let mut status = well();
            change(&mut status);
            assert_eq!(status.summary(), (state, text.to_owned()), "{description}");
        }
    }
}
