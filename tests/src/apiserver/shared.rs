//! The state behind all connections.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rustls::ServerConfig;

use super::{
    connections::Connections, rbac::User, registry::cluster::Cluster, stats::Counters, trouble::Troubles,
};

#[derive(Debug, Clone)]
pub struct Options {
    /// The number of changes that are remembered of each resource. A watch or a page from an
    /// earlier version gets 410 Gone.
    pub history: usize,
    /// The time between two bookmarks on an otherwise quiet watch.
    pub bookmark_interval: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self { history: 20_000, bookmark_interval: Duration::from_mins(1) }
    }
}

/// The state behind all connections.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) options: Options,
    pub(super) cluster: Cluster,
    pub(super) troubles: Troubles,
    pub(super) counters: Counters,
    pub(super) connections: Connections,
    /// The users by token.
    users: RwLock<BTreeMap<String, Arc<User>>>,
    tls: RwLock<Option<Arc<ServerConfig>>>,
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
            tls: RwLock::default(),
        }
    }

    pub(super) fn add_user(&self, token: &str, user: User) {
        let mut users = self.users.write().unwrap_or_else(PoisonError::into_inner);
        users.insert(token.to_owned(), Arc::new(user));
    }

    /// Forgets a token. Returns its user.
    pub(super) fn remove_token(&self, token: &str) -> Option<Arc<User>> {
        self.users.write().unwrap_or_else(PoisonError::into_inner).remove(token)
    }

    /// Serves TLS with these settings from now on.
    pub(super) fn set_tls(&self, tls: Arc<ServerConfig>) {
        *self.tls.write().unwrap_or_else(PoisonError::into_inner) = Some(tls);
    }

    pub(super) fn tls(&self) -> Option<Arc<ServerConfig>> {
        self.tls.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn user(&self, token: &str) -> Option<Arc<User>> {
        self.users.read().unwrap_or_else(PoisonError::into_inner).get(token).cloned()
    }
}
