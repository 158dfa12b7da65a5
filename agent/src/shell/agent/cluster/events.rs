//! Results of the tasks that read and write objects, as inputs of the agent.

use tokio::sync::mpsc;
use tracing::{info, warn};
use vipward_core::{
    agent::cluster::{Input, Reply as AgentReply, Seen as Read},
    base::time::Monotonic,
    delivery::{Answer, Target},
    liveness::Finding,
    ownership::{Event, StopReason},
    records::KeyId,
};

use super::{
    Cluster, Written, found_out,
    liveness::{Running, found},
    reason_name,
};
use crate::shell::{
    agent::error::RunError,
    endpoints::Question,
    kernel::{
        bpf::DataPlane,
        liveness::{Fault, Keys},
    },
    kube::{Reply, Resource, SECRET, Seen},
};

/// Number of readings or replies that are passed on together.
const BATCH: usize = 256;
/// Number of findings that are passed on together.
const FINDINGS: usize = 64;

/// What a task of the cluster's agent has sent.
pub(in crate::shell::agent) enum ClusterEvent {
    /// A finding of the thread that pings; none: it has ended.
    Found(Option<Finding>),
    Replied(Reply),
    /// The reason why the agent is to end.
    Why(StopReason),
    Written(Written),
    /// This node's service proxy has answered.
    Proxy(Target, Answer),
    Seen(Seen),
}

impl Cluster {
    /// Returns the next event, or a question of the endpoints, which comes before readings. Safe to
    /// cancel.
    pub(in crate::shell::agent) async fn next(
        &mut self,
        questions: &mut mpsc::Receiver<Question>,
    ) -> Result<ClusterEvent, Question> {
        Ok(tokio::select! {
            biased;
            finding = found(&mut self.detector) => ClusterEvent::Found(finding),
            Some(reply) = self.replies.recv() => ClusterEvent::Replied(reply),
            Some(question) = questions.recv() => return Err(question),
            why = found_out(&mut self.why) => ClusterEvent::Why(why),
            Some(outcome) = self.reporter.event_written() => ClusterEvent::Written(outcome),
            (target, answer) = self.proxy.answered() => ClusterEvent::Proxy(target, answer),
            Some(seen) = self.seen.recv() => ClusterEvent::Seen(seen),
        })
    }

    /// Returns the input that follows from an event, and from those that wait behind it.
    pub(in crate::shell::agent) fn on_event(
        &mut self,
        event: ClusterEvent,
        plane: &mut DataPlane,
        now: Monotonic,
    ) -> Result<Option<Input>, RunError> {
        Ok(match event {
            ClusterEvent::Found(finding) => Some(self.on_found(finding)),
            ClusterEvent::Replied(first) => Some(self.on_replies(first, now)),
            ClusterEvent::Why(reason) => {
                (self.why, self.is_ending) = (None, true);
                info!(reason = reason_name(reason), "the agent ends");
                Some(Input::Owned(vec![Event::Stop(reason)]))
            }
            ClusterEvent::Written(outcome) => {
                self.reporter.on_event_written(outcome, now);
                None
            }
            ClusterEvent::Proxy(target, answer) => {
                let others = std::iter::from_fn(|| self.proxy.try_answered());
                Some(Input::Proxy([(target, answer)].into_iter().chain(others).collect()))
            }
            ClusterEvent::Seen(first) => Some(self.on_seen(first, plane)?),
        })
    }

    fn on_found(&mut self, first: Option<Finding>) -> Input {
        let Some(first) = first else {
            // The thread has logged why.
            if let Some(detector) = &mut self.detector {
                detector.running = None;
            }
            return Input::Owned(vec![Event::WireSelf(None)]);
        };
        let mut findings = vec![Event::Detected(first)];
        while findings.len() < FINDINGS
            && let Some(finding) = self
                .detector
                .as_mut()
                .and_then(|detector| detector.running.as_mut())
                .and_then(|running| running.findings.try_recv().ok())
        {
            findings.push(Event::Detected(finding));
        }
        Input::Owned(findings)
    }

    fn on_replies(&mut self, first: Reply, now: Monotonic) -> Input {
        let (mut replies, mut next) = (Vec::new(), Some(first));
        while let Some(reply) = next {
            let jitter = fastrand::f64();
            match reply {
                Reply::Ownership(event) => replies.push(AgentReply::Owned(event)),
                Reply::Shown { vip, finding, outcome } => {
                    replies.push(AgentReply::Shown { vip, finding, outcome, jitter });
                }
                Reply::Ingress { service, outcome, result } => {
                    self.reporter.ingress(&service, &result, now);
                    replies.push(AgentReply::Status { service, outcome, jitter });
                }
                // Only the controller reserves addresses.
                Reply::Reserved { .. } => {}
            }
            next = if replies.len() < BATCH { self.replies.try_recv().ok() } else { None };
        }
        Input::Replies { replies, new_claims: self.requests.new_claims() }
    }

    fn on_seen(&mut self, first: Seen, plane: &mut DataPlane) -> Result<Input, RunError> {
        let (mut read, mut next) = (Vec::new(), Some(first));
        let mut taken = 0;
        while let Some(seen) = next {
            read.extend(self.read(seen, plane)?);
            taken += 1;
            next = if taken < BATCH { self.seen.try_recv().ok() } else { None };
        }
        Ok(Input::Seen(read))
    }

    fn read(&mut self, mut seen: Seen, plane: &mut DataPlane) -> Result<Option<Read>, RunError> {
        seen.log();
        match &mut seen {
            Seen::Synced(Resource::WireSecret) => {
                if let Some(detector) = &mut self.detector {
                    detector.on_listed();
                }
                return Ok(None);
            }
            Seen::Synced(resource) => {
                self.listed.insert(*resource);
                let slices = *resource == Resource::EndpointSlices;
                return Ok(Some(Read::Listed { slices, all: self.listed.len() == self.resources.len() }));
            }
            Seen::Unreadable { resource, .. } => _ = self.unreadable.insert(*resource),
            Seen::Readable { resource } => _ = self.unreadable.remove(resource),
            Seen::WireKeys { keys, faults } => {
                let (keys, faults) = (keys.clone(), std::mem::take(faults));
                self.take_keys(&keys, &faults, plane)?;
            }
            Seen::Node { record, addresses, .. } if record.name == self.kube.node => {
                self.proxy.addresses.clone_from(addresses);
            }
            Seen::Lease(_)
            | Seen::LeaseGone(_)
            | Seen::Leader(_)
            | Seen::Claim(_)
            | Seen::ClaimGone(_)
            | Seen::Node { .. }
            | Seen::NodeGone(_)
            | Seen::Namespace { .. }
            | Seen::NamespaceGone(_)
            | Seen::ServiceCidr { .. }
            | Seen::ApiServers { .. }
            | Seen::Service(_)
            | Seen::ServiceGone(_)
            | Seen::Slice(_)
            | Seen::SliceGone { .. }
            | Seen::Pool(_)
            | Seen::PoolGone(_)
            | Seen::L2Advertisement(..)
            | Seen::Advertised(_)
            | Seen::L2AdvertisementGone(_)
            | Seen::Unserved(_)
            | Seen::Fault(..)
            | Seen::UnservedGone { .. } => {}
        }
        Ok(seen.into_read())
    }

    /// Gives the program and the thread the keys of the Secret. The engine gets their numbers.
    fn take_keys(&mut self, keys: &Keys, faults: &[Fault], plane: &mut DataPlane) -> Result<(), RunError> {
        let Some(detector) = &mut self.detector else { return Ok(()) };
        if detector.faults != faults {
            for fault in faults {
                warn!(secret = SECRET, problem = %fault, "the Secret has an entry that is no key");
            }
            detector.faults = faults.to_vec();
        }
        if detector.keys == *keys {
            return Ok(());
        }
        let ids: Vec<String> = keys.ids().into_iter().map(|KeyId(id)| id.to_string()).collect();
        info!(keys = ids.join(", "), "the keys of the failure detector are read");
        detector.keys = keys.clone();
        detector.lacks_key = false;
        if let Some(Running { pinger, .. }) = &detector.running {
            pinger.set_keys(keys.clone());
        }
        self.write_keys(plane)
    }
}
