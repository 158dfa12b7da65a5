//! Problems with reading from the API server, with their remedies.

use std::{fmt, mem::discriminant};

use thiserror::Error;

use crate::shell::kube::{kinds::resource::Resource, link::error::RequestError};

#[cfg(test)]
mod tests;

/// The file with the definition of `VirtualIP`.
const CRD_MANIFEST: &str = "deploy/kubernetes/base/crd.yaml";
/// The files with the permissions, the second with those for `MetalLB`'s types.
const RBAC_MANIFEST: &str = "deploy/kubernetes/base/rbac.yaml";
const METALLB_RBAC_MANIFEST: &str = "deploy/kubernetes/overlays/metallb/rbac.yaml";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verb {
    List,
    Watch,
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::List => "list",
            Self::Watch => "watch",
        })
    }
}

/// Reason why objects cannot be read now. The reader tries again.
#[derive(Debug, Error)]
pub enum ReadError {
    #[error("the API server does not know {resource}: kubectl apply -f {CRD_MANIFEST}")]
    NoDefinition { resource: Resource },
    #[error("not allowed to {verb} {resource}; the permissions are in {}: {message}", manifest(*resource))]
    Forbidden { verb: Verb, resource: Resource, message: String },
    #[error("the API server does not accept the credentials (to {verb} {resource}): {message}")]
    Unauthorized { verb: Verb, resource: Resource, message: String },
    #[error("failed to {verb} {resource}")]
    Failed {
        verb: Verb,
        resource: Resource,
        #[source]
        source: RequestError,
    },
}

fn manifest(resource: Resource) -> &'static str {
    if matches!(resource, Resource::MetalLb(_)) { METALLB_RBAC_MANIFEST } else { RBAC_MANIFEST }
}

impl ReadError {
    /// Returns true if both have the same cause. An unreachable API server fails each request with
    /// another error.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        discriminant(self) == discriminant(other) && self.code() == other.code()
    }

    /// Returns true if the API server does not know the type, or does not permit the reading.
    pub(crate) fn is_lasting(&self) -> bool {
        self.is_forbidden() || self.code() == Some(404)
    }

    pub(crate) fn is_forbidden(&self) -> bool {
        matches!(self, Self::Forbidden { .. })
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.code() == Some(429)
    }

    fn code(&self) -> Option<u16> {
        match self {
            Self::Failed { source, .. } => source.code(),
            Self::NoDefinition { .. } | Self::Forbidden { .. } | Self::Unauthorized { .. } => None,
        }
    }

    pub(crate) fn of(verb: Verb, resource: Resource, source: RequestError) -> Self {
        let message = || source.status().map(|status| status.message.clone()).unwrap_or_default();
        match source.code() {
            Some(404) if resource == Resource::VirtualIps => Self::NoDefinition { resource },
            Some(403) => Self::Forbidden { verb, resource, message: message() },
            Some(401) => Self::Unauthorized { verb, resource, message: message() },
            Some(_) | None => Self::Failed { verb, resource, source },
        }
    }
}
