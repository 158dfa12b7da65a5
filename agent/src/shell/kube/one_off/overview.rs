//! `vipward status --cluster`: reads claims and Leases, and watches the Leases for changes.
//! `vipward pools`: reads pools and claims.

use std::time::Duration;

use kube::{api::ListParams, core::ObjectList};
use serde::Deserialize;
use serde_json::value::RawValue;
use thiserror::Error;
use tokio::time::sleep;
use vipward_core::{
    base::time::Monotonic,
    diagnosis::overview::{Observed, Overview, ShownClaim, overview},
    pools::{self, PoolList},
    records::{ClaimRecord, LeaseRecord, PoolKind},
};

use super::claim_access::NotInstalled;
use crate::shell::{
    kernel::clock,
    kube::{
        kinds::{claims, leases, metallb::MetalLb, resource::Resource},
        link::{
            connect::{Access, ConnectError, Limits, Server},
            error::RequestError,
            http::{BUSY, Connections},
        },
        reading::objects,
    },
};

/// The time between two readings of the Leases.
const LOOK: Duration = Duration::from_millis(500);
const LIMIT: Duration = Duration::from_secs(10);

#[derive(Debug, Error)]
pub enum OverviewError {
    #[error("failed to find the cluster")]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    NotInstalled(#[from] NotInstalled),
    #[error("failed to list {resource}")]
    List {
        resource: Resource,
        #[source]
        source: RequestError,
    },
    #[error("failed to read the list of {resource}")]
    Unreadable {
        resource: Resource,
        #[source]
        source: serde_json::Error,
    },
    #[error("failed to read the clock")]
    Clock(#[from] nix::Error),
}

/// The fields of a claim's object that only an operator reads.
#[derive(Deserialize, Default)]
#[serde(default)]
struct ForPeople {
    spec: Spec,
    status: Status,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Spec {
    since: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Status {
    conflict: Option<String>,
    unanswered: Option<String>,
}

/// Reads the cluster's records, and watches the Leases in `namespace` until all are renewed, at most
/// for `look`.
pub async fn read_overview(
    access: &Access,
    namespace: &str,
    look: Duration,
) -> Result<Overview, OverviewError> {
    let limits = Limits { lease: LIMIT * 2, margin: Duration::ZERO };
    let connections = Connections::open(&Server::find(access, limits).await?)?;
    let claims = read_claims(&list_ours(&connections, Resource::VirtualIps, access).await?)?;
    let mut observed = Observed::default();
    let began = now()?;
    loop {
        let text = list(&connections, Resource::Leases, namespace).await?;
        let seen_at = now()?;
        observed.see(read_leases(&text)?, seen_at);
        let left = look.saturating_sub(seen_at.saturating_since(began));
        if left.is_zero() || observed.is_decided() {
            return Ok(overview(&claims, &observed, seen_at));
        }
        sleep(left.min(LOOK)).await;
    }
}

pub async fn read_pools(access: &Access) -> Result<PoolList, OverviewError> {
    let limits = Limits { lease: LIMIT * 2, margin: Duration::ZERO };
    let connections = Connections::open(&Server::find(access, limits).await?)?;
    let (pools, claims) = (Resource::VipPools, Resource::VirtualIps);
    let pools_text = list_ours(&connections, pools, access).await?;
    let claims = read_claims(&list_ours(&connections, claims, access).await?)?;
    let claims: Vec<_> = claims.into_iter().map(|claim| claim.record).collect();
    // The definition lets no other objects pass.
    let mut records: Vec<_> = items(pools, &pools_text)?
        .into_iter()
        .filter_map(|pool| objects::read_pool(pool.get()).ok())
        .collect();
    // MetalLB's own pools, where Vipward does not replace it, are of no interest.
    let from_metallb = |claim: &ClaimRecord| {
        let pool = claim.reservation.as_ref().and_then(|reservation| reservation.pool.as_deref());
        pool.is_some_and(|pool| PoolKind::of(pool).0 == PoolKind::IpAddressPool)
    };
    if claims.iter().any(from_metallb) {
        let pools = Resource::MetalLb(MetalLb::IpAddressPools);
        match list(&connections, pools, "").await {
            Ok(text) => {
                let theirs = items(pools, &text)?;
                records.extend(
                    theirs.into_iter().filter_map(|pool| objects::read_metallb_pool(pool.get()).ok()),
                );
            }
            // MetalLB may be uninstalled. The addresses still name its pools then.
            Err(OverviewError::List { source, .. }) if source.is_unknown_type() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(pools::list(records, &claims))
}

/// Lists objects of a type of Vipward's.
async fn list_ours(
    connections: &Connections,
    resource: Resource,
    access: &Access,
) -> Result<String, OverviewError> {
    match list(connections, resource, "").await {
        Err(OverviewError::List { source, .. }) if source.is_unknown_type() => {
            Err(NotInstalled::of(resource, access).into())
        }
        text => text,
    }
}

fn now() -> Result<Monotonic, OverviewError> {
    Ok(Monotonic::from_nanos(clock::monotonic_ns()?))
}

async fn list(
    connections: &Connections,
    resource: Resource,
    namespace: &str,
) -> Result<String, OverviewError> {
    let call = resource.collection(namespace).list(&ListParams::default());
    let answer = connections.insist(call, LIMIT, BUSY).await;
    answer.map_err(|source| OverviewError::List { resource, source })
}

fn items(resource: Resource, text: &str) -> Result<Vec<&RawValue>, OverviewError> {
    let list: ObjectList<&RawValue> =
        serde_json::from_str(text).map_err(|source| OverviewError::Unreadable { resource, source })?;
    Ok(list.items)
}

/// Reads the claims. Leaves out objects that are no claims, as an agent does.
fn read_claims(text: &str) -> Result<Vec<ShownClaim>, OverviewError> {
    let claim = |object: &RawValue| {
        let (record, _) = claims::read(object.get()).ok()?;
        let ForPeople { spec, status } = serde_json::from_str(object.get()).unwrap_or_default();
        Some(ShownClaim {
            record,
            since: spec.since,
            conflict: status.conflict,
            unanswered: status.unanswered,
        })
    };
    Ok(items(Resource::VirtualIps, text)?.into_iter().filter_map(claim).collect())
}

/// Reads the agents' Leases: the namespace may have others.
fn read_leases(text: &str) -> Result<Vec<LeaseRecord>, OverviewError> {
    let lease = |object: &RawValue| {
        let read = leases::read(object.get()).ok()?;
        read.is_ours.then_some(read.record)
    };
    Ok(items(Resource::Leases, text)?.into_iter().filter_map(lease).collect())
}
