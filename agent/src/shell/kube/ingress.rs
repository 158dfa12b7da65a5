//! The addresses in the status of a Service: server-side apply, so that what others write there is never lost.

use std::net::Ipv4Addr;

use serde_json::json;
use thiserror::Error;

use super::{
    MANAGER, escaped,
    http::{APPLY, Call, RequestError},
};
use crate::core::cluster::ServiceName;

#[cfg(test)]
mod tests;

/// Why the status of a Service was not written.
#[derive(Debug, Error)]
pub enum IngressError {
    /// Somebody else has written another address there.
    #[error("the status of Service {service} is written by {}; nothing was changed", managers_text(managers))]
    Conflict {
        /// Which.
        service: ServiceName,
        /// The other field managers, as far as the API server names them.
        managers: Vec<String>,
    },
    /// The API server cannot, or does not want to.
    #[error("failed to write the status of Service {service}")]
    Failed {
        /// Which.
        service: ServiceName,
        /// Why.
        #[source]
        source: RequestError,
    },
}

fn managers_text(managers: &[String]) -> String {
    if managers.is_empty() { "another field manager".to_owned() } else { managers.join(" and ") }
}

impl IngressError {
    pub(super) fn of(error: RequestError, service: &ServiceName) -> Self {
        match error {
            RequestError::Status { code: 409, causes, .. } => {
                let managers = causes.iter().filter_map(|cause| manager(cause)).collect();
                Self::Conflict { service: service.clone(), managers }
            }
            source @ (RequestError::Status { .. }
            | RequestError::Deadline { .. }
            | RequestError::Connection(_)
            | RequestError::Unreadable(_)
            | RequestError::NotText(_)
            | RequestError::TooLong { .. }
            | RequestError::Connect(_)) => Self::Failed { service: service.clone(), source },
        }
    }
}

/// The field manager that a cause names: `conflict with "NAME" using v1 at …`.
fn manager(cause: &str) -> Option<String> {
    let (_, rest) = cause.split_once("conflict with \"")?;
    rest.split_once('"').map(|(name, _)| name.to_owned())
}

/// Applies these addresses; none: takes back what was applied.
///
/// Not by force: what another field manager has written stays. The mode of an address is left to the API server,
/// whose default is what we do (VIP), and of which old ones know nothing.
pub(super) fn call(service: &ServiceName, addresses: Option<&[Ipv4Addr]>) -> Call {
    let ServiceName { namespace, name } = service;
    let path = format!(
        "/api/v1/namespaces/{}/services/{}/status?fieldManager={MANAGER}&force=false",
        escaped(namespace),
        escaped(name)
    );
    let mut object = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": &**name, "namespace": &**namespace},
    });
    if let Some(addresses) = addresses {
        let ingress: Vec<_> = addresses.iter().map(|address| json!({"ip": address})).collect();
        object["status"] = json!({"loadBalancer": {"ingress": ingress}});
    }
    Call::patch(path, APPLY, &object)
}
