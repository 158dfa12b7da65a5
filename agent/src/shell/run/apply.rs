//! Bringing the kernel to what the core desires: attaching, planning against what is read back, applying.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv4Addr,
};

use tracing::{debug, error, info, warn};
use vipward_common::{Fence, MacAddr, Role, VipEntry, VipKey, Yield};

use super::{
    Driver, RETRY, RunError,
    behind::{Failure, Left},
    now,
    source::Source,
    unprobed::silence,
};
use crate::{
    core::{
        announce,
        config::XdpMode,
        conflict,
        net::Interface,
        placement::{self, Desired, DesiredEntry, Placement},
        plan::{self, Action, Observed, Slots},
        probing,
    },
    shell::{
        bind,
        bpf::{BpfError, Mode},
        causes::chain,
    },
};

/// A change of more entries than this is logged as one line.
pub(super) const MOST_LINES: usize = 64;

/// How many changes are made between two looks at the clock.
const CHANGES_PER_LOOK: usize = 256;

/// What was brought about.
pub(super) struct Settled {
    /// Without what no program is attached for.
    placement: Placement,
    /// Where VIPs were placed before it.
    placed: BTreeMap<Ipv4Addr, u32>,
}

impl Settled {
    fn new(mut placement: Placement, placed: BTreeMap<Ipv4Addr, u32>) -> Self {
        // It is kept for long, and a map that was filled in order has half-empty leaves.
        let entries = std::mem::take(&mut placement.desired.entries);
        placement.desired.entries = entries.into_iter().collect();
        Self { placement, placed }
    }
}

impl<S: Source> Driver<S> {
    /// Brings the kernel to what the configuration and the network call for. `reclaim` takes yielded VIPs back.
    ///
    /// What fails is told and tried again: an agent that ended for it would do nobody's VIP any good.
    pub(super) async fn reconcile(&mut self, reclaim: bool) {
        if let Err(error) = self.try_reconcile(reclaim).await {
            error!(error = chain(&error), "failed to read the kernel's state back; trying again");
            self.try_again_soon();
        }
    }

    fn try_again_soon(&mut self) {
        self.settled = None;
        self.verify = self.verify.min(now().map_or(self.verify, |now| now + RETRY));
    }

    async fn try_reconcile(&mut self, reclaim: bool) -> Result<(), RunError> {
        // Of very many VIPs, twice is too much to remember.
        self.settled = None;
        // Read before the entries: a yield that comes in between is settled the next time.
        let yields = self.plane.maps().yields()?.total;
        let entries = self.plane.maps().entries()?;
        self.slots = entries.values().map(|entry| entry.slot).collect();
        let placed = plan::placed(&entries);
        let mut placement = self.place(&placed, &|key| entries.contains_key(key));
        if !self.source.is_known() {
            placement.desired.entries = entries.iter().map(|(key, entry)| (*key, as_found(entry))).collect();
        }
        let observed = self.observed(entries, placement.desired.entries.len()).await?;
        let mut problems: BTreeSet<String> = placement.problems.iter().map(ToString::to_string).collect();
        self.attach(&placement.attach)?;
        let mut failures: BTreeSet<String> = self.unattached.values().cloned().collect();
        let desired = &mut placement.desired;
        self.leave_out_unattached(desired);
        self.hold_back_unprobed(desired, &observed)?;
        let actions = plan::plan(desired, &observed, reclaim);
        self.yielded = if reclaim { BTreeMap::new() } else { plan::yielded(&observed) };
        if !self.yielded.is_empty() {
            let listed: BTreeSet<Ipv4Addr> =
                self.source.wanted(&self.config).map(|vip| vip.address).collect();
            self.yielded.retain(|vip, _| listed.contains(vip));
        }
        self.log_each_entry = actions.len() <= MOST_LINES;
        let mut unchanged = BTreeMap::new();
        for (number, action) in actions.iter().enumerate() {
            // Very many changes must not let the fence lapse.
            if number % CHANGES_PER_LOOK == 0 && self.started {
                self.source.beat_if_due(self.plane.maps_mut(), self.yields_settled, now()?)?;
            }
            if let Err(failure) = self.apply(action, &observed).await {
                if let Action::PutEntry { key, .. } | Action::RemoveEntry { key, .. } = action {
                    self.note_unchanged(&mut unchanged, key, &failure);
                } else {
                    failures.insert(chain(&failure));
                }
            }
        }
        self.ask_about_held_back()?;
        let every_entry_written = unchanged.is_empty();
        // What is only left as it was found is not what is wanted.
        if self.source.is_known() && !(self.behind.is_empty() && every_entry_written) {
            let concerned: BTreeSet<Ipv4Addr> = actions.iter().filter_map(vip_of).collect();
            let wanted: BTreeSet<Ipv4Addr> = desired.entries.keys().map(|key| key.addr.into()).collect();
            let is_changed = |vip: &Ipv4Addr| concerned.contains(vip) || !wanted.contains(vip);
            self.behind.on_tried(|vip| !placement.left_out.contains(vip), is_changed, unchanged);
        }
        if !self.log_each_entry {
            let held = desired.entries.values().filter(|entry| entry.role == Role::Held).count();
            info!(changes = actions.len(), entries = desired.entries.len(), held, "entries changed");
        }
        if every_entry_written {
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
            self.settled = Some(Settled::new(placement, placed));
        } else {
            self.try_again_soon();
        }
        problems.extend(failures);
        self.problems.replace(problems);
        Ok(())
    }

    /// Brings the entries of some VIPs to what is wanted of them, and leaves everything else as it is. What was yielded is
    /// taken back: whoever asks for this has found out whose it is.
    ///
    /// What fails keeps nothing else from being changed. It is `behind` then, and put right with everything else soon.
    pub(super) async fn reconcile_some(&mut self, vips: &BTreeSet<Ipv4Addr>) {
        self.settled = None;
        let mut concerned = BTreeSet::new();
        let unchanged = self.try_reconcile_some(vips, &mut concerned).await.unwrap_or_else(|error| {
            let failure = Failure { left: Left::Answering, interface: None, error: chain(&error) };
            vips.iter().map(|vip| (*vip, failure.clone())).collect()
        });
        if !unchanged.is_empty() {
            self.try_again_soon();
        }
        self.behind.on_tried(|vip| vips.contains(vip), |vip| concerned.contains(vip), unchanged);
    }

    /// Returns the VIPs of which something has failed, of those that something was to be done for.
    async fn try_reconcile_some(
        &mut self,
        vips: &BTreeSet<Ipv4Addr>,
        concerned: &mut BTreeSet<Ipv4Addr>,
    ) -> Result<BTreeMap<Ipv4Addr, Failure>, RunError> {
        let maps = self.plane.maps();
        let mut entries = BTreeMap::new();
        for (ifindex, _) in self.plane.attached() {
            for vip in vips {
                let key = VipKey::untagged(ifindex, vip.octets());
                if let Some(entry) = maps.entry(&key)? {
                    entries.insert(key, entry);
                }
            }
        }
        let placed = plan::placed(&entries);
        let wanted = self.source.wanted_of(&self.config, vips);
        let is_there = |key: &VipKey| entries.contains_key(key);
        let max = maps.max_vips();
        let Placement { mut desired, left_out, .. } =
            placement::place(&self.config, wanted.into_iter(), &self.view, &placed, &is_there, max);
        self.leave_out_unattached(&mut desired);
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
            links: desired.links.clone(),
            peers: desired.peers.clone(),
            binds: desired.binds.clone(),
            remembered: BTreeMap::new(),
            max_slots: maps.max_vips(),
            reserved,
        };
        self.yielded.retain(|vip, _| !vips.contains(vip));
        self.log_each_entry = vips.len() <= MOST_LINES;
        let mut unchanged = BTreeMap::new();
        for action in plan::plan(&desired, &observed, true) {
            // Everything else is as it was observed.
            let (Action::PutEntry { key, .. } | Action::RemoveEntry { key, .. }) = &action else { continue };
            concerned.insert(key.addr.into());
            if let Err(failure) = self.apply(&action, &observed).await {
                self.note_unchanged(&mut unchanged, key, &failure);
            }
        }
        // What there is no slot for is not even tried.
        let found: BTreeSet<Ipv4Addr> = observed.entries.keys().map(|key| key.addr.into()).collect();
        let desired = desired.entries.keys().map(|key| key.addr.into());
        let without = desired.filter(|vip| !found.contains(vip) && !concerned.contains(vip));
        unchanged.extend(without.chain(left_out).map(|vip| (vip, no_room(observed.max_slots))));
        Ok(unchanged)
    }

    /// Makes just those peers known that the configuration has.
    pub(super) async fn reconcile_peers(&mut self) {
        self.settled = None;
        if let Err(error) = self.try_reconcile_peers().await {
            error!(error = chain(&error), "failed to make peers known; trying again");
            self.try_again_soon();
        }
    }

    async fn try_reconcile_peers(&mut self) -> Result<(), RunError> {
        let maps = self.plane.maps();
        let attached = self.plane.attached().filter_map(|(ifindex, _)| self.view.interfaces.get(&ifindex));
        let peers = placement::peers(&self.config, attached);
        let links = maps.links()?;
        let desired = Desired { peers, links: links.clone(), ..Desired::default() };
        let observed = Observed { peers: maps.peers()?, links, ..Observed::default() };
        let mut first_failure = Ok(());
        for action in plan::plan(&desired, &observed, false) {
            let applied = self.apply(&action, &observed).await;
            first_failure = first_failure.and(applied);
        }
        first_failure
    }

    fn note_unchanged(&self, unchanged: &mut BTreeMap<Ipv4Addr, Failure>, key: &VipKey, error: &RunError) {
        let left = match self.plane.maps().entry(key) {
            Ok(None | Some(VipEntry { role: Role::Foreign, .. })) => Left::Silent,
            Ok(Some(VipEntry { role: Role::Held | Role::Handover, .. })) | Err(_) => Left::Answering,
        };
        let failure = Failure { left, interface: Some(self.name(key.ifindex)), error: chain(error) };
        let vip = key.addr.into();
        if unchanged.get(&vip).is_none_or(|known: &Failure| known.left < left) {
            unchanged.insert(vip, failure);
        }
    }

    /// Where everything is to be, when VIPs are where `placed` says, and what `is_there` says has an entry.
    fn place(&self, placed: &BTreeMap<Ipv4Addr, u32>, is_there: &dyn Fn(&VipKey) -> bool) -> Placement {
        let vips = self.source.wanted(&self.config);
        placement::place(&self.config, vips, &self.view, placed, is_there, self.plane.maps().max_vips())
    }

    /// Whether the network, as it is now, calls for nothing but what was brought about last.
    pub(super) fn is_settled(&self) -> bool {
        let Some(Settled { placement, placed }) = &self.settled else { return false };
        let attached = self.plane.attached().all(|(ifindex, _)| {
            let interface = self.view.interfaces.get(&ifindex);
            interface.is_some_and(|interface| interface.xdp_programs.contains(&self.program_id))
        });
        let bound = placement.desired.binds.iter().all(|(interface, vip)| {
            let interface = self.view.by_name(interface);
            interface.is_some_and(|interface| interface.addresses.iter().any(|net| net.addr() == *vip))
        });
        let mut now = self.place(placed, &|key| placement.desired.entries.contains_key(key));
        self.leave_out_unattached(&mut now.desired);
        silence(&mut now.desired, &self.held_back);
        attached && bound && now == *placement
    }

    /// Takes everything back: nothing is desired. The fence goes first, which silences all at once, whatever fails.
    pub(super) async fn withdraw(&mut self) -> Result<(), RunError> {
        let over = Fence { deadline_ns: 0, hold_until_ns: 0, ..self.plane.maps().fence()? };
        self.plane.maps_mut().set_fence(&over)?;
        self.started = false;
        let observed = self.observed(self.plane.maps().entries()?, 0).await?;
        let mut first_failure = Ok(());
        for action in plan::plan(&Desired::default(), &observed, false) {
            if let Err(failure) = self.apply(&action, &observed).await {
                error!(?action, "not taken back");
                first_failure = first_failure.and(Err(failure));
            }
        }
        first_failure
    }

    /// What the kernel has now: the entries, as just read, and everything else. `new` entries at most will need a
    /// slot, so that the records of the lowest free ones are read too: they may be of a VIP that had the slot before.
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
            links: maps.links()?,
            peers: maps.peers()?,
            binds: bind::observe_binds(&self.view).await?,
            remembered: self.yielded.clone(),
            max_slots: maps.max_vips(),
            reserved: Slots::default(),
        })
    }

    /// Attaches where it should be and is not, detaches where it should not be. What could not be attached is
    /// `unattached` then.
    fn attach(&mut self, wanted: &[u32]) -> Result<(), RunError> {
        let attached: Vec<(u32, Mode)> = self.plane.attached().collect();
        for (ifindex, mode) in attached {
            let interface = self.view.interfaces.get(&ifindex);
            let keep = interface.is_some_and(|interface| {
                wanted.contains(&ifindex)
                    && modes(self.config.xdp, interface).contains(&mode)
                    && interface.xdp_programs.contains(&self.program_id)
            });
            if !keep {
                self.plane.detach(ifindex)?;
                info!(interface = %self.name(ifindex), %mode, "detached");
            }
        }
        let mut unattached = BTreeMap::new();
        for ifindex in wanted {
            let Some(interface) = self.view.interfaces.get(ifindex) else { continue };
            if self.plane.attached().all(|(attached, _)| attached != *ifindex) {
                let interface = interface.clone();
                if let Err(error) = self.attach_one(&interface) {
                    unattached.insert(*ifindex, chain(&error));
                }
            }
        }
        self.unattached = unattached;
        Ok(())
    }

    /// Attaches in the first mode that the interface takes.
    fn attach_one(&mut self, interface: &Interface) -> Result<(), BpfError> {
        let mut refused = None;
        for mode in modes(self.config.xdp, interface) {
            let other = interface.xdp_programs.first().copied();
            match self.plane.attach(interface.index, &interface.name, *mode, other) {
                Ok(()) => {
                    if let Some(error) = refused {
                        warn!(interface = %interface.name, reason = chain(&error), "attached in generic mode, which is slower");
                    } else {
                        info!(interface = %interface.name, %mode, mac = %interface.mac, "attached");
                    }
                    // What the next look at the interface will say.
                    if let Some(interface) = self.view.interfaces.get_mut(&interface.index) {
                        interface.xdp_programs.push(self.program_id);
                    }
                    return Ok(());
                }
                Err(error @ BpfError::Attach { .. }) if *mode == Mode::Native => refused = Some(error),
                Err(error) => return Err(error),
            }
        }
        refused.map_or(Ok(()), Err)
    }

    /// Nothing is desired where no program answers: an announced VIP must be an answered one.
    fn leave_out_unattached(&self, desired: &mut Desired) {
        let attached: BTreeSet<u32> = self.plane.attached().map(|(ifindex, _)| ifindex).collect();
        desired.entries.retain(|key, _| attached.contains(&key.ifindex));
        desired.links.retain(|ifindex, _| attached.contains(ifindex));
        desired.peers.retain(|(ifindex, _)| attached.contains(ifindex));
        let held: BTreeSet<Ipv4Addr> = desired
            .entries
            .iter()
            .filter(|(_, entry)| entry.role == Role::Held)
            .map(|(key, _)| key.addr.into())
            .collect();
        desired.binds.retain(|(_, vip)| held.contains(vip));
    }

    /// Interfaces on which the kernel may ask with a bound VIP as sender, which the program cannot see.
    fn kernel_may_ask(&self, desired: &Desired) -> Vec<String> {
        if desired.binds.is_empty() {
            return Vec::new();
        }
        let warning = |(ifindex, _)| bind::check_arp_announce(&self.name(ifindex));
        self.plane.attached().filter_map(warning).map(|warning| warning.to_string()).collect()
    }

    async fn apply(&mut self, action: &Action, observed: &Observed) -> Result<(), RunError> {
        debug!(?action, "apply");
        let maps = self.plane.maps_mut();
        match action {
            Action::PutLink { ifindex, mac } => maps.put_link(*ifindex, *mac)?,
            Action::RemoveLink { ifindex } => maps.remove_link(*ifindex)?,
            Action::PutPeer { ifindex, mac } => {
                maps.put_peer(*ifindex, *mac, now()?.as_nanos())?;
                self.tell_conflicts(conflict::Event::Recognised { ifindex: *ifindex, mac: *mac })?;
                self.tell_prober(probing::Event::Recognised { ifindex: *ifindex, mac: *mac })?;
            }
            Action::RemovePeer { ifindex, mac } => maps.remove_peer(*ifindex, *mac)?,
            Action::PutEntry { key, entry, reset_counters, cause } => {
                if *reset_counters {
                    maps.reset_vip_count(entry.slot)?;
                }
                maps.put_entry(key, entry)?;
                self.slots.insert(entry.slot);
                self.entry_changed(key, observed.entries.get(key), Some(entry), &cause.to_string())?;
            }
            Action::RemoveEntry { key, cause } => {
                maps.remove_entry(key)?;
                if let Some(entry) = observed.entries.get(key) {
                    self.slots.remove(entry.slot);
                }
                self.entry_changed(key, observed.entries.get(key), None, &cause.to_string())?;
                self.tell_conflicts(conflict::Event::Forgotten(*key))?;
            }
            Action::AddBind { interface, vip } => bind::add(&self.view, interface, *vip).await?,
            Action::RemoveBind { interface, vip } => bind::remove(&self.view, interface, *vip)?,
        }
        Ok(())
    }

    /// Logs a change of role and tells the announcer.
    fn entry_changed(
        &mut self,
        key: &VipKey,
        from: Option<&VipEntry>,
        to: Option<&VipEntry>,
        cause: &str,
    ) -> Result<(), RunError> {
        let was_held = from.filter(|entry| entry.role == Role::Held);
        let is_held = to.filter(|entry| entry.role == Role::Held);
        let role = |entry: Option<&VipEntry>| entry.map_or("none", |entry| entry.role.name());
        let changed = from.map(|entry| (entry.role, entry.mac)) != to.map(|entry| (entry.role, entry.mac));
        if self.log_each_entry && changed {
            info!(
                vip = %Ipv4Addr::from(key.addr),
                interface = %self.name(key.ifindex),
                from = role(from),
                to = role(to),
                mac = to.map(|entry| MacAddr(entry.mac).to_string()),
                cause,
                "entry changed"
            );
        }
        let event = match (was_held, is_held) {
            (None, Some(entry)) => announce::Event::Taken { key: *key, mac: MacAddr(entry.mac) },
            (Some(from), Some(to)) if from.mac != to.mac => {
                announce::Event::MacChanged { key: *key, mac: MacAddr(to.mac) }
            }
            (Some(from), Some(to)) if from.generation != to.generation => {
                announce::Event::Taken { key: *key, mac: MacAddr(to.mac) }
            }
            (Some(_), None) => announce::Event::Released { key: *key },
            (Some(_), Some(_)) | (None, None) => return Ok(()),
        };
        self.tell_announcer(event)
    }

    pub(super) fn name(&self, ifindex: u32) -> String {
        self.view.name_of(ifindex)
    }
}

fn no_room(max: u32) -> Failure {
    let error = format!("the map holds {max} entries; start the agent with a larger --max-vips");
    Failure { left: Left::Silent, interface: None, error }
}

/// The VIP whose entry an action changes.
fn vip_of(action: &Action) -> Option<Ipv4Addr> {
    match action {
        Action::PutEntry { key, .. } | Action::RemoveEntry { key, .. } => Some(key.addr.into()),
        Action::PutLink { .. }
        | Action::RemoveLink { .. }
        | Action::PutPeer { .. }
        | Action::RemovePeer { .. }
        | Action::AddBind { .. }
        | Action::RemoveBind { .. } => None,
    }
}

/// An entry as it was found, to be left so.
fn as_found(entry: &VipEntry) -> DesiredEntry {
    DesiredEntry { role: entry.role, mac: MacAddr(entry.mac), until_ns: entry.until_ns }
}

/// The modes to try, in order. A veth delivers a native answer only when its peer runs an XDP program too, which
/// no container network arranges.
pub(super) fn modes(configured: XdpMode, interface: &Interface) -> &'static [Mode] {
    match configured {
        XdpMode::Native => &[Mode::Native],
        XdpMode::Generic => &[Mode::Generic],
        XdpMode::Auto if interface.kind == "veth" => &[Mode::Generic],
        XdpMode::Auto => &[Mode::Native, Mode::Generic],
    }
}
