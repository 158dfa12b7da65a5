//! An operator's request to release a reserved address: writes it on the claim, and waits until the
//! controller fulfils it.

use std::{net::IpAddr, time::Duration};

use k8s_openapi::api::core::v1::Service;
use kube::{api::ListParams, core::ObjectList};
use serde_json::{json, value::RawValue};
use thiserror::Error;
use tokio::time::{Instant, sleep};
use vipward_core::{
    pools::Family,
    records::{ClaimRecord, Reservation, ServiceName},
    services::Place,
};

use super::claim_access::{ClaimAccess, ClaimAccessError, READ_INTERVAL, failed};
use crate::shell::kube::{
    kinds::{claims, virtual_ip::RELEASE},
    link::{
        call::Collection,
        connect::{Access, ConnectError},
        error::RequestError,
    },
    reading::objects,
};

#[derive(Debug, Error)]
pub enum ReleaseError {
    #[error(
        "{vip} is not reserved for any Service; `vipward pools --addresses` lists the addresses that are"
    )]
    NotReserved { vip: IpAddr },
    #[error(
        "Service {service} requests {vip} by name ({place}), so it would get it again; have it request \
         another address, or none"
    )]
    AskedByName { vip: IpAddr, service: ServiceName, place: Place },
    #[error(transparent)]
    Claim(#[from] ClaimAccessError),
}

const LIST: &str = "list the VirtualIPs";

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Released {
    Done {
        /// The Service that has it now. None: it is free.
        next: Option<ServiceName>,
        /// The Service's present addresses of the same family.
        others: Vec<IpAddr>,
    },
    Withdrawn,
    NotYet,
}

pub struct Releaser(ClaimAccess);

impl Releaser {
    pub async fn connect(access: &Access) -> Result<Self, ConnectError> {
        Ok(Self(ClaimAccess::connect(access).await?))
    }

    /// Fails if the Service requests this address. Ignores any other failure: the user may not be
    /// allowed to read Services, and the controller checks too.
    async fn check_service(&self, vip: IpAddr, service: &ServiceName) -> Result<(), ReleaseError> {
        let call = Collection::of::<Service>(Some(&service.namespace)).get(&service.name);
        let Ok(object) = self.0.send(call).await else { return Ok(()) };
        match objects::read_service(&object).ok().and_then(|record| record.asks_for(vip)) {
            Some(place) => Err(ReleaseError::AskedByName { vip, service: service.clone(), place }),
            None => Ok(()),
        }
    }

    /// Writes the request on the claim. Returns the reservation that is to go.
    pub async fn request(&self, vip: IpAddr) -> Result<Reservation, ReleaseError> {
        let Some(ClaimRecord { version, reservation: Some(reservation), .. }) = self.0.read(vip).await?
        else {
            return Err(ReleaseError::NotReserved { vip });
        };
        if reservation.kept.is_none() {
            self.check_service(vip, &reservation.service).await?;
        }
        // The request is about this reservation, and no later one.
        let metadata = json!({"resourceVersion": version.as_str(), "annotations": {(RELEASE): "true"}});
        self.0.annotate(vip, metadata).await?;
        Ok(*reservation)
    }

    /// Waits until the reservation is gone, at most `limit`.
    pub async fn wait(
        &self,
        vip: IpAddr,
        reservation: &Reservation,
        limit: Duration,
    ) -> Result<Released, ReleaseError> {
        let deadline = Instant::now() + limit;
        loop {
            let claim = self.0.read(vip).await?;
            let is_wished = claim.as_ref().is_some_and(|claim| claim.release);
            let next = claim.and_then(|claim| claim.reservation).map(|next| next.service);
            if next.as_ref() != Some(&reservation.service) {
                let others = self.addresses_of(&reservation.service, vip).await?;
                return Ok(Released::Done { next, others });
            }
            if !is_wished {
                return Ok(Released::Withdrawn);
            }
            if Instant::now() >= deadline {
                return Ok(Released::NotYet);
            }
            sleep(READ_INTERVAL).await;
        }
    }

    /// Returns the addresses of the family of `vip` that are reserved for a Service.
    async fn addresses_of(&self, service: &ServiceName, vip: IpAddr) -> Result<Vec<IpAddr>, ReleaseError> {
        let call = ClaimAccess::claims().list(&ListParams::default());
        let text = self.0.send(call).await.map_err(failed(LIST, vip))?;
        let list: ObjectList<&RawValue> = serde_json::from_str(&text)
            .map_err(|source| failed(LIST, vip)(RequestError::Unreadable(source)))?;
        let claims = list.items.into_iter().filter_map(|object| claims::read(object.get()).ok());
        let mut addresses: Vec<_> = claims
            .filter(|(claim, _)| Family::of(claim.vip) == Family::of(vip))
            .filter(|(claim, _)| claim.reservation.as_ref().is_some_and(|it| it.service == *service))
            .map(|(claim, _)| claim.vip)
            .collect();
        addresses.sort_unstable();
        Ok(addresses)
    }
}
