//! Conditions in the statuses of our types.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One aspect of a state, of the same form as the conditions of built-in types.
#[derive(Serialize, Deserialize, JsonSchema, Clone, PartialEq, Eq, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Which aspect: `Held`, `Trouble` or `Conflict` of a VIP, `Ready` of a pool.
    #[serde(rename = "type")]
    #[schemars(length(min = 1, max = 316))]
    pub kind: String,
    /// `True` while the aspect holds; `Unknown` if that is not known.
    pub status: Truth,
    /// Why, in one word.
    #[schemars(regex(pattern = r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"), length(max = 1024))]
    pub reason: String,
    /// Why, in words.
    #[schemars(length(max = 32768))]
    pub message: String,
    /// When `status` last changed.
    #[schemars(with = "k8s_openapi::apimachinery::pkg::apis::meta::v1::Time")]
    pub last_transition_time: String,
    /// The `metadata.generation` of the spec that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// A condition's status.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Truth {
    True,
    False,
    Unknown,
}
