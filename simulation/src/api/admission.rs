//! The writes that the API server refuses, and Events.

use std::time::Duration;

use vipward_core::{
    agent::{Request, cluster::Reply},
    ownership::{self, Outcome},
    records::{ClaimRecord, ServiceName},
    reports::outbox::{self, Write},
};

use super::{Api, JITTER, unknown};
use crate::schedule::{Denied, Refused, Sabotage};

impl Api {
    /// Creates an Event, or renews it.
    pub(crate) fn write_event(&mut self, write: &Write, now: Duration) -> outbox::Outcome {
        if self.refusal(Refused::Event).is_some() {
            return outbox::Outcome::Refused;
        }
        self.events.write(write, self.sabotage != Some(Sabotage::NoRenewal), now)
    }

    /// Returns the notes of the stored Events about a Service as it is now.
    pub(crate) fn events_of<'a>(
        &'a self,
        service: &'a ServiceName,
        now: Duration,
    ) -> impl Iterator<Item = &'a str> {
        let uid = self.services.get(service).map(|found| &*found.record().uid);
        self.events.about(service, uid, now)
    }

    /// Returns the kind of a request that writes in the name of an agent.
    pub(crate) fn kind_of_write(request: &Request) -> Option<Denied> {
        match request {
            Request::WriteClaim(_) | Request::DeleteClaim(..) => Some(Denied::Claims),
            Request::WriteLease(_) => Some(Denied::Lease),
            Request::Show(..) | Request::WriteStatus { .. } => Some(Denied::Shown),
            Request::ReadLease(_) | Request::ReadClaim(_) => None,
        }
    }

    /// Returns the reply to a write of an agent that an admission policy refuses.
    pub(crate) fn deny(&mut self, request: &Request) -> Reply {
        if self.sabotage == Some(Sabotage::DenialsCountAsDone)
            && let Request::WriteClaim(write) = request
        {
            let record = ClaimRecord {
                epoch: write.epoch,
                state: write.state.clone(),
                note: write.note.clone(),
                ..ClaimRecord::blank(write.vip, self.version())
            };
            let outcome = Outcome::Done(record);
            return Reply::Owned(ownership::Event::ClaimWritten { vip: write.vip, outcome });
        }
        let why = "denied by an admission policy";
        Reply::Owned(match request {
            Request::WriteLease(write) => {
                let (node, outcome) = (write.node.clone(), Outcome::Refused(why.into()));
                ownership::Event::LeaseWritten { node, outcome }
            }
            Request::WriteClaim(write) => {
                ownership::Event::ClaimWritten { vip: write.vip, outcome: Outcome::Refused(why.into()) }
            }
            Request::DeleteClaim(vip, _) => {
                ownership::Event::ClaimDeleted { vip: *vip, outcome: Outcome::Refused(why.into()) }
            }
            Request::Show(vip, finding) => {
                let outcome = Outcome::Refused(why.into());
                return Reply::Shown { vip: *vip, finding: finding.clone(), outcome, jitter: JITTER };
            }
            Request::ReadLease(_) | Request::ReadClaim(_) | Request::WriteStatus { .. } => {
                return unknown(request);
            }
        })
    }
}
