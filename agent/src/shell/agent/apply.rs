//! Reconciles the kernel with the core: attaches, reads the maps back, plans, and applies.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use tracing::{debug, error, info};
use vipward_common::{Fence, MacAddr, VipEntry, VipKey, Yield};
use vipward_core::{
    agent::{
        host::{End, Host, Read, SomeRound},
        segment::Input,
    },
    host::{
        placement::{self, Desired, Placement},
        plan::{self, Action, Observed},
        stale::{Changes, Failure, Left},
    },
};

use super::{
    attaching::{attach, kernel_may_ask},
    error::RunError,
    event_loop::EventLoop,
    report::MOST_LINES,
    segments::context,
    source::Source,
    timing::now,
};
use crate::shell::{
    kernel::{bind, groups},
    logging::causes::chain,
};

const PINS_ARE_MISSING: &str = "pins are missing in the pin directory, so that what answers now ends with this agent; \
                                restart it to pin everything again";
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
        self.answers.examine_all();
    }

    /// Begins a reconciliation soon.
    pub(super) fn try_again_soon(&mut self) {
        match now() {
            Ok(now) => self.host.try_again_soon(now),
            Err(_) => self.host.unsettle(),
        }
    }

    async fn try_reconcile(&mut self, reclaim: bool) -> Result<(), RunError> {
        let yields = self.plane.maps().yields()?.total;
        let entries = self.plane.maps().entries()?;
        self.host.on_read(&entries);
        let placed = plan::placed(&entries);
        let placement = self.place(&placed, &|key| entries.contains_key(key));
        let observed = self.observed(entries, placement.desired.entries.len()).await?;
        attach(&mut self.plane, &mut self.view, self.config.attach, &placement.attach)?;
        // The verifier may have taken long for a program.
        self.beat_if_due()?;
        let attached = self.attached();
        let read = Read { yields, observed, placement, placed, attached: &attached };
        let listed = self.source.wanted(&self.config).map(|vip| vip.address);
        let context = context((&self.view, &self.config, &self.stale), &self.source)?;
        let (mut round, effects) = self.host.plan(&mut self.segment, read, (listed, reclaim), &context);
        self.carry_out_effects(effects)?;
        self.segments = round.desired().own_macs.keys().copied().collect();
        let mut failures: BTreeSet<String> =
            self.plane.attachments().unattached().values().cloned().collect();
        self.memberships.on_entries(&round.observed().entries, &self.segment.probed());
        if let Err(error) = self.read_groups().await {
            failures.insert(chain(&error));
        }
        for number in 0..round.actions().len() {
            // A large number of changes must not let the fence lapse.
            if number % CHANGES_PER_LOOK == 0 {
                self.beat_if_due()?;
            }
            let action = &round.actions()[number];
            if let Err(error) = self.apply(action, round.observed()).await {
                match action.key() {
                    Some(key) => round.failed(key.addr, self.failure(key, &error)),
                    None => _ = failures.insert(chain(&error)),
                }
            }
        }
        if let Err(error) = self.change_groups() {
            failures.insert(chain(&error));
        }
        self.on_segment(Input::Written)?;
        round.note(self.memberships.problems(&self.view));
        let binds_ipv4 = round.desired().binds.iter().any(|(_, vip)| vip.is_ipv4());
        round.note(kernel_may_ask(&self.plane, &self.view, binds_ipv4));
        if !self.plane.is_pinned()? {
            round.note([PINS_ARE_MISSING.to_owned()]);
        }
        let End { changes, problems } = self.host.end(round, failures, &mut self.stale, now()?);
        self.log_stale(&changes);
        self.problems.replace(problems);
        Ok(())
    }

    /// Moves the fence if that is due. Nothing is due before the agent has it.
    fn beat_if_due(&mut self) -> Result<(), RunError> {
        if self.segment.is_started() {
            self.source.beat_if_due(self.plane.maps_mut(), self.host.yields_settled(), now()?)?;
        }
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
        self.answers.examine_some(vips.iter().copied());
        let round = self.try_reconcile_some(vips).await.map_err(|error| chain(&error));
        if let Ok(now) = now() {
            let changes = self.host.end_some(vips, round, &mut self.stale, now);
            self.log_stale(&changes);
        }
        if let Err(error) = self.change_groups() {
            error!(error = chain(&error), "memberships could not be changed; trying again");
            self.try_again_soon();
        }
    }

    async fn try_reconcile_some(&mut self, vips: &BTreeSet<IpAddr>) -> Result<SomeRound, RunError> {
        let maps = self.plane.maps();
        let attached = self.attached();
        let mut entries = BTreeMap::new();
        for key in attached.iter().flat_map(|ifindex| vips.iter().map(|vip| VipKey::new(*ifindex, *vip))) {
            if let Some(entry) = maps.entry(&key)? {
                entries.insert(key, entry);
            }
        }
        let wanted = self.source.wanted_of(&self.config, vips).into_iter();
        let selection = self.config.selection();
        let (placed, max) = (plan::placed(&entries), maps.max_vips());
        let is_there = |key: &VipKey| entries.contains_key(key);
        let placement = placement::place(&selection, wanted, &self.view, &placed, &is_there, max);
        let record = |slot| Ok::<_, RunError>(maps.state(slot)?.yielded);
        let record = (maps.yields()?.total > 0).then_some(record);
        let context = context((&self.view, &self.config, &self.stale), &self.source)?;
        let mut round =
            self.host.plan_some(vips, (entries, placement), (&attached, max), record, &context)?;
        for number in 0..round.actions().len() {
            let action = &round.actions()[number];
            if let (Err(error), Some(key)) = (self.apply(action, round.observed()).await, action.key()) {
                round.failed(key.addr, self.failure(key, &error));
            }
        }
        Ok(round)
    }

    /// Replaces the known peers by those of the configuration.
    pub(super) async fn reconcile_peers(&mut self) {
        self.host.unsettle();
        if let Err(error) = self.try_reconcile_peers().await {
            error!(error = chain(&error), "failed to write the peers; trying again");
            self.try_again_soon();
        }
    }

    async fn try_reconcile_peers(&mut self) -> Result<(), RunError> {
        let maps = self.plane.maps();
        let attached = self.plane.attachments().attached();
        let attached = attached.filter_map(|(ifindex, _)| self.view.interfaces.get(&ifindex));
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

    /// Returns the failure of a write, with its effect as the map shows it.
    fn failure(&self, key: VipKey, error: &RunError) -> Failure {
        let entry = self.plane.maps().entry(&key).ok();
        let left = Left::of(entry.as_ref().map(Option::as_ref));
        Failure { left, interface: Some(self.name(key.ifindex)), error: chain(error) }
    }

    /// Returns the interfaces with the program.
    pub(super) fn attached(&self) -> BTreeSet<u32> {
        self.plane.attachments().attached().map(|(ifindex, _)| ifindex).collect()
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
    pub(super) fn is_settled(&self) -> Result<bool, RunError> {
        let is_there = |key: &VipKey| self.plane.maps().entry(key).is_ok_and(|entry| entry.is_some());
        let place = |placed: &BTreeMap<IpAddr, u32>| self.place(placed, &is_there);
        let (view, attach, attachments) = (&self.view, self.config.attach, self.plane.attachments());
        let is_well_attached = |wanted: &[u32]| attachments.is_well_attached(view, attach, wanted);
        let context = self.context()?;
        Ok(self.host.is_settled(&self.segment, place, (&self.attached(), is_well_attached), &context))
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
            for slot in Host::slots_of(&entries, new, maps.max_vips()) {
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
            max_slots: maps.max_vips(),
            ..Observed::default()
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
                self.host.on_entry(observed.entries.get(key), Some(entry));
                self.memberships.on_entry(key, Some(entry), self.segment.is_probed(key), now()?);
                self.entry_changed(*key, observed.entries.get(key), Some(entry), &cause.to_string())?;
            }
            Action::RemoveEntry { key, cause } => {
                maps.remove_entry(key)?;
                self.memberships.on_entry(key, None, self.segment.is_probed(key), now()?);
                self.host.on_entry(observed.entries.get(key), None);
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
