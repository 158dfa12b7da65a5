//! Reports the network of this host to the core.

use vipward_core::{
    interfaces, ownership,
    services::{self, HostNetwork},
};

use super::{Cluster, EventLoop, RunError, now};
use crate::shell::bind;

impl EventLoop<Cluster> {
    /// Reports interfaces and addresses to the core, if they have changed.
    pub(super) async fn report_interfaces(&mut self) -> Result<(), RunError> {
        let attached: Vec<u32> = self.plane.attached().map(|(ifindex, _)| ifindex).collect();
        let own = interfaces::node_interfaces(&self.view, &attached);
        let ours = bind::observe_binds(&self.view).await?;
        let network = HostNetwork::of(&self.view, &attached, &ours);
        let told = self.source.services.on_event(services::Event::HostNetwork(network));
        let now = now()?;
        let mut commands = self.serve(told, now);
        commands.extend(self.source.engine.on_event(ownership::Event::Interfaces(own), now));
        self.execute(commands).await
    }
}
