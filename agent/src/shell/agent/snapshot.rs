//! Answers the pages from memory: reading whole maps would keep the event loop from the fence.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use serde_json::{Value, json};
use vipward_common::MacAddr;
use vipward_core::{
    base::time::Monotonic,
    host::{attaching::Mode, net::Interface, placement::Entry},
    reports::unanswered::Unanswered,
    segment::conflict::{Conflict, Offender},
};

use super::{event_loop::EventLoop, source::Source, timing::now};
use crate::shell::pages::{
    Check, Question,
    metrics::{InterfaceSnapshot, Snapshot, VipSnapshot},
};

impl<S: Source> EventLoop<S> {
    pub(super) fn on_question(&mut self, question: Question) {
        // Without a clock there is no answer. The receiver of an answer may be gone.
        let Ok(now) = now() else { return };
        match question {
            Question::Live(answer) => drop(answer.send(vec![self.heartbeat_check(now)])),
            Question::Look(answer) => drop(answer.send(self.snapshot(now))),
            Question::Wire(answer) => drop(answer.send(self.source.wire_report(now))),
            Question::State(answer) => drop(answer.send(self.state(now))),
        }
    }

    /// Returns the check of the heartbeat. The answer itself proves that the event loop turns.
    fn heartbeat_check(&self, now: Monotonic) -> Check {
        let Some((moved, limit)) = self.source.heartbeat() else { return Check::ok("heartbeat") };
        let since = now.saturating_since(moved);
        if since < limit {
            return Check::ok("heartbeat");
        }
        Check::failed("heartbeat", format!("the heartbeat has not moved for {} s", since.as_secs()))
    }

    fn snapshot(&self, now: Monotonic) -> Snapshot {
        // A VIP whose address is in use has to wait.
        let in_use: BTreeSet<IpAddr> = self.segment.in_use().collect();
        let vips = self.source.wanted(&self.config).map(|wanted| {
            let waits = in_use.contains(&wanted.address);
            VipSnapshot {
                vip: wanted.address,
                entry: if waits { Entry::Foreign { mac: MacAddr::ZERO } } else { wanted.entry },
                yielded: self.host.yielded().contains_key(&wanted.address),
            }
        });
        let attachments = self.plane.attachments();
        let attached = attachments.attached().map(|(ifindex, mode)| self.interface_snapshot(ifindex, mode));
        let is_attached = |index: u32| attachments.attached().any(|(ifindex, _)| ifindex == index);
        let unattached = attachments.unattached().iter().filter(|(ifindex, _)| !is_attached(**ifindex));
        let unattached = unattached.filter_map(|(ifindex, why)| self.unattached_snapshot(*ifindex, why));
        Snapshot {
            node: self.config.node.clone(),
            mode: self.source.mode(),
            started: self.segment.is_started(),
            fence_duration: self.config.fence.duration,
            interfaces: attached.chain(unattached).collect(),
            vips: vips.collect(),
            claims: self.source.claims(now),
            wire: self.source.wire(now),
            metallb: self.source.metallb(),
            unanswered: self.unanswered(),
            problems: self.problems.standing().len(),
        }
    }

    /// Returns the VIPs that this node has and does not answer, as far as they are reported.
    fn unanswered(&self) -> BTreeMap<IpAddr, String> {
        let silent = |(vip, why): (IpAddr, &Unanswered)| match why {
            Unanswered::Silent(why) => Some((vip, why.clone())),
            Unanswered::SessionEnded(_) => None,
        };
        self.answers.reported().filter_map(silent).collect()
    }

    fn interface_snapshot(&self, ifindex: u32, mode: Mode) -> InterfaceSnapshot {
        let (interface, attachments) = (self.view.interfaces.get(&ifindex), self.plane.attachments());
        InterfaceSnapshot {
            ifindex,
            interface: self.name(ifindex),
            through: attachments.point_of(ifindex).filter(|point| *point != ifindex),
            mode,
            attached: attachments.runs_on(&self.view, ifindex),
            proof: self.proving.proof(ifindex),
            failure: None,
            seen: interface.cloned(),
        }
    }

    /// Returns an interface that could not be attached, with its wanted mode.
    /// Returns `None` if the interface has vanished.
    fn unattached_snapshot(&self, ifindex: u32, why: &str) -> Option<InterfaceSnapshot> {
        let modes = self.config.attach.modes(self.view.interfaces.get(&ifindex)?, &self.view);
        let mode = modes.first().copied().unwrap_or(Mode::Native);
        Some(InterfaceSnapshot {
            attached: false,
            failure: Some(why.to_owned()),
            ..self.interface_snapshot(ifindex, mode)
        })
    }

    fn state(&self, now: Monotonic) -> Value {
        let rounds = self.segment.rounds().map(|(key, round, due)| {
            json!({
                "vip": key.addr,
                "interface": self.name(key.ifindex),
                "round": format!("{round:?}").to_lowercase(),
                "due_in_seconds": due.saturating_since(now).as_secs_f64(),
            })
        });
        let conflicts = self.segment.conflicts().map(|conflict| self.conflict_state(conflict, now));
        let probed = self.segment.asked().map(|vip| vip.to_string());
        let stale = self.stale.all().map(|(vip, failure)| json!({"vip": vip, "error": failure.error}));
        json!({
            "mode": self.source.mode().name(),
            "config": self.config,
            "interfaces": self.interfaces(),
            "started": self.segment.is_started(),
            "settled": self.host.was_complete(),
            "read_back_in_seconds": self.host.next_deadline().saturating_since(now).as_secs_f64(),
            "announcements": rounds.collect::<Vec<_>>(),
            "conflicts": conflicts.collect::<Vec<_>>(),
            "probed": probed.collect::<Vec<_>>(),
            "problems": self.problems.standing(),
            "stale": stale.collect::<Vec<_>>(),
            "unanswered": self.unanswered(),
            "yielded": self.host.yielded().iter().map(|(vip, mac)| (vip.to_string(), json!(mac.to_string())))
                .collect::<serde_json::Map<_, _>>(),
            "source": self.source.state(now),
        })
    }

    fn conflict_state(&self, conflict: &Conflict, now: Monotonic) -> Value {
        let ago = |time: Monotonic| now.saturating_since(time).as_secs_f64();
        let offender = |offender: &Offender| {
            json!({
                "mac": offender.mac.to_string(),
                "vendor": vipward_vendors::of(offender.mac).to_string(),
                "eth_source": offender.source.to_string(),
                "claims": offender.claims,
                "first_seconds_ago": ago(offender.first),
                "last_seconds_ago": ago(offender.last),
            })
        };
        json!({
            "vip": conflict.key.addr,
            "interface": self.name(conflict.key.ifindex),
            "what": conflict.what.name(),
            "holder": conflict.holder.to_string(),
            "begun_seconds_ago": ago(conflict.begun),
            "last_seconds_ago": ago(conflict.last),
            "claims": conflict.claims,
            "defences": conflict.defences,
            "offenders": conflict.offenders.iter().map(offender).collect::<Vec<_>>(),
            "more": conflict.more,
        })
    }

    fn interfaces(&self) -> Vec<Value> {
        let attachments = self.plane.attachments();
        let attached = |index| attachments.attached().find(|(ifindex, _)| *ifindex == index);
        let interface = |interface: &Interface| {
            json!({
                "name": interface.name,
                "ifindex": interface.index,
                "mac": interface.mac.to_string(),
                "kind": interface.kind,
                "vlan": interface.vlan_id(),
                "ethernet": interface.ethernet,
                "up": interface.up,
                "carrier": interface.carrier,
                "master": interface.master.map(|master| self.name(master)),
                "xdp_programs": interface.xdp_programs,
                "tc_programs": interface.tc_programs,
                "addresses": interface.addresses.iter().map(ToString::to_string).collect::<Vec<_>>(),
                "attached": attached(interface.index).map(|(_, mode)| mode.to_string()),
                "proof": attached(interface.index).map(|(ifindex, _)| self.proving.proof(ifindex).name()),
            })
        };
        self.view.interfaces.values().map(interface).collect()
    }
}
