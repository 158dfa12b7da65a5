//! An admin's wish to release a reserved address: writes it on the claim, and waits until the
//! controller fulfils it.

use std::{net::IpAddr, time::Duration};

use k8s_openapi::api::core::v1::Service;
use kube::{api::ListParams, core::ObjectList};
use serde_json::{json, value::RawValue};
use thiserror::Error;
use tokio::time::{Instant, sleep};
use vipward_core::{
    pools::Family,
    records::{ClaimRecord, Reservation, ServiceName, object_name},
    services::Place,
};

use super::wishes::{LOOK, ReadError, Wishes};
use crate::shell::kube::{
    kinds::{
        claims::{self, ClaimError},
        virtual_ip::RELEASE,
    },
    link::{
        call::{Call, Collection},
        connect::{Access, ConnectError},
        error::RequestError,
    },
    reading::objects,
};

/// Reason why the wish could not be written or followed.
#[derive(Debug, Error)]
pub enum ReleaseError {
    #[error(
        "{vip} is not reserved for any Service; `vipward pools --addresses` lists the addresses that are"
    )]
    NotReserved { vip: IpAddr },
    /// An address that its Service asks for by name.
    #[error(
        "Service {service} asks for {vip} by name ({place}), so it would get it again; have it ask for \
         another address, or for none"
    )]
    AskedByName { vip: IpAddr, service: ServiceName, place: Place },
    /// A refusal of the API server, or a failed request.
    #[error("failed to {what} for {vip}")]
    Request {
        /// The operation.
        what: &'static str,
        vip: IpAddr,
        #[source]
        source: RequestError,
    },
    #[error("VirtualIP {vip} cannot be read")]
    Unreadable {
        vip: IpAddr,
        #[source]
        source: ClaimError,
    },
}

/// Outcome of the wish.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Released {
    /// The Service does not have the address any more.
    Done {
        /// The Service that has it now. None: it is free.
        next: Option<ServiceName>,
        /// The addresses of the same family that the Service which had it has now.
        others: Vec<IpAddr>,
    },
    /// The wish is gone from the claim, and the Service has the address.
    Withdrawn,
    /// The time is over.
    NotYet,
}

pub struct Releaser(Wishes);

impl Releaser {
    /// Finds the API server.
    pub async fn connect(access: &Access) -> Result<Self, ConnectError> {
        Ok(Self(Wishes::connect(access).await?))
    }

    async fn send(&self, what: &'static str, vip: IpAddr, call: Call) -> Result<String, ReleaseError> {
        self.0.send(call).await.map_err(|source| ReleaseError::Request { what, vip, source })
    }

    async fn read(&self, vip: IpAddr) -> Result<Option<ClaimRecord>, ReleaseError> {
        self.0.read(vip).await.map_err(|error| match error {
            ReadError::Request(source) => ReleaseError::Request { what: "read the VirtualIP", vip, source },
            ReadError::Unreadable(source) => ReleaseError::Unreadable { vip, source },
        })
    }

    /// Fails if the Service asks for the address by name. Ignores any other failure: the user may
    /// not be allowed to read Services, and the controller checks too.
    async fn check_service(&self, vip: IpAddr, service: &ServiceName) -> Result<(), ReleaseError> {
        let call = Collection::of::<Service>(Some(&service.namespace)).get(&service.name);
        let Ok(object) = self.0.send(call).await else { return Ok(()) };
        match objects::read_service(&object).ok().and_then(|record| record.asks_for(vip)) {
            Some(place) => Err(ReleaseError::AskedByName { vip, service: service.clone(), place }),
            None => Ok(()),
        }
    }

    /// Writes the wish on the claim. Returns the reservation that is to go.
    pub async fn ask(&self, vip: IpAddr) -> Result<Reservation, ReleaseError> {
        let Some(ClaimRecord { version, reservation: Some(reservation), .. }) = self.read(vip).await? else {
            return Err(ReleaseError::NotReserved { vip });
        };
        if reservation.kept.is_none() {
            self.check_service(vip, &reservation.service).await?;
        }
        // The wish is about this reservation, and no later one.
        let metadata = json!({"resourceVersion": version.as_str(), "annotations": {(RELEASE): "true"}});
        let call = Wishes::claims().merge(&object_name(vip), &json!({"metadata": metadata}));
        self.send("annotate the VirtualIP", vip, call).await?;
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
            let claim = self.read(vip).await?;
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
            sleep(LOOK).await;
        }
    }

    /// Returns the addresses of the family of `vip` that are reserved for a Service.
    async fn addresses_of(&self, service: &ServiceName, vip: IpAddr) -> Result<Vec<IpAddr>, ReleaseError> {
        let call = Wishes::claims().list(&ListParams::default());
        let text = self.send("list the VirtualIPs", vip, call).await?;
        let list: ObjectList<&RawValue> = serde_json::from_str(&text).map_err(|source| {
            let source = RequestError::Unreadable(source);
            ReleaseError::Request { what: "list the VirtualIPs", vip, source }
        })?;
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
