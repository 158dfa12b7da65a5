//! What stands in the way of reading from the API server, in words that say what to do about it.

use std::mem::discriminant;

use thiserror::Error;

use super::{http::RequestError, resource::Resource};

/// What is done to a type of object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verb {
    /// Read all of them.
    List,
    /// Be told of changes.
    Watch,
}

impl std::fmt::Display for Verb {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::List => "list",
            Self::Watch => "watch",
        })
    }
}

/// Why some objects cannot be read now; it is tried again.
#[derive(Debug, Error)]
pub enum Problem {
    /// The CRD is missing.
    #[error("the API server does not know {resource}: kubectl apply -f {}", super::CRD_MANIFEST)]
    NoDefinition {
        /// Which.
        resource: Resource,
    },
    /// RBAC.
    #[error("not allowed to {verb} {resource}; the permissions are in {}: {message}", super::RBAC_MANIFEST)]
    Forbidden {
        /// What was tried.
        verb: Verb,
        /// On what.
        resource: Resource,
        /// The API server's words.
        message: String,
    },
    /// Our credentials are not accepted.
    #[error("the API server does not accept our credentials (to {verb} {resource}): {message}")]
    Unauthorized {
        /// What was tried.
        verb: Verb,
        /// On what.
        resource: Resource,
        /// The API server's words.
        message: String,
    },
    /// The API server cannot be reached, or cannot answer.
    #[error("failed to {verb} {resource}")]
    Failed {
        /// What was tried.
        verb: Verb,
        /// On what.
        resource: Resource,
        /// Why.
        #[source]
        source: RequestError,
    },
}

impl Problem {
    /// Whether it is the same to people: a server that is away fails one request in this way and the next in that.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        discriminant(self) == discriminant(other) && self.code() == other.code()
    }

    fn code(&self) -> Option<u16> {
        match self {
            Self::Failed { source, .. } => source.code(),
            Self::NoDefinition { .. } | Self::Forbidden { .. } | Self::Unauthorized { .. } => None,
        }
    }

    pub(super) fn of(verb: Verb, resource: Resource, error: RequestError) -> Self {
        match error {
            RequestError::Status { code: 404, .. } if resource == Resource::VirtualIps => {
                Self::NoDefinition { resource }
            }
            RequestError::Status { code: 403, message, .. } => Self::Forbidden { verb, resource, message },
            RequestError::Status { code: 401, message, .. } => Self::Unauthorized { verb, resource, message },
            source @ (RequestError::Status { .. }
            | RequestError::Deadline { .. }
            | RequestError::Connection(_)
            | RequestError::Unreadable(_)
            | RequestError::NotText(_)
            | RequestError::TooLong { .. }
            | RequestError::Connect(_)) => Self::Failed { verb, resource, source },
        }
    }
}
