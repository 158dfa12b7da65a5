//! News from the tasks that read and write objects, as inputs of the agent.

use tokio::sync::mpsc;
use tracing::{info, warn};
use vipward_core::{
    agent::cluster::{Input, Reply as Notified, Seen as Read},
    base::time::Monotonic,
    liveness::Finding,
    ownership::{Event, StopReason},
    records::KeyId,
};

use super::{
    Cluster, Written,
    failover::{Running, found},
    found_out, reason_name,
};
use crate::shell::{
    agent::error::RunError,
    kernel::{
        bpf::DataPlane,
        wire::{Fault, Keys},
    },
    kube::{Reply, Resource, SECRET, Seen},
    pages::Question,
};

/// Number of readings or replies that are passed on together.
const BATCH: usize = 256;
/// Number of findings that are passed on together.
const FINDINGS: usize = 64;

/// News of the cluster.
pub(in crate::shell::agent) enum News {
    /// A finding of the thread that pings; none: it has ended.
    Found(Option<Finding>),
    /// The outcome of a request.
    Replied(Reply),
    /// The reason why the agent is to end.
    Why(StopReason),
    /// The outcome of writing an Event.
    Written(Written),
    /// A reading.
    Seen(Seen),
}

impl Cluster {
    /// Returns the next news, or a question of the pages, which comes before readings. Safe to cancel.
    pub(in crate::shell::agent) async fn next(
        &mut self,
        questions: &mut mpsc::Receiver<Question>,
    ) -> Result<News, Question> {
        Ok(tokio::select! {
            biased;
            finding = found(&mut self.wire) => News::Found(finding),
            Some(reply) = self.replies.recv() => News::Replied(reply),
            Some(question) = questions.recv() => return Err(question),
            why = found_out(&mut self.why) => News::Why(why),
            Some(outcome) = self.bulletin.event_written() => News::Written(outcome),
            Some(seen) = self.seen.recv() => News::Seen(seen),
        })
    }

    /// Returns the input that follows from news, and from what waits behind it.
    pub(in crate::shell::agent) fn on_news(
        &mut self,
        news: News,
        plane: &mut DataPlane,
        now: Monotonic,
    ) -> Result<Option<Input>, RunError> {
        Ok(match news {
            News::Found(finding) => Some(self.on_found(finding)),
            News::Replied(first) => Some(self.on_replies(first, now)),
            News::Why(reason) => {
                (self.why, self.is_ending) = (None, true);
                info!(reason = reason_name(reason), "the agent ends");
                Some(Input::Owned(vec![Event::Stop(reason)]))
            }
            News::Written(outcome) => {
                self.bulletin.on_event_written(outcome, now);
                None
            }
            News::Seen(first) => Some(self.on_seen(first, plane)?),
        })
    }

    fn on_found(&mut self, first: Option<Finding>) -> Input {
        let Some(first) = first else {
            // The thread has logged why.
            if let Some(wire) = &mut self.wire {
                wire.running = None;
            }
            return Input::Owned(vec![Event::WireSelf(None)]);
        };
        let mut findings = vec![Event::Witnessed(first)];
        while findings.len() < FINDINGS
            && let Some(finding) = self
                .wire
                .as_mut()
                .and_then(|wire| wire.running.as_mut())
                .and_then(|running| running.findings.try_recv().ok())
        {
            findings.push(Event::Witnessed(finding));
        }
        Input::Owned(findings)
    }

    fn on_replies(&mut self, first: Reply, now: Monotonic) -> Input {
        let (mut replies, mut next) = (Vec::new(), Some(first));
        while let Some(reply) = next {
            let jitter = fastrand::f64();
            match reply {
                Reply::Ownership(event) => replies.push(Notified::Owned(event)),
                Reply::Shown { vip, finding, outcome } => {
                    replies.push(Notified::Shown { vip, finding, outcome, jitter });
                }
                Reply::Ingress { service, result } => {
                    self.bulletin.ingress(&service, &result, now);
                    replies.push(Notified::Status { service, done: result.is_ok(), jitter });
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
                if let Some(wire) = &mut self.wire {
                    wire.note_listed();
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
            Seen::Lease(_)
            | Seen::LeaseGone(_)
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
            | Seen::UnservedGone { .. } => {}
        }
        Ok(seen.into_read())
    }

    /// Gives the program and the thread the keys of the Secret. The engine gets their numbers.
    fn take_keys(&mut self, keys: &Keys, faults: &[Fault], plane: &mut DataPlane) -> Result<(), RunError> {
        let Some(wire) = &mut self.wire else { return Ok(()) };
        if wire.faults != faults {
            for fault in faults {
                warn!(secret = SECRET, problem = %fault, "the Secret has an entry that is no key");
            }
            wire.faults = faults.to_vec();
        }
        if wire.keys == *keys {
            return Ok(());
        }
        let ids: Vec<u8> = keys.ids().into_iter().map(|KeyId(id)| id).collect();
        info!(keys = ?ids, "the keys of the failure detector are read");
        wire.keys = keys.clone();
        wire.lacks_key = false;
        if let Some(Running { pinger, .. }) = &wire.running {
            pinger.set_keys(keys.clone());
        }
        self.write_keys(plane)
    }
}
