//! Reads and writes the maps, and attaches.

use std::collections::{BTreeMap, BTreeSet};

use tracing::debug;
use vipward_common::{OwnMac, SeenEntry, VipKey, Yield};
use vipward_core::{
    agent::{Entries, Macs, Maps, Network, Prepared, Reading, Readout, Unwritten},
    host::{
        placement::Desired,
        plan::{self, Action, Observed},
        stale::Left,
    },
};

use super::{clock_ns, in_words};
use crate::shell::{
    agent::{error::RunError, event_loop::EventLoop, timing::now},
    kernel::{bind, bpf::BpfError, groups, host_network::name_servers},
    logging::errors::chain,
};

impl EventLoop {
    pub(super) async fn read(
        &self,
        reading: Reading,
    ) -> Result<Readout, Box<dyn std::error::Error + Send + Sync>> {
        Ok(match reading {
            Reading::Network => {
                let view = self.inputs.netlink.observe().await?;
                let attachments = self.plane.attachments().clone();
                Readout::Network(Box::new(Network { view, attachments, name_servers: name_servers() }))
            }
            Reading::Yields => Readout::Yields(self.yields()?),
            Reading::Maps => Readout::Maps(Box::new(self.read_maps().await?)),
            Reading::Entries(keys) => Readout::Entries(self.read_entries(&keys)?),
            Reading::Records(slots) => Readout::Records(self.read_records(&slots)?),
            Reading::Macs => Readout::Macs(self.read_macs()?),
            Reading::Held => Readout::Held(self.plane.maps().held()?),
            Reading::LeaseDeadline => Readout::LeaseDeadline(
                self.plane.maps().lease_deadline_state(clock_ns()?)?,
                self.yields()? > 0,
            ),
            Reading::Seen(keys) => Readout::Seen(self.read_seen(&keys)?),
            Reading::Groups => Readout::Groups(groups::observe().await?),
        })
    }

    fn yields(&self) -> Result<u64, BpfError> {
        Ok(self.plane.maps().yields()?.total)
    }

    async fn read_maps(&self) -> Result<Maps, Box<dyn std::error::Error + Send + Sync>> {
        let maps = self.plane.maps();
        let (yields, entries, macs) = (self.yields()?, maps.entries()?, self.read_macs()?);
        let binds = bind::observe_binds(self.agent.view()).await?;
        let is_pinned = self.plane.is_pinned()?;
        Ok(Maps { yields, entries, macs, binds, is_pinned })
    }

    fn read_macs(&self) -> Result<Macs, BpfError> {
        let maps = self.plane.maps();
        Ok(Macs { own: maps.own_macs()?, peers: maps.peers()? })
    }

    /// Attaches, and reads what else a full round needs.
    pub(super) async fn prepare(&mut self, attach: &[u32], slots: &BTreeSet<u32>, binds: bool) -> Prepared {
        let mut view = self.agent.view().clone();
        let attached = self.attach(&mut view, attach);
        let records = in_words(attached.and_then(|()| self.read_records(slots)));
        let groups = in_words(groups::observe().await);
        let warnings = self.kernel_may_ask(&view, binds);
        Prepared { attachments: self.plane.attachments().clone(), view, records, groups, warnings }
    }

    fn read_records(&self, slots: &BTreeSet<u32>) -> Result<BTreeMap<u32, Yield>, BpfError> {
        let maps = self.plane.maps();
        slots.iter().map(|slot| Ok((*slot, maps.state(*slot)?.yielded))).collect()
    }

    fn read_entries(&self, keys: &[VipKey]) -> Result<Entries, BpfError> {
        let maps = self.plane.maps();
        let yields = self.yields()?;
        let mut entries = BTreeMap::new();
        for key in keys {
            if let Some(entry) = maps.entry(key)? {
                entries.insert(*key, entry);
            }
        }
        Ok(Entries { yields, entries })
    }

    fn read_seen(&self, keys: &[VipKey]) -> Result<BTreeMap<VipKey, SeenEntry>, RunError> {
        let now_ns = clock_ns()?;
        let (maps, any_yielded) = (self.plane.maps(), self.yields()? > 0);
        let mut seen = BTreeMap::new();
        for key in keys {
            if let Some(entry) = maps.entry(key)? {
                let recorded = if any_yielded { maps.state(entry.slot)?.yielded } else { Yield::default() };
                seen.insert(*key, entry.as_seen(recorded, now_ns));
            }
        }
        Ok(seen)
    }

    /// Carries out actions. Returns the result of each.
    pub(super) async fn write(&mut self, actions: &[Action]) -> Vec<Result<(), Unwritten>> {
        let mut results = Vec::with_capacity(actions.len());
        for action in actions {
            let written = self.apply(action).await;
            results.push(written.map_err(|error| self.unwritten(action, &error)));
        }
        results
    }

    /// Returns the failure of a write, with its effect as the map shows it.
    fn unwritten(&self, action: &Action, error: &RunError) -> Unwritten {
        let entry = action.key().and_then(|key| self.plane.maps().entry(&key).ok());
        Unwritten { left: Left::of(entry.as_ref().map(Option::as_ref)), error: chain(error) }
    }

    pub(super) async fn apply(&mut self, action: &Action) -> Result<(), RunError> {
        debug!(%action, "the kernel is changed");
        let (maps, view) = (self.plane.maps_mut(), self.agent.view());
        match action {
            Action::PutOwnMac { ifindex, mac } => {
                let (proof, twin) = (self.agent.proof(*ifindex), self.agent.twin(*ifindex));
                maps.put_own_mac(*ifindex, OwnMac::new(*mac, proof, twin))?;
            }
            Action::RemoveOwnMac { ifindex } => maps.remove_own_mac(*ifindex)?,
            Action::PutPeer { ifindex, mac } => maps.put_peer(*ifindex, *mac, now()?.as_nanos())?,
            Action::RemovePeer { ifindex, mac } => maps.remove_peer(*ifindex, *mac)?,
            Action::PutEntry { key, entry, reset_counters, .. } => {
                if *reset_counters {
                    maps.reset_vip_count(entry.slot)?;
                }
                maps.put_entry(key, entry)?;
            }
            Action::RemoveEntry { key, .. } => maps.remove_entry(key)?,
            Action::AddBind { interface, vip } => bind::add(view, interface, *vip).await?,
            Action::RemoveBind { interface, vip } => bind::remove(view, interface, *vip)?,
        }
        Ok(())
    }

    pub(super) async fn withdrawal(&self) -> Result<Vec<Action>, RunError> {
        let maps = self.plane.maps();
        let Macs { own, peers } = self.read_macs()?;
        let observed = Observed {
            entries: maps.entries()?,
            own_macs: own,
            peers,
            binds: bind::observe_binds(self.agent.view()).await?,
            max_slots: maps.max_vips(),
            ..Observed::default()
        };
        Ok(plan::plan(&Desired::default(), &observed, false))
    }
}
