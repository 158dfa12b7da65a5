//! A request of a user for a resource that exists.

use std::sync::Arc;

use hyper::{HeaderMap, header};

use super::{
    rbac::User,
    registry::{resource::Resource, store::Key},
    request::{Action, Parameters},
    shared::Shared,
};

/// A permitted request of a user for a resource that exists.
pub(super) struct Call<'a> {
    pub(super) shared: &'a Arc<Shared>,
    pub(super) user: &'a User,
    pub(super) action: &'a Action,
    pub(super) parameters: &'a Parameters,
    pub(super) headers: &'a HeaderMap,
    pub(super) resource: Arc<Resource>,
}

impl Call<'_> {
    pub(super) fn key(&self) -> Key {
        Key { namespace: self.action.namespace.clone().unwrap_or_default(), name: self.action.name.clone() }
    }

    /// Returns true if the answer has to be a table, as for `kubectl get`.
    pub(super) fn wants_table(&self) -> bool {
        self.header(&header::ACCEPT).contains("as=Table")
    }

    /// Returns the value of a header, or an empty text without one.
    pub(super) fn header(&self, name: &header::HeaderName) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}
