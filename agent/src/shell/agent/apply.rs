//! Reconciles the kernel with the core: attaches, reads the maps back, plans, and applies.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use tracing::{debug, error, info};
use vipward_common::{Fence, MacAddr, Role, VipEntry, VipKey, Yield};
use vipward_core::{
    agent::segment::Input,
    host::{
        placement::{self, Desired, Placement},
        plan::{self, Action, Observed, Slots},
        stale::{Changes, Failure, Left},
    },
};

use super::{
    error::RunError,
    event_loop::{EventLoop, Settled},
    report::MOST_LINES,
    source::Source,
    timing::{RETRY, now},
};
use crate::shell::{
    kernel::{bind, groups},
    logging::causes::chain,
};

/// The reason why an entry that should answer is not written.
const LAPSED: &str = "no entry begins to answer while the fence has lapsed";

/// Number of changes between two looks at the clock.
const CHANGES_PER_LOOK: usize = 256;

impl<S: Source> EventLoop<S> {
    /// Brings the kernel to the desired state. `reclaim` takes yielded VIPs back.
    ///
    /// A failure is logged, and tried again. It does not end the agent: that would help no VIP.
    pub(super) async fn reconcile(&mut self, reclaim: bool) {
        if let Err(error) = self.try_reconcile(reclaim).await {
            error!(error = chain(&error), "failed to read the kernel's state back; trying again");
            self.try_again_soon();
        }
        if let Err(error) = self.observe_segments().await {
            error!(error = chain(&error), "failed to begin to prove that the program sees frames");
        }
        self.silent.look_at_all();
    }

    /// Begins a reconciliation soon.
    pub(super) fn try_again_soon(&mut self) {
        self.settled = None;
        self.verify = self.verify.min(now().map_or(self.verify, |now| now + RETRY));
    }

    async fn try_reconcile(&mut self, reclaim: bool) -> Result<(), RunError> {
        // Two placements of very many VIPs take too much memory.
        self.settled = None;
        // Yields are read before the entries. A yield in between is settled the next time.
        let yields = self.plane.maps().yields()?.total;
        let entries = self.plane.maps().entries()?;
        self.slots = entries.values().map(|entry| entry.slot).collect();
        let placed = plan::placed(&entries);
        let mut placement = self.place(&placed, &|key| entries.contains_key(key));
        let mut observed = self.observed(entries, placement.desired.entries.len()).await?;
        let mut problems: BTreeSet<String> = placement.problems.iter().map(ToString::to_string).collect();
        self.attach(&placement.attach)?;
        // The verifier may have taken long for a program.
        if self.segment.is_started() {
            self.source.beat_if_due(self.plane.maps_mut(), self.yields_settled, now()?)?;
        }
        let mut failures: BTreeSet<String> = self.unattached.values().cloned().collect();
        let desired = &mut placement.desired;
        self.leave_out(desired);
        let effects = self.with_segment(|segment, context| segment.hold_back(desired, &observed, context))?;
        self.carry_out_effects(effects)?;
        problems.extend(self.segment.own_addresses(&self.view).map(|obstacle| obstacle.to_string()));
        if !self.source.is_known() {
            plan::keep_what_is_pinned(desired, &observed);
            self.leave_heard(desired);
        }
        let is_known = self.source.is_known();
        let (asked, effects) = self.with_segment(|segment, context| {
            segment.ask_about_yields((desired, &observed), (is_known, reclaim), context)
        })?;
        self.carry_out_effects(effects)?;
        observed.asked = asked;
        if !self.source.is_known() {
            plan::change_what_was_yielded(desired, &observed);
        }
        self.segments = desired.own_macs.keys().copied().collect();
        let mut unchanged = self.begin_no_answer(desired, &observed, reclaim)?;
        let left_silent = unchanged.len();
        let actions = plan::plan(desired, &observed, reclaim);
        self.yielded = if reclaim { BTreeMap::new() } else { plan::yielded(&observed) };
        if self.source.is_known() && !self.yielded.is_empty() {
            let listed: BTreeSet<IpAddr> = self.source.wanted(&self.config).map(|vip| vip.address).collect();
            self.yielded.retain(|vip, _| listed.contains(vip));
        }
        self.hearing.on_entries(&observed.entries, &self.segment.probed());
        if let Err(error) = self.read_groups().await {
            failures.insert(chain(&error));
        }
        for (number, action) in actions.iter().enumerate() {
            // A large number of changes must not let the fence lapse.
            if number % CHANGES_PER_LOOK == 0 && self.segment.is_started() {
                self.source.beat_if_due(self.plane.maps_mut(), self.yields_settled, now()?)?;
            }
            if let Err(failure) = self.apply(action, &observed).await {
                if let Action::PutEntry { key, .. } | Action::RemoveEntry { key, .. } = action {
                    self.note_unchanged(&mut unchanged, *key, &failure);
                } else {
                    failures.insert(chain(&failure));
                }
            }
        }
        if let Err(error) = self.change_groups() {
            failures.insert(chain(&error));
        }
        problems.extend(self.hearing.problems(&self.view));
        self.on_segment(Input::Written)?;
        let every_change_made = unchanged.len() == left_silent;
        let every_entry_written = unchanged.is_empty();
        // While the source is unknown, entries stay as they were found.
        if self.source.is_known() && !(self.stale.is_empty() && every_entry_written) {
            let concerned: BTreeSet<IpAddr> = actions.iter().filter_map(vip_of).collect();
            let wanted: BTreeSet<IpAddr> = desired.entries.keys().map(|key| key.addr).collect();
            let is_changed = |vip: &IpAddr| concerned.contains(vip) || !wanted.contains(vip);
            let changes = self.stale.on_tried(|vip| !placement.left_out.contains(vip), is_changed, unchanged);
            self.log_stale(&changes);
        }
        if every_change_made {
            self.yields_settled = yields;
        }
        problems.extend(self.kernel_may_ask(desired));
        if !self.plane.is_pinned()? {
            problems.insert(
                "pins are missing in the pin directory, so that what answers now ends with this agent; restart it to \
                 pin everything again"
                    .to_owned(),
            );
        }
        if failures.is_empty() && every_entry_written {
            self.settled = Some(Settled { placement: placement.digest(), placed });
        } else {
            self.try_again_soon();
        }
        problems.extend(failures);
        self.problems.replace(problems);
        Ok(())
    }

    /// Brings the entries of some VIPs to the desired state, and leaves all else as it is. Takes
    /// yielded VIPs back: the caller has checked their holder.
    ///
    /// A failed VIP is stale, and the next full reconciliation repairs
    /// it. The others are changed all the same.
    pub(super) async fn reconcile_some(&mut self, vips: &BTreeSet<IpAddr>) {
        for vip in vips {
            if let Err(error) = self.on_segment(Input::Decided(*vip)) {
                error!(%vip, error = chain(&error), "failed to stop asking about a yielded VIP");
            }
        }
        self.write_some(vips).await;
    }

    /// Brings the entries of some VIPs to the desired state. Questions about yielded VIPs go on.
    pub(super) async fn write_some(&mut self, vips: &BTreeSet<IpAddr>) {
        self.settled = None;
        self.silent.look_at(vips.iter().copied());
        let mut concerned = BTreeSet::new();
        let unchanged = self.try_reconcile_some(vips, &mut concerned).await.unwrap_or_else(|error| {
            let failure = Failure { left: Left::Answering, interface: None, error: chain(&error) };
            vips.iter().map(|vip| (*vip, failure.clone())).collect()
        });
        if !unchanged.is_empty() {
            self.try_again_soon();
        }
        let changes = self.stale.on_tried(|vip| vips.contains(vip), |vip| concerned.contains(vip), unchanged);
        self.log_stale(&changes);
        if let Err(error) = self.change_groups() {
            error!(error = chain(&error), "memberships could not be changed; trying again");
            self.try_again_soon();
        }
    }

    /// Returns the VIPs whose changes failed. Adds all VIPs with changes to `concerned`.
    async fn try_reconcile_some(
        &mut self,
        vips: &BTreeSet<IpAddr>,
        concerned: &mut BTreeSet<IpAddr>,
    ) -> Result<BTreeMap<IpAddr, Failure>, RunError> {
        let maps = self.plane.maps();
        let mut entries = BTreeMap::new();
        for (ifindex, _) in self.plane.attached() {
            for vip in vips {
                let key = VipKey::new(ifindex, *vip);
                if let Some(entry) = maps.entry(&key)? {
                    entries.insert(key, entry);
                }
            }
        }
        let placed = plan::placed(&entries);
        let wanted = self.source.wanted_of(&self.config, vips);
        let is_there = |key: &VipKey| entries.contains_key(key);
        let max = maps.max_vips();
        let Placement { mut desired, left_out, .. } = placement::place(
            &self.config.selection(),
            wanted.into_iter(),
            &self.view,
            &placed,
            &is_there,
            max,
        );
        self.leave_out(&mut desired);
        let mut reserved = self.slots.clone();
        for entry in entries.values() {
            reserved.remove(entry.slot);
        }
        let mut yields = BTreeMap::new();
        if maps.yields()?.total > 0 {
            let new =
                (0..maps.max_vips()).filter(|slot| !reserved.contains(*slot)).take(desired.entries.len());
            for slot in entries.values().map(|entry| entry.slot).chain(new) {
                yields.insert(slot, maps.state(slot)?.yielded);
            }
        }
        let observed = Observed {
            entries,
            yields,
            own_macs: desired.own_macs.clone(),
            peers: desired.peers.clone(),
            binds: desired.binds.clone(),
            asked: BTreeSet::new(),
            taken_back: self.taking_back.clone(),
            remembered: BTreeMap::new(),
            max_slots: maps.max_vips(),
            reserved,
        };
        self.yielded.retain(|vip, _| !vips.contains(vip));
        let mut unchanged = self.begin_no_answer(&mut desired, &observed, true)?;
        for action in plan::plan(&desired, &observed, true) {
            // All other state is as it was observed.
            let (Action::PutEntry { key, .. } | Action::RemoveEntry { key, .. }) = &action else { continue };
            concerned.insert(key.addr);
            if let Err(failure) = self.apply(&action, &observed).await {
                self.note_unchanged(&mut unchanged, *key, &failure);
            }
        }
        // An entry without a free slot is not even planned.
        let found: BTreeSet<IpAddr> = observed.entries.keys().map(|key| key.addr).collect();
        let desired = desired.entries.keys().map(|key| key.addr);
        let without = desired.filter(|vip| !found.contains(vip) && !concerned.contains(vip));
        unchanged.extend(without.chain(left_out).map(|vip| (vip, no_room(observed.max_slots))));
        Ok(unchanged)
    }

    /// Replaces the known peers by those of the configuration.
    pub(super) async fn reconcile_peers(&mut self) {
        self.settled = None;
        if let Err(error) = self.try_reconcile_peers().await {
            error!(error = chain(&error), "failed to write the peers; trying again");
            self.try_again_soon();
        }
    }

    async fn try_reconcile_peers(&mut self) -> Result<(), RunError> {
        let maps = self.plane.maps();
        let attached = self.plane.attached().filter_map(|(ifindex, _)| self.view.interfaces.get(&ifindex));
        let peers = placement::peers(&self.config.selection(), attached);
        let own_macs = maps.own_macs()?;
        let mut desired = Desired { peers, own_macs: own_macs.clone(), ..Desired::default() };
        let observed = Observed { peers: maps.peers()?, own_macs, ..Observed::default() };
        if !self.source.is_known() {
            plan::keep_what_is_pinned(&mut desired, &observed);
        }
        let mut first_failure = Ok(());
        for action in plan::plan(&desired, &observed, false) {
            let applied = self.apply(&action, &observed).await;
            first_failure = first_failure.and(applied);
        }
        first_failure
    }

    /// Leaves silent VIPs silent while the fence has lapsed. Returns
    /// them as failures, which are tried again.
    fn begin_no_answer(
        &self,
        desired: &mut Desired,
        observed: &Observed,
        reclaim: bool,
    ) -> Result<BTreeMap<IpAddr, Failure>, RunError> {
        if self.source.may_begin_answering(now()?) {
            return Ok(BTreeMap::new());
        }
        let failure = Failure { left: Left::Silent, interface: None, error: LAPSED.to_owned() };
        let silent = plan::begin_no_answer(desired, observed, reclaim);
        Ok(silent.into_iter().map(|vip| (vip, failure.clone())).collect())
    }

    fn log_stale(&self, changes: &Changes) {
        let Changes { begun, over } = changes;
        let (each, more) =
            if begun.len() > MOST_LINES { begun.split_at(1) } else { (&begun[..], [].as_slice()) };
        for vip in each {
            let Some(Failure { left: _, interface, error }) = self.stale.failure(*vip) else { continue };
            let interface = interface.as_deref();
            error!(%vip, interface, error, "failed to change the VIP's entry; trying again");
        }
        if !more.is_empty() {
            error!(vips = more.len(), "failed to change the entries of more VIPs; trying again");
        }
        if over.len() > MOST_LINES {
            info!(vips = over.len(), "the entries of VIPs are changed after all");
            return;
        }
        for vip in over {
            info!(%vip, "the VIP's entry is changed after all");
        }
    }

    fn note_unchanged(&self, unchanged: &mut BTreeMap<IpAddr, Failure>, key: VipKey, error: &RunError) {
        let left = match self.plane.maps().entry(&key) {
            Ok(None | Some(VipEntry { role: Role::Foreign, .. })) => Left::Silent,
            Ok(Some(VipEntry { role: Role::Held | Role::Handover, .. })) | Err(_) => Left::Answering,
        };
        let failure = Failure { left, interface: Some(self.name(key.ifindex)), error: chain(error) };
        let vip = key.addr;
        if unchanged.get(&vip).is_none_or(|known: &Failure| known.left < left) {
            unchanged.insert(vip, failure);
        }
    }

    /// Places the wanted VIPs. `placed` has their present interfaces; `is_there` tells existing
    /// entries.
    fn place(&self, placed: &BTreeMap<IpAddr, u32>, is_there: &dyn Fn(&VipKey) -> bool) -> Placement {
        let vips = self.source.wanted(&self.config);
        placement::place(
            &self.config.selection(),
            vips,
            &self.view,
            placed,
            is_there,
            self.plane.maps().max_vips(),
        )
    }

    /// Returns true if the network, as it is now, needs nothing beyond the last reconciliation.
    pub(super) fn is_settled(&self) -> bool {
        let Some(Settled { placement, placed }) = &self.settled else { return false };
        let is_there = |key: &VipKey| self.plane.maps().entry(key).is_ok_and(|entry| entry.is_some());
        let mut now = self.place(placed, &is_there);
        self.leave_out(&mut now.desired);
        self.segment.silence(&mut now.desired, &self.view);
        let bound = now.desired.binds.iter().all(|(interface, vip)| {
            let interface = self.view.by_name(interface);
            interface.is_some_and(|interface| interface.addresses.iter().any(|net| net.addr() == *vip))
        });
        self.is_well_attached(&now.attach) && bound && now.digest() == *placement
    }

    /// Removes everything. The fence goes first, which silences all VIPs at once even if a later
    /// step fails.
    pub(super) async fn withdraw(&mut self) -> Result<(), RunError> {
        let over = Fence { deadline_ns: 0, hold_until_ns: 0, ..self.plane.maps().fence()? };
        self.plane.maps_mut().set_fence(&over)?;
        self.on_segment(Input::Withdrawn)?;
        let observed = self.observed(self.plane.maps().entries()?, 0).await?;
        let mut first_failure = Ok(());
        for action in plan::plan(&Desired::default(), &observed, false) {
            if let Err(failure) = self.apply(&action, &observed).await {
                error!(?action, "not taken back");
                first_failure = first_failure.and(Err(failure));
            }
        }
        let left = groups::leave_all().await;
        first_failure.and(left.map(drop).map_err(Into::into))
    }

    /// Returns the state of the kernel, with the entries as just read. At most `new` entries will
    /// need a slot. The records of as many free slots are read too: a VIP may have left one there.
    async fn observed(&self, entries: BTreeMap<VipKey, VipEntry>, new: usize) -> Result<Observed, RunError> {
        let maps = self.plane.maps();
        let mut yields = BTreeMap::new();
        if maps.yields()?.total > 0 {
            let reach = u32::try_from(entries.len() + new).unwrap_or(u32::MAX).min(maps.max_vips());
            let mut slots: BTreeSet<u32> = entries.values().map(|entry| entry.slot).collect();
            slots.extend(0..reach);
            for slot in slots {
                let yielded = maps.state(slot)?.yielded;
                if yielded != Yield::default() {
                    yields.insert(slot, yielded);
                }
            }
        }
        Ok(Observed {
            entries,
            yields,
            own_macs: maps.own_macs()?,
            peers: maps.peers()?,
            binds: bind::observe_binds(&self.view).await?,
            asked: BTreeSet::new(),
            taken_back: self.taking_back.clone(),
            remembered: self.yielded.clone(),
            max_slots: maps.max_vips(),
            reserved: Slots::default(),
        })
    }

    async fn apply(&mut self, action: &Action, observed: &Observed) -> Result<(), RunError> {
        debug!(?action, "apply");
        let maps = self.plane.maps_mut();
        match action {
            Action::PutOwnMac { ifindex, mac } => {
                maps.put_own_mac(*ifindex, *mac, self.proving.proof(*ifindex))?;
            }
            Action::RemoveOwnMac { ifindex } => maps.remove_own_mac(*ifindex)?,
            Action::PutPeer { ifindex, mac } => {
                maps.put_peer(*ifindex, *mac, now()?.as_nanos())?;
                self.on_segment(Input::Peer { ifindex: *ifindex, mac: *mac })?;
            }
            Action::RemovePeer { ifindex, mac } => maps.remove_peer(*ifindex, *mac)?,
            Action::PutEntry { key, entry, reset_counters, cause } => {
                if *reset_counters {
                    maps.reset_vip_count(entry.slot)?;
                }
                maps.put_entry(key, entry)?;
                self.slots.insert(entry.slot);
                self.hearing.on_entry(key, Some(entry), self.segment.is_probed(key));
                self.entry_changed(*key, observed.entries.get(key), Some(entry), &cause.to_string())?;
            }
            Action::RemoveEntry { key, cause } => {
                maps.remove_entry(key)?;
                self.hearing.on_entry(key, None, self.segment.is_probed(key));
                if let Some(entry) = observed.entries.get(key) {
                    self.slots.remove(entry.slot);
                }
                self.entry_changed(*key, observed.entries.get(key), None, &cause.to_string())?;
            }
            Action::AddBind { interface, vip } => bind::add(&self.view, interface, *vip).await?,
            Action::RemoveBind { interface, vip } => bind::remove(&self.view, interface, *vip)?,
        }
        Ok(())
    }

    /// Logs a change of role, and passes it on.
    fn entry_changed(
        &mut self,
        key: VipKey,
        from: Option<&VipEntry>,
        to: Option<&VipEntry>,
        cause: &str,
    ) -> Result<(), RunError> {
        if !self.inputs.rounds.is_empty() {
            self.changed_entries.insert(key.addr);
        }
        let role = |entry: Option<&VipEntry>| entry.map_or("none", |entry| entry.role.name());
        let changed = from.map(|entry| (entry.role, entry.mac)) != to.map(|entry| (entry.role, entry.mac));
        if changed && self.entry_lines.admits((role(from), role(to)), now()?) {
            info!(
                vip = %key.addr,
                interface = %self.name(key.ifindex),
                vlan = self.view.vlan_of(key.ifindex),
                from = role(from),
                to = role(to),
                mac = to.map(|entry| MacAddr(entry.mac).to_string()),
                cause,
                "entry changed"
            );
        }
        self.on_segment(Input::Entry { key, from, to })
    }

    pub(super) fn name(&self, ifindex: u32) -> String {
        self.view.name_of(ifindex)
    }
}

fn no_room(max: u32) -> Failure {
    let error = format!("the map holds {max} entries; start the agent with a larger --max-vips");
    Failure { left: Left::Silent, interface: None, error }
}

/// Returns the VIP whose entry an action changes.
fn vip_of(action: &Action) -> Option<IpAddr> {
    match action {
        Action::PutEntry { key, .. } | Action::RemoveEntry { key, .. } => Some(key.addr),
        Action::PutOwnMac { .. }
        | Action::RemoveOwnMac { .. }
        | Action::PutPeer { .. }
        | Action::RemovePeer { .. }
        | Action::AddBind { .. }
        | Action::RemoveBind { .. } => None,
    }
}
