//! Reads and writes the maps, and attaches.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use tracing::debug;
use vipward_common::{FenceState, SeenEntry, VipKey, Yield};
use vipward_core::{
    agent::{Entries, Macs, Maps, Prepared, Unwritten},
    host::{
        placement::Desired,
        plan::{self, Action, Observed},
        stale::Left,
    },
};

use super::in_words;
use crate::shell::{
    agent::{
        error::{RunError, system},
        event_loop::EventLoop,
        timing::now,
    },
    kernel::{bind, bpf::BpfError, clock, groups},
    logging::causes::chain,
};

impl EventLoop {
    pub(super) fn yields(&self) -> Result<u64, BpfError> {
        Ok(self.plane.maps().yields()?.total)
    }

    /// Reads the maps for a full round.
    pub(super) async fn read_maps(&self) -> Result<Maps, String> {
        let maps = self.plane.maps();
        let yields = in_words(self.yields())?;
        let entries = in_words(maps.entries())?;
        let macs = in_words(self.read_macs())?;
        let binds: BTreeSet<(String, IpAddr)> = in_words(bind::observe_binds(self.agent.view()).await)?;
        let is_pinned = in_words(self.plane.is_pinned())?;
        Ok(Maps { yields, entries, macs, binds, is_pinned })
    }

    pub(super) fn read_macs(&self) -> Result<Macs, BpfError> {
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

    pub(super) fn read_records(&self, slots: &BTreeSet<u32>) -> Result<BTreeMap<u32, Yield>, BpfError> {
        let maps = self.plane.maps();
        slots.iter().map(|slot| Ok((*slot, maps.state(*slot)?.yielded))).collect()
    }

    pub(super) fn read_entries(&self, keys: &[VipKey]) -> Result<Entries, BpfError> {
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

    pub(super) fn read_fence(&self) -> Result<(FenceState, bool), RunError> {
        let now_ns = clock::coarse_ns().map_err(std::io::Error::from).map_err(system("read the clock"))?;
        Ok((self.plane.maps().fence_state(now_ns)?, self.yields()? > 0))
    }

    pub(super) fn read_seen(&self, keys: &[VipKey]) -> Result<BTreeMap<VipKey, SeenEntry>, RunError> {
        let now_ns = clock::coarse_ns().map_err(std::io::Error::from).map_err(system("read the clock"))?;
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
        debug!(?action, "apply");
        let (maps, view) = (self.plane.maps_mut(), self.agent.view());
        match action {
            Action::PutOwnMac { ifindex, mac } => {
                maps.put_own_mac(*ifindex, *mac, self.agent.proof(*ifindex))?;
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

    /// Returns the actions that remove everything.
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
