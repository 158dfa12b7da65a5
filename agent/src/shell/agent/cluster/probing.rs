//! Probing in a cluster: the engine asks for probes, and gets the results.

use std::net::IpAddr;

use vipward_common::VipKey;
use vipward_core::{agent::segment::Input, ownership};

use super::source::Cluster;
use crate::shell::agent::{error::RunError, event_loop::EventLoop, timing::now};

impl EventLoop<Cluster> {
    /// Returns the key for probing a VIP: the VIP on this node's interface for it.
    pub(super) fn key_of(&self, vip: IpAddr) -> Option<VipKey> {
        let home = self.source.assigned.get(&vip)?.home.as_ref()?.literal()?;
        let interface = self.view.by_name(home)?;
        Some(VipKey::new(interface.index, vip))
    }

    /// Starts probing a VIP's address, often or rarely while it is in use.
    pub(super) fn begin_probing(&mut self, vip: IpAddr, often: bool) -> Result<(), RunError> {
        let Some(key) = self.key_of(vip) else { return Ok(()) };
        self.on_segment(Input::Wanted { key, often })
    }

    /// Passes the results of probes to the engine.
    pub(super) async fn tell_probed(&mut self) -> Result<(), RunError> {
        while !self.source.probed.is_empty() {
            let now = now()?;
            let mut commands = Vec::new();
            for (vip, probed) in std::mem::take(&mut self.source.probed) {
                commands.extend(self.source.engine.on_event(ownership::Event::Probed { vip, probed }, now));
            }
            self.execute(commands).await?;
        }
        Ok(())
    }
}
