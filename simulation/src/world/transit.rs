//! What is on its way between the parts of a run, where the queue has its number.

use vipward_core::{
    agent::{
        Request,
        cluster::{Reply, Seen},
    },
    liveness::Finding,
};

use crate::api::Key;

/// What is on its way.
#[derive(Debug, Default)]
pub(crate) struct Transit {
    /// The number of changes of each kind that the watches have been offered.
    pub(crate) told: [usize; 4],
    pub(crate) flights: Vec<Flight>,
    pub(crate) lists: Vec<Vec<(Key, Vec<Seen>)>>,
    pub(crate) findings: Vec<Option<Finding>>,
}

/// A request on its way.
#[derive(Debug)]
pub(crate) struct Flight {
    pub(crate) node: usize,
    /// The life of the agent that sent it; no other gets the response.
    pub(crate) life: u32,
    pub(crate) request: Request,
    pub(crate) answer: Option<Reply>,
    /// True if the agent no longer waits for it.
    pub(crate) settled: bool,
}
