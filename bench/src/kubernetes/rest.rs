//! CPU time of the agents of a cluster in which nothing happens.

use std::time::Duration;

use anyhow::Result;

use super::Effort;
use super::calm::settle;
use super::scene::{Noticed, Scene};
use vipward_tests::process::cpu_time;

/// Three agents, and an API server in this process.
pub(crate) struct Resting(Scene);

impl Resting {
    /// Starts the agents with one VIP for each Service, and waits until they hold all.
    pub(crate) fn start(services: u32) -> Result<Self> {
        let effort = Effort { services, changes: 0, calm: Duration::ZERO };
        let mut scene = Scene::new(effort, Noticed::ByTheLease)?;
        scene.start_agents()?;
        let (ids, vips) = (scene.cluster.ids(), scene.vips.clone());
        scene.wait_until_held(&ids, &vips, |_| Ok(()))?;
        Ok(Self(scene))
    }

    /// Waits until the agents write nothing but renewals.
    pub(crate) fn settle(&mut self) -> Result<()> {
        settle(&mut self.0)
    }

    /// Returns the CPU time that each agent has used.
    pub(crate) fn cpu_times(&mut self) -> Result<Vec<Duration>> {
        self.0.pids()?.into_iter().map(cpu_time).collect()
    }
}
