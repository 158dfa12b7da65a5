//! Addresses in the status of a Service, written by server-side apply: fields of others stay.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::Service;
use serde_json::json;
use thiserror::Error;
use vipward_core::records::{ServiceName, Version};

use crate::shell::kube::link::{
    call::{Call, Collection},
    error::RequestError,
};

#[cfg(test)]
mod tests;

/// Reason why the status of a Service was not written.
#[derive(Debug, Error)]
pub enum IngressError {
    /// Another field manager has written another address.
    #[error("the status of Service {service} is written by {}; nothing was changed", managers_text(managers))]
    Conflict {
        service: ServiceName,
        /// The other field managers that the API server names.
        managers: Vec<String>,
    },
    /// A refusal of the API server, or a failed request.
    #[error("failed to write the status of Service {service}")]
    Failed {
        service: ServiceName,
        #[source]
        source: RequestError,
    },
}

fn managers_text(managers: &[String]) -> String {
    if managers.is_empty() { "another field manager".to_owned() } else { managers.join(" and ") }
}

impl IngressError {
    pub(crate) fn of(source: RequestError, service: &ServiceName) -> Self {
        let service = service.clone();
        match source.status() {
            Some(status) if status.code == 409 => {
                let causes = status.details.iter().flat_map(|details| &details.causes);
                Self::Conflict {
                    service,
                    managers: causes.filter_map(|cause| manager(&cause.message)).collect(),
                }
            }
            Some(_) | None => Self::Failed { service, source },
        }
    }
}

/// Returns the field manager that a cause names: `conflict with "NAME" using v1 at …`.
fn manager(cause: &str) -> Option<String> {
    let (_, rest) = cause.split_once("conflict with \"")?;
    rest.split_once('"').map(|(name, _)| name.to_owned())
}

/// Returns the request that applies these addresses. Without
/// addresses it takes back the applied ones.
///
/// Addresses of another field manager stay, unless the Service has the version `over`. The request
/// leaves out the mode of an address: the API server's default, VIP, is right, and old servers do not
/// know the field.
pub(crate) fn call(service: &ServiceName, addresses: Option<&[IpAddr]>, over: Option<&Version>) -> Call {
    let ServiceName { namespace, name } = service;
    let mut object = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": &**name, "namespace": &**namespace},
    });
    if let Some(addresses) = addresses {
        let ingress: Vec<_> = addresses.iter().map(|address| json!({"ip": address})).collect();
        object["status"] = json!({"loadBalancer": {"ingress": ingress}});
    }
    if let Some(version) = over {
        object["metadata"]["resourceVersion"] = json!(version.as_str());
    }
    Collection::of::<Service>(Some(namespace)).apply_status(name, &object, over.is_some())
}
