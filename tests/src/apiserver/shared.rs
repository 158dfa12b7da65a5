//! What the connections of a server have in common.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use super::Options;
use super::cluster::Cluster;
use super::connections::Connections;
use super::rbac::User;
use super::stats::Counters;
use super::trouble::Troubles;

/// The state behind all connections.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) options: Options,
    pub(super) cluster: Cluster,
    pub(super) troubles: Troubles,
    pub(super) counters: Counters,
    pub(super) connections: Connections,
    /// By token.
    users: RwLock<BTreeMap<String, Arc<User>>>,
}

impl Shared {
    pub(super) fn new(options: Options) -> Self {
        let cluster = Cluster::new(options.history);
        Self {
            options,
            cluster,
            troubles: Troubles::default(),
            counters: Counters::default(),
            connections: Connections::default(),
            users: RwLock::default(),
        }
    }

    /// Knows `user` by `token`.
    pub(super) fn add_user(&self, token: &str, user: User) {
        let mut users = self.users.write().unwrap_or_else(PoisonError::into_inner);
        users.insert(token.to_owned(), Arc::new(user));
    }

    /// Whoever has `token`.
    pub(super) fn user(&self, token: &str) -> Option<Arc<User>> {
        self.users.read().unwrap_or_else(PoisonError::into_inner).get(token).cloned()
    }
}
