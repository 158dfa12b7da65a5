//! What the controllers write: the Lease by which one leads, reservations of addresses, and statuses of
//! Services.

use std::{net::IpAddr, sync::Arc, time::Duration};

use vipward_core::{
    ownership::Outcome,
    pools::{
        Expected, ReservationWrite,
        election::{Ballot, Step},
    },
    records::{ClaimNote, ClaimRecord, ClaimState, ServiceName},
};

use super::Api;
use crate::schedule::{Refused, Sabotage};

/// The outcome of a reservation. After a conflict, what the object is now.
pub(crate) type Reserved = (Outcome<Option<Box<ClaimRecord>>>, Option<Option<Box<ClaimRecord>>>);

impl Api {
    /// Returns the reason why it refuses a kind of write, if it does.
    pub(super) fn refusal(&self, of: Refused) -> Option<Arc<str>> {
        self.refused[of as usize].any().then(|| "denied by an admission policy".into())
    }

    /// Writes the Lease by which one controller leads. Without a name it is given back.
    pub(crate) fn vote(&mut self, step: &Step, holder: String, duration: Duration) -> Outcome<()> {
        let current = self.election.as_ref().map(|ballot| &ballot.version);
        let expected = match step {
            Step::Create => None,
            Step::Write(version) => Some(version),
            Step::Wait => unreachable!("a candidate that waits writes nothing"),
        };
        if current != expected {
            return Outcome::Conflict;
        }
        self.election = Some(Ballot { version: self.version(), holder, duration });
        Outcome::Done(())
    }

    /// Writes a reservation. `known` is the object as the controller knew it when it sent the request.
    pub(crate) fn reserve(&mut self, write: &ReservationWrite, known: Option<&ClaimRecord>) -> Reserved {
        let current = self.claims.get(&write.vip);
        let is_current = current.map(|record| &record.version) == known.map(|record| &record.version);
        let is_expected = match (&write.expected, known) {
            (Expected::Absent, None) => write.reservation.is_some(),
            (Expected::Present(before), Some(known)) => known.reservation.as_deref() == before.as_ref(),
            (Expected::Absent, Some(_)) | (Expected::Present(_), None) => false,
        };
        if (!is_expected || !is_current) && self.sabotage != Some(Sabotage::Overwrites) {
            return (Outcome::Conflict, Some(current.cloned().map(Box::new)));
        }
        if let Some(why) = self.refusal(Refused::Reservation) {
            return (Outcome::Refused(why), None);
        }
        let names_nodes = current.is_some_and(|record| record.state.holder().is_some());
        let record = match (current.cloned(), write.reservation.clone()) {
            (Some(_), None) if !names_nodes => {
                self.remove_claim(write.vip);
                return (Outcome::Done(None), None);
            }
            (Some(record), Some(reservation)) => {
                ClaimRecord { reservation: Some(reservation.into()), ..record }
            }
            (Some(record), None) => ClaimRecord { reservation: None, release: false, ..record },
            (None, reservation) => new(write.vip, reservation.map(Box::new)),
        };
        (Outcome::Done(Some(Box::new(self.put_claim(record)))), None)
    }

    /// Applies a Service's status.
    pub(crate) fn write_ingress(
        &mut self,
        service: &ServiceName,
        addresses: Option<&[IpAddr]>,
    ) -> Result<(), Arc<str>> {
        let Some(mut found) = self.services.get(service).cloned() else {
            return Err("the Service does not exist".into());
        };
        if let Some(why) = self.refusal(Refused::Status) {
            return Err(why);
        }
        found.write_status(addresses);
        if self.services.get(service) != Some(&found) {
            self.store_service(found);
        }
        Ok(())
    }
}

/// Returns an object that reserves an address.
fn new(vip: IpAddr, reservation: Option<Box<vipward_core::records::Reservation>>) -> ClaimRecord {
    let services = reservation.iter().map(|reservation| reservation.service.clone()).collect();
    ClaimRecord {
        state: ClaimState::Released,
        note: ClaimNote { services, cause: "its address is reserved".to_owned(), trouble: None },
        reservation,
        ..ClaimRecord::blank(vip, "0".into())
    }
}
