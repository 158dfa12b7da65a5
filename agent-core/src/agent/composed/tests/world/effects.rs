//! Carries effects out on the modelled maps, and returns their results.

use vipward_common::{DeadlineState, Role, SeenEntry, WireState};

use super::{super::*, *};
use crate::{
    host::{
        attaching::{Mode, OwnProgram},
        plan::Action,
        stale::Left,
    },
    segment::{announce, groups::Command},
};

const PROGRAM: u32 = 7;

impl World {
    fn lease_deadline_state(&self) -> DeadlineState {
        self.lease_deadline.state(self.now.as_nanos(), WireState::default())
    }

    fn tried<T>(&self, part: Part, value: T) -> Result<T, String> {
        if self.fails.contains(&part) { Err(format!("{part:?} fails")) } else { Ok(value) }
    }

    fn entries_of(&self, keys: &[VipKey]) -> Entries {
        let entries = keys.iter().filter_map(|key| Some((*key, *self.entries.get(key)?))).collect();
        Entries { yields: self.yields, entries }
    }

    fn macs(&self) -> Macs {
        Macs { own: self.own.clone(), peers: self.peers.clone() }
    }

    pub(super) fn network(&self) -> Network {
        Network {
            view: self.view.clone(),
            attachments: self.attachments.clone(),
            name_servers: BTreeSet::new(),
        }
    }

    fn read(&self, reading: Reading) -> (Part, Readout) {
        match reading {
            Reading::Network => (Part::Network, Readout::Network(Box::new(self.network()))),
            Reading::Yields => (Part::Yields, Readout::Yields(self.yields)),
            Reading::Maps => {
                let maps = Maps {
                    yields: self.yields,
                    entries: self.entries.clone(),
                    macs: self.macs(),
                    binds: self.binds.clone(),
                    is_pinned: true,
                };
                (Part::Maps, Readout::Maps(Box::new(maps)))
            }
            Reading::Entries(keys) => (Part::Entries, Readout::Entries(self.entries_of(&keys))),
            Reading::Records(slots) => (Part::Records, Readout::Records(self.records_of(&slots))),
            Reading::Macs => (Part::Macs, Readout::Macs(self.macs())),
            Reading::Held => {
                let held = self.entries.iter().filter(|(_, entry)| entry.role == Role::Held);
                let held = held.map(|(key, entry)| (*key, *entry)).collect();
                (Part::Held, Readout::Held(held))
            }
            Reading::LeaseDeadline => {
                (Part::LeaseDeadline, Readout::LeaseDeadline(self.lease_deadline_state(), self.yields > 0))
            }
            Reading::Seen(keys) => (Part::Seen, Readout::Seen(self.seen(&keys))),
            Reading::Groups => (Part::Groups, Readout::Groups(self.groups.clone())),
        }
    }

    pub(super) fn carry_out(&mut self, effect: Effect) -> Option<Outcome> {
        Some(match effect {
            Effect::Read(reading) => {
                let (part, readout) = self.read(reading);
                Outcome::Read(self.tried(part, readout))
            }
            Effect::Prepare { attach, slots, binds } => {
                Outcome::Prepared(Box::new(self.prepare(&attach, &slots, binds)))
            }
            Effect::Write(actions) => {
                Outcome::Written(actions.iter().map(|action| self.write(action)).collect())
            }
            Effect::ChangeGroup(change) => {
                let result = self.tried(Part::ChangeGroup, ());
                if result.is_ok() {
                    match change {
                        Command::Join(it) => _ = self.groups.insert(it),
                        Command::Leave(it) => _ = self.groups.remove(&it),
                    }
                }
                Outcome::Group(change, result)
            }
            Effect::SetDeadline(lease_deadline) => {
                self.lease_deadline = lease_deadline;
                return None;
            }
            Effect::Announce { command, is_taken_back } => match command {
                announce::Command::Send { key, round, .. } => {
                    self.sent.push(Effect::Announce { command, is_taken_back });
                    Outcome::Announced { key, round }
                }
                announce::Command::Repeat { .. } => return None,
            },
            Effect::Count => Outcome::Counted(self.counts.clone()),
            Effect::AttachAgain(_) => {
                let network = (self.view.clone(), self.attachments.clone());
                Outcome::AttachedAgain(self.tried(Part::AttachAgain, Box::new(network)).ok())
            }
            Effect::Cluster(ClusterEffect::Ask(request)) => {
                self.api.ask(request);
                return None;
            }
            Effect::Withdraw => {
                self.entries.clear();
                (self.own, self.peers) = (BTreeMap::new(), BTreeSet::new());
                return None;
            }
            Effect::Problems(problems) => {
                self.problems = problems;
                return None;
            }
            Effect::PutFault(key, fault) => {
                if let Some(entry) = self.entries.get_mut(&key) {
                    *entry = entry.with_fault(fault);
                }
                return None;
            }
            Effect::AskAs { segment, round, host, vips, .. } => {
                self.asked.extend(vips.iter().map(|vip| (host, *vip)));
                Outcome::Asked { segment, round, host, sent: vips.into_iter().collect() }
            }
            effect @ (Effect::Probe(_)
            | Effect::AskHost { .. }
            | Effect::ProbeHeld { .. }
            | Effect::State { .. }) => {
                self.sent.push(effect);
                return None;
            }
            Effect::PutProof(..)
            | Effect::TellApart { .. }
            | Effect::PutTwin(..)
            | Effect::ShowPort(_)
            | Effect::Cluster(_)
            | Effect::ReadFile
            | Effect::Log(_) => return None,
            Effect::Listen { segment, round, .. } => {
                self.listening = Some(round);
                self.heard = (!self.is_unheard).then_some(segment);
                return None;
            }
            Effect::Stopped(_) | Effect::NotAlone(_) => {
                self.is_over = true;
                return None;
            }
        })
    }

    fn records_of(&self, slots: &BTreeSet<u32>) -> BTreeMap<u32, Yield> {
        slots.iter().map(|slot| (*slot, self.records.get(slot).copied().unwrap_or_default())).collect()
    }

    fn seen(&self, keys: &[VipKey]) -> BTreeMap<VipKey, SeenEntry> {
        let seen = |key: &VipKey| {
            let entry = self.entries.get(key)?;
            let recorded = self.records.get(&entry.slot).copied().unwrap_or_default();
            Some((*key, entry.as_seen(recorded, self.now.as_nanos())))
        };
        keys.iter().filter_map(seen).collect()
    }

    fn prepare(&mut self, attach: &[u32], slots: &BTreeSet<u32>, binds: bool) -> Prepared {
        for ifindex in attach {
            let own = OwnProgram { mode: Mode::Native, id: PROGRAM, on_ports: false };
            if !self.attachments.runs_on(&self.view, *ifindex)
                && let Some(interface) = self.view.interfaces.get_mut(ifindex)
            {
                self.attachments.insert(*ifindex, own);
                own.mode.note(interface, own.id);
            }
        }
        for (ifindex, _) in self.attachments.points().collect::<Vec<_>>() {
            if !attach.contains(&ifindex) || !self.view.interfaces.contains_key(&ifindex) {
                self.attachments.remove(ifindex);
            }
        }
        let Network { view, attachments, .. } = self.network();
        let warnings = if binds { self.warnings.clone() } else { Vec::new() };
        let groups = self.tried(Part::Groups, self.groups.clone());
        let records = self.tried(Part::Prepare, self.records_of(slots));
        Prepared { view, attachments, records, groups, warnings }
    }

    fn write(&mut self, action: &Action) -> Result<(), Unwritten> {
        if let Some(key) = action.key()
            && self.unwritable.contains(&key.addr)
        {
            let left = Left::of(Some(self.entries.get(&key)));
            return Err(Unwritten { left, error: "no room".to_owned() });
        }
        match action {
            Action::PutOwnMac { ifindex, mac } => _ = self.own.insert(*ifindex, *mac),
            Action::RemoveOwnMac { ifindex } => _ = self.own.remove(ifindex),
            Action::PutPeer { ifindex, mac } => _ = self.peers.insert((*ifindex, *mac)),
            Action::RemovePeer { ifindex, mac } => _ = self.peers.remove(&(*ifindex, *mac)),
            Action::PutEntry { key, entry, .. } => _ = self.entries.insert(*key, *entry),
            Action::RemoveEntry { key, .. } => _ = self.entries.remove(key),
            Action::AddBind { interface, vip } => {
                self.binds.insert((interface.clone(), *vip));
            }
            Action::RemoveBind { interface, vip } => _ = self.binds.remove(&(interface.clone(), *vip)),
        }
        Ok(())
    }
}
