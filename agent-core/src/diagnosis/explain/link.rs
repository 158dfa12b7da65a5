//! The links of the chain, in order: the subjects of the steps. docs/COMMANDS.md says what each looks
//! at.

use crate::diagnosis::doctor;

pub const CLUSTER: &str = "cluster";
pub const SERVICE: &str = "service";
pub const REQUEST: &str = "request";
pub const POOL: &str = "pool";
pub const STATUS: &str = "status";
pub const ADDRESS: &str = "address";
pub const CANDIDATES: &str = "candidates";
pub const CLAIM: &str = "claim";
pub const SESSION: &str = "session";
pub const CONFIG: &str = "config";
pub const PLACEMENT: &str = "placement";
pub const ENTRY: &str = "entry";
pub const ATTACHED: &str = "attached";
pub const FENCE: &str = doctor::FENCE;
pub const BOUND: &str = "bound";
pub const SEGMENT: &str = "segment";
