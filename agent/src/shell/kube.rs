//! Kubernetes: what is read from the API server, and what is written there.

mod virtual_ip;

pub use self::virtual_ip::*;
