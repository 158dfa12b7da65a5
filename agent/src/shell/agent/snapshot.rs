//! Answers the endpoints from memory: reading whole maps would delay the heartbeat.

use serde_json::{Value, json};
use vipward_core::{
    agent::Source,
    base::time::Monotonic,
    diagnosis::doctor::{FileReport, WireReport},
    host::net::Interface,
    segment::{
        confirming::Answerer,
        conflict::{Conflict, Offender},
    },
};

use super::{
    cluster::FailureDetector,
    event_loop::{EventLoop, Outer},
    timing::now,
};
use crate::shell::{
    endpoints::{
        Check, Question,
        metrics::{MetalLbSnapshot, Mode as Kind, Snapshot},
    },
    kube::Resource,
};

impl EventLoop {
    pub(super) fn on_question(&mut self, question: Question) {
        // Without a clock there is no answer. The receiver of an answer may be gone.
        let Ok(now) = now() else { return };
        match question {
            Question::Live(answer) => drop(answer.send(vec![self.heartbeat_check(now)])),
            Question::Look(answer) => drop(answer.send(self.snapshot(now))),
            Question::Wire(answer) => drop(answer.send(self.wire(now))),
            Question::Waiting(answer) => drop(answer.send(self.agent.waiting())),
            Question::File(answer) => drop(answer.send(self.file())),
            Question::State(answer) => drop(answer.send(self.state(now))),
        }
    }

    /// Returns the check of the heartbeat. The answer itself proves that the event loop runs.
    fn heartbeat_check(&self, now: Monotonic) -> Check {
        self.agent.heartbeat_stopped_for(now).map_or(Check::ok("heartbeat"), |since| {
            Check::failed("heartbeat", format!("the heartbeat has not moved for {} s", since.as_secs()))
        })
    }

    fn wire(&self, now: Monotonic) -> Option<WireReport> {
        let (engine, Outer::Cluster(outer)) = (self.agent.cluster()?.engine(), &self.outer) else {
            return None;
        };
        Some(WireReport {
            counts: engine.wire_counts(),
            view: engine.wire_view(now),
            thread: outer.detector.as_ref().and_then(FailureDetector::thread),
        })
    }

    fn file(&self) -> Option<FileReport> {
        match &self.outer {
            Outer::File(reading) => Some(reading.report()),
            Outer::Cluster(_) => None,
        }
    }

    /// Returns the state for the metrics that stand in for `MetalLB`'s.
    fn metallb(&self) -> Option<MetalLbSnapshot> {
        let Outer::Cluster(outer) = &self.outer else { return None };
        let statuses = outer.l2_statuses.as_ref()?;
        let is_one = |resource: &Resource| Resource::OF_METALLB.contains(resource);
        Some(MetalLbSnapshot {
            announced: statuses.held().map(|(vip, held)| (vip, held.services.clone())).collect(),
            is_loaded: outer.listed.iter().filter(|it| is_one(it)).count() == Resource::OF_METALLB.len(),
            is_stale: outer.unreadable.iter().any(is_one),
        })
    }

    /// Returns the source's state, for troubleshooting.
    fn source(&self, now: Monotonic) -> Value {
        let ago = |time: Monotonic| now.saturating_since(time).as_secs_f64();
        match (self.agent.source(), &self.outer) {
            (Source::Cluster(cluster), Outer::Cluster(outer)) => json!({
                "listed": outer.listed.iter().map(ToString::to_string).collect::<Vec<_>>(),
                "synced": cluster.is_synced(),
                "proxy": cluster.proxy().map(ToString::to_string),
                "last_heartbeat_seconds_ago": ago(cluster.beaten()),
                "engine": cluster.engine().view(now),
                "wire": outer.detector.as_ref().map(FailureDetector::state),
            }),
            (Source::File(file), Outer::File(reading)) => json!({
                "file": reading.report(),
                "last_heartbeat_seconds_ago": ago(file.beaten()),
            }),
            (Source::File(_), Outer::Cluster(_)) | (Source::Cluster(_), Outer::File(_)) => Value::Null,
        }
    }

    fn mode(&self) -> Kind {
        match self.agent.source() {
            Source::File(_) => Kind::Standalone,
            Source::Cluster(_) => Kind::Kubernetes,
        }
    }

    fn snapshot(&self, now: Monotonic) -> Snapshot {
        Snapshot {
            agent: self.agent.snapshot(now),
            mode: self.mode(),
            wire: self.wire(now),
            file: self.file(),
            metallb: self.metallb(),
            problems: self.log.open_problems().len(),
        }
    }

    fn state(&self, now: Monotonic) -> Value {
        let rounds = self.agent.segment().rounds().map(|(key, round, due)| {
            json!({
                "vip": key.addr,
                "interface": self.name(key.ifindex),
                "round": round.to_string(),
                "due_in_seconds": due.saturating_since(now).as_secs_f64(),
            })
        });
        let conflicts = self.agent.segment().conflicts().map(|conflict| self.conflict_state(conflict, now));
        let probed = self.agent.segment().asked().map(|vip| vip.to_string());
        let stale =
            self.agent.stale().all().map(|(vip, failure)| json!({"vip": vip, "error": failure.error}));
        json!({
            "mode": self.mode().name(),
            "config": self.agent.config(),
            "interfaces": self.interfaces(),
            "started": self.agent.segment().is_started(),
            "settled": self.agent.host().was_complete(),
            "read_back_in_seconds": self.agent.host().next_deadline().saturating_since(now).as_secs_f64(),
            "announcements": rounds.collect::<Vec<_>>(),
            "conflicts": conflicts.collect::<Vec<_>>(),
            "probed": probed.collect::<Vec<_>>(),
            "problems": self.log.open_problems(),
            "stale": stale.collect::<Vec<_>>(),
            "unanswered": self.agent.unanswered(),
            "yielded": self.agent.host().yielded().iter().map(|(vip, mac)| (vip.to_string(), json!(mac.to_string())))
                .collect::<serde_json::Map<_, _>>(),
            "source": self.source(now),
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
                "sort": offender.answerer.map(Answerer::name),
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
        let attachments = self.agent.attachments();
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
                "proof": attached(interface.index).map(|(ifindex, _)| self.agent.proof(ifindex).name()),
            })
        };
        self.agent.view().interfaces.values().map(interface).collect()
    }
}
