//! Requests about claims: writing, deleting and reading them, and showing findings on them.
//!
//! A write rests on the last known version of the claim, from a read or a write. Versions are
//! compared for equality only: a restored store has lower versions that are newer. So only the API
//! server knows which version is current.

use std::net::IpAddr;

use kube::api::{DeleteParams, Preconditions};
use tokio::time::Instant;
use vipward_core::{
    ownership::{ClaimWrite, Event, Expected as ExpectedClaim, Outcome},
    pools::{Expected, ReservationWrite},
    records::{ClaimRecord, Version, object_name},
    reports::claim_findings::Finding,
};

use super::{
    reply::{Found, Reply},
    worker::{Worker, outcome},
};
use crate::shell::kube::{
    kinds::{claims, resource::Resource, text},
    link::{
        call::{Call, Collection},
        error::RequestError,
    },
};

#[cfg(test)]
mod tests;

/// Number of attempts to show a finding on a claim that changes meanwhile.
const SHOW_ATTEMPTS: usize = 3;

pub(super) enum ClaimJob {
    Write(ClaimWrite),
    Delete { vip: IpAddr, expected: Version },
    Read(IpAddr),
}

impl ClaimJob {
    /// Returns true if the job can wait without delaying the answers for a VIP.
    pub(super) fn can_wait(&self) -> bool {
        match self {
            Self::Write(write) => write.can_wait,
            Self::Delete { .. } => true,
            Self::Read(_) => false,
        }
    }
}

impl Worker {
    pub(super) async fn claim(&self, job: ClaimJob) -> Event {
        let deadline = self.deadline();
        match job {
            ClaimJob::Write(write) => {
                let outcome = Failure::outcome(self.write_claim(&write, deadline).await);
                Event::ClaimWritten { vip: write.vip, outcome }
            }
            ClaimJob::Delete { vip, expected } => {
                let outcome = Failure::outcome(self.delete_claim(vip, &expected, deadline).await);
                Event::ClaimDeleted { vip, outcome }
            }
            ClaimJob::Read(vip) => {
                let read = self.read_claim(vip, deadline).await;
                Event::ClaimRead { vip, outcome: Failure::outcome(read.map(|(record, _, _)| record)) }
            }
        }
    }

    async fn write_claim(&self, write: &ClaimWrite, deadline: Instant) -> Result<ClaimRecord, Failure> {
        let (call, creating) = match &write.expected {
            ExpectedClaim::Absent => {
                self.check_absent(write.vip, deadline).await?;
                (self.claims().create(&claims::creation(write, text::wall_clock())), true)
            }
            ExpectedClaim::At(version) => {
                let known = self.known_at(write.vip, version, deadline).await?;
                let patch = claims::patch(write, &known, text::wall_clock());
                (self.claims().merge(&object_name(write.vip), &patch), false)
            }
        };
        let answer = self.send_for(write.vip, call, deadline).await;
        let answer = answer.map_err(|error| Failure::Request { error, creating })?;
        Ok(self.learn(&answer)?.0)
    }

    /// Fails if the claim exists. Sends a request only if a claim was seen, since it may be gone.
    /// Otherwise the creation finds out.
    async fn check_absent(&self, vip: IpAddr, deadline: Instant) -> Result<(), Failure> {
        if self.kube.claims.latest(vip).is_none() {
            return Ok(());
        }
        match self.read_claim(vip, deadline).await {
            Ok(_) => Err(Failure::Conflict),
            Err(failure) if failure.is_status(404) => Ok(()),
            Err(failure) => Err(failure),
        }
    }

    /// Deletes the claim. Releases it before, if it names other nodes only.
    async fn delete_claim(&self, vip: IpAddr, expected: &Version, deadline: Instant) -> Result<(), Failure> {
        let mut known = self.known_at(vip, expected, deadline).await?;
        let name = object_name(vip);
        let letting_go = claims::letting_go(&known, &self.kube.node);
        let is_patched = letting_go.is_some();
        if let Some(patch) = letting_go {
            let patch = self.claims().merge(&name, &patch);
            let answer = self.send_for(vip, patch, deadline).await.map_err(Failure::of)?;
            (_, known) = self.learn(&answer)?;
        }
        let is_kept = claims::is_kept_by_others(&known);
        let preconditions = Preconditions {
            uid: known.uid.as_deref().map(ToOwned::to_owned),
            resource_version: Some(known.version.to_string()),
        };
        let params = DeleteParams::default().preconditions(preconditions);
        match self.send_for(vip, self.claims().delete(&name, &params), deadline).await {
            Ok(_) => {}
            // The claim was being deleted already, and only a finalizer of an older build was in the way.
            Err(error) if error.is_status(404) && is_patched => {}
            Err(error) => return Err(Failure::of(error)),
        }
        if !is_kept {
            self.kube.claims.forget(vip);
        }
        Ok(())
    }

    /// Returns the object's state for a write at that version. Reads the
    /// object if that version is not the last known one.
    async fn known_at(
        &self,
        vip: IpAddr,
        version: &Version,
        deadline: Instant,
    ) -> Result<claims::Known, Failure> {
        if let Some(known) = self.kube.claims.latest(vip).filter(|known| known.version == *version) {
            return Ok(known);
        }
        let (_, known, _) = self.read_claim(vip, deadline).await?;
        if known.version == *version { Ok(known) } else { Err(Failure::Conflict) }
    }

    /// Writes the reservation of an address. After a conflict, reads its object.
    pub(super) async fn reserve(&self, write: Box<ReservationWrite>) -> Reply {
        let deadline = self.deadline();
        let result = self.try_to_reserve(&write, deadline).await;
        let found = if result.as_ref().is_err_and(|failure| failure.is_conflict() || failure.is_status(404)) {
            match self.read_claim(write.vip, deadline).await {
                Ok((record, _, _)) => Some(Found(Some(Box::new(record)))),
                Err(failure) if failure.is_status(404) => Some(Found(None)),
                Err(_) => None,
            }
        } else {
            None
        };
        Reply::Reserved { write, outcome: Failure::outcome(result), found }
    }

    async fn try_to_reserve(
        &self,
        write: &ReservationWrite,
        deadline: Instant,
    ) -> Result<Option<Box<ClaimRecord>>, Failure> {
        let ReservationWrite { vip, expected, reservation } = write;
        let known = self.kube.claims.latest(*vip);
        let call = match (&known, expected, reservation) {
            (None, Expected::Absent, Some(reservation)) => {
                self.claims().create(&claims::reserving(*vip, reservation, text::wall_clock()))
            }
            (Some(known), Expected::Present(before), _)
                if known.reservation.as_deref() == before.as_ref() =>
            {
                // The agents delete an object that names a node.
                if reservation.is_none() && !known.names_nodes() {
                    self.delete_claim(*vip, &known.version, deadline).await?;
                    return Ok(None);
                }
                self.claims().merge(&object_name(*vip), &claims::reservation(reservation.as_ref(), known))
            }
            (Some(_), ..) | (None, Expected::Present(_), _) | (None, Expected::Absent, None) => {
                return Err(Failure::Conflict);
            }
        };
        let answer = self.send_for(*vip, call, deadline).await;
        let answer = answer.map_err(|error| Failure::Request { error, creating: known.is_none() })?;
        Ok(Some(Box::new(self.learn(&answer)?.0)))
    }

    async fn read_claim(
        &self,
        vip: IpAddr,
        deadline: Instant,
    ) -> Result<(ClaimRecord, claims::Known, String), Failure> {
        let get = self.claims().get(&object_name(vip));
        let answer = self.send_for(vip, get, deadline).await.map_err(Failure::of)?;
        let (record, known) = self.learn(&answer)?;
        Ok((record, known, answer.object))
    }

    /// Sends a request about a claim. Forgets the claim if it does not exist.
    async fn send_for(&self, vip: IpAddr, call: Call, deadline: Instant) -> Result<Answer, RequestError> {
        let before = self.kube.claim_version(vip);
        let answer = self.send(call, deadline).await;
        if answer.as_ref().is_err_and(|error| error.is_status(404)) {
            self.kube.claims.forget(vip);
        }
        Ok(Answer { object: answer?, before })
    }

    fn learn(&self, Answer { object, before }: &Answer) -> Result<(ClaimRecord, claims::Known), Failure> {
        let (record, known) = claims::read(object).map_err(|_| Failure::Unreadable)?;
        self.kube.claims.learn_since(before.as_ref(), record.vip, known.clone());
        Ok((record, known))
    }

    fn claims(&self) -> Collection {
        self.kube.collection(Resource::VirtualIps)
    }

    pub(super) async fn show(&self, (vip, finding): (IpAddr, Finding)) -> Reply {
        let deadline = self.deadline();
        let mut shown = Err(Failure::Conflict);
        for _ in 0..SHOW_ATTEMPTS {
            shown = self.try_to_show(vip, &finding, deadline).await;
            if !shown.as_ref().is_err_and(Failure::is_conflict) {
                break;
            }
        }
        Reply::Shown { vip, finding, outcome: Failure::outcome(shown) }
    }

    async fn try_to_show(
        &self,
        vip: IpAddr,
        finding: &Finding,
        deadline: Instant,
    ) -> Result<ClaimRecord, Failure> {
        let (record, known, object) = self.read_claim(vip, deadline).await?;
        let patch = claims::showing(&record, &known, &object, finding, text::wall_clock())
            .map_err(|_| Failure::Unreadable)?;
        // The claim has another holder now, which shows its own findings.
        let Some(patch) = patch else { return Ok(record) };
        let call = self.claims().merge(&object_name(vip), &patch);
        let answer = self.send_for(vip, call, deadline).await.map_err(Failure::of)?;
        Ok(self.learn(&answer)?.0)
    }
}

/// A claim's object, as a request returned it.
struct Answer {
    object: String,
    /// The last known version when the request was sent.
    before: Option<Version>,
}

/// Reason why a request about a claim has no result.
enum Failure {
    Conflict,
    /// A request that was carried out, with an answer that cannot be read.
    Unreadable,
    Request {
        error: RequestError,
        creating: bool,
    },
}

impl Failure {
    fn of(error: RequestError) -> Self {
        Self::Request { error, creating: false }
    }

    fn is_conflict(&self) -> bool {
        matches!(self, Self::Conflict) || self.is_status(409)
    }

    fn is_status(&self, wanted: u16) -> bool {
        match self {
            Self::Conflict | Self::Unreadable => false,
            Self::Request { error, .. } => error.is_status(wanted),
        }
    }

    fn outcome<T>(result: Result<T, Self>) -> Outcome<T> {
        match result {
            Ok(done) => Outcome::Done(done),
            Err(Self::Conflict) => Outcome::Conflict,
            Err(Self::Unreadable) => Outcome::Unknown,
            Err(Self::Request { error, creating }) => outcome(&error, Resource::VirtualIps, creating),
        }
    }
}
