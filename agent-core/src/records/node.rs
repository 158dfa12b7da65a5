//! A Node object.

use std::collections::BTreeMap;

use super::NodeName;

#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the API's conditions, which are independent of each other"
)]
pub struct NodeRecord {
    pub name: NodeName,
    pub labels: BTreeMap<String, String>,
    pub cordoned: bool,
    pub ready: bool,
    /// True if its condition `NetworkUnavailable` is True.
    pub network_unavailable: bool,
    /// True if it has the taint `node.kubernetes.io/out-of-service`.
    pub out_of_service: bool,
}
