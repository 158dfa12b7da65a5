//! Reports the network of this host to the core.

use vipward_core::{host::interfaces, ownership, services};

use super::source::Cluster;
use crate::shell::{
    agent::{error::RunError, event_loop::EventLoop, timing::now},
    kernel::host_network::host_network,
};

impl EventLoop<Cluster> {
    /// Reports interfaces and addresses to the core, if they have changed.
    pub(super) async fn report_interfaces(&mut self) -> Result<(), RunError> {
        let attached: Vec<u32> = self.plane.attachments().attached().map(|(ifindex, _)| ifindex).collect();
        let own = interfaces::node_interfaces(&self.view, &attached);
        let network = host_network(self.source.settings.node.clone(), &self.view, &attached);
        let told = self.source.services.on_event(services::Event::HostNetwork(network));
        let now = now()?;
        let mut commands = self.serve(told, now);
        commands.extend(self.source.engine.on_event(ownership::Event::Interfaces(own), now));
        self.execute(commands).await
    }
}
