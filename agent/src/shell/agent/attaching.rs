//! Attaches the program to interfaces.

use std::collections::{BTreeMap, BTreeSet};

use tracing::{info, warn};
use vipward_common::{VlanKey, VlanTag, VlanTags};
use vipward_core::host::{
    attaching::{Mode, Step},
    net::Interface,
    placement::Desired,
    stack::Point,
};

use super::{error::RunError, event_loop::EventLoop, source::Source};
use crate::shell::{
    kernel::{bind, bpf::BpfError, netdev::has_native_xdp},
    logging::causes::chain,
};

impl<S: Source> EventLoop<S> {
    /// Attaches the wanted interfaces, and detaches all others. `unattached` gets those that fail.
    pub(super) fn attach(&mut self, wanted: &[u32]) -> Result<(), RunError> {
        let mut unattached = BTreeMap::new();
        // The program of a lower interface may see the frames of those above it.
        let mut bottom_up: Vec<u32> =
            wanted.iter().copied().filter(|ifindex| self.view.interfaces.contains_key(ifindex)).collect();
        bottom_up.sort_by_key(|ifindex| self.view.path(*ifindex).len());
        for ifindex in bottom_up {
            let interface = self.view.interfaces[&ifindex].clone();
            let point = self.point_of(&interface, wanted);
            let through = point.map(|point| self.attach_through(&interface, &point));
            if let Some(Err(error)) = &through {
                warn!(interface = %interface.name, error = chain(error), "not attached through a lower interface");
            }
            if !matches!(through, Some(Ok(())))
                && let Err(error) = self.attach_own(&interface).and_then(|()| self.lead_own(&interface))
            {
                unattached.insert(ifindex, chain(&error));
            }
        }
        let attached: Vec<(u32, Mode)> = self.plane.attached().collect();
        for (ifindex, mode) in attached {
            if !wanted.contains(&ifindex) || !self.view.interfaces.contains_key(&ifindex) {
                self.plane.detach(ifindex)?;
                info!(interface = %self.name(ifindex), %mode, "detached");
            }
        }
        self.refused.retain(|ifindex| self.view.interfaces.contains_key(ifindex));
        self.unattached = unattached;
        Ok(())
    }

    fn lead_own(&mut self, interface: &Interface) -> Result<(), BpfError> {
        self.plane.lead(interface.index, self.own_keys(interface))
    }

    /// Returns true if every attached interface is attached in the way that the network, as it is now,
    /// asks for.
    pub(super) fn is_well_attached(&self, wanted: &[u32]) -> bool {
        self.plane.attached().all(|(ifindex, mode)| {
            let Some(interface) = self.view.interfaces.get(&ifindex) else { return false };
            let point = self.point_of(interface, wanted);
            let (keys, is_right) = match &point {
                Some(point) => (self.view.keys_of(point), self.plane.runs_on(&self.view, ifindex)),
                None => (self.own_keys(interface), self.step(interface, mode) == Step::Keep),
            };
            is_right && self.plane.keys_of(ifindex) == keys
        })
    }

    /// Returns the wanted interface whose own program sees a VLAN device's frames, if there is one.
    fn point_of(&self, device: &Interface, wanted: &[u32]) -> Option<Point> {
        self.view.point_of(device, |ifindex| {
            let is_wanted = wanted.contains(&ifindex) && self.plane.runs_on(&self.view, ifindex);
            let (_, mode) = self.plane.points().find(|(point, _)| *point == ifindex && is_wanted)?;
            Some(mode)
        })
    }

    /// Returns the keys of the frames that an interface's own program sees elsewhere: those of a bond,
    /// on its ports.
    fn own_keys(&self, interface: &Interface) -> BTreeSet<VlanKey> {
        let (ifindex, tags) = (interface.index, VlanTags::NONE);
        let own = self.plane.points().find(|(point, _)| *point == ifindex && interface.has_ports());
        let native = own.filter(|(_, mode)| *mode == Mode::Native);
        native.map_or_else(BTreeSet::new, |(_, mode)| self.view.keys_of(&Point { ifindex, mode, tags }))
    }

    /// Has the program of a lower interface decide about a VLAN device's frames, instead of one of its
    /// own.
    fn attach_through(&mut self, device: &Interface, point: &Point) -> Result<(), BpfError> {
        let keys = self.view.keys_of(point);
        let has_own = self.plane.points().any(|(ifindex, _)| ifindex == device.index);
        if !has_own && self.plane.keys_of(device.index) == keys {
            return Ok(());
        }
        self.plane.lead(device.index, keys)?;
        self.plane.detach_own(device.index)?;
        let (interface, through, mode) = (&device.name, self.name(point.ifindex), point.mode);
        info!(%interface, vlan = device.vlan_id(), through, %mode, mac = %device.mac, "attached");
        Ok(())
    }

    /// Attaches a program to an interface, in a mode that is wanted there.
    fn attach_own(&mut self, interface: &Interface) -> Result<(), BpfError> {
        let ifindex = interface.index;
        let modes = self.config.attach.modes(interface, &self.view);
        let Some((_, mode)) = self.plane.points().find(|(point, _)| *point == ifindex) else {
            return self.attach_in(interface, modes);
        };
        match self.step(interface, mode) {
            Step::Keep => Ok(()),
            Step::Add(better) => match self.attach_in(interface, better) {
                Ok(()) => {
                    self.plane.detach_mode(ifindex, mode)?;
                    info!(interface = %interface.name, %mode, "detached");
                    Ok(())
                }
                Err(error) if is_about_the_mode(&error) && modes.contains(&mode) => {
                    info!(interface = %interface.name, %mode, refused = chain(&error), "stays attached");
                    self.refused.insert(ifindex);
                    Ok(())
                }
                Err(error) => Err(error),
            },
            Step::Replace => {
                self.detach_own(interface)?;
                self.attach_in(interface, modes)
            }
        }
    }

    /// Returns the next step for an interface that has a program of its own.
    fn step(&self, interface: &Interface, mode: Mode) -> Step<'static> {
        let modes = self.config.attach.modes(interface, &self.view);
        let runs = self.plane.runs_on(&self.view, interface.index);
        Step::of(modes, mode, runs, self.refused.contains(&interface.index))
    }

    fn detach_own(&mut self, interface: &Interface) -> Result<(), BpfError> {
        let own = self.plane.points().find(|(point, _)| *point == interface.index);
        if let Some((ifindex, mode)) = own {
            self.plane.detach_own(ifindex)?;
            info!(interface = %interface.name, %mode, "detached");
        }
        Ok(())
    }

    /// Attaches a native program again that sees none of a segment's frames. A driver may have lost it
    /// while the interface was down, as vmxnet3 does on Linux 6.12. On a bond the ports' entries are
    /// missing instead.
    pub(super) fn attach_again(&mut self, segment: u32) -> Result<(), BpfError> {
        let native = self
            .plane
            .point_of(segment)
            .filter(|point| self.plane.points().any(|own| own == (*point, Mode::Native)));
        let interface = native.and_then(|point| self.view.interfaces.get(&point)).cloned();
        match interface.filter(|interface| !interface.has_ports()) {
            Some(interface) => {
                self.detach_own(&interface)?;
                let modes = self.config.attach.modes(&interface, &self.view);
                self.attach_in(&interface, modes)
            }
            None => Ok(()),
        }
    }

    /// Attaches in the first of some modes that the interface accepts.
    fn attach_in(&mut self, interface: &Interface, modes: &[Mode]) -> Result<(), BpfError> {
        let mut refused: Option<BpfError> = None;
        for mode in modes {
            match self.plane.attach(interface, *mode) {
                Ok(()) => {
                    if refused.is_some() {
                        self.refused.insert(interface.index);
                    }
                    let refused = refused.as_ref().map(|error| chain(error));
                    let vlan = interface.vlan_id();
                    info!(interface = %interface.name, vlan, %mode, mac = %interface.mac, refused, "attached");
                    self.say_why_not_native(interface, *mode);
                    let program = self.plane.program_on(interface.index).unwrap_or_default();
                    if let Some(interface) = self.view.interfaces.get_mut(&interface.index) {
                        mode.note(interface, program);
                    }
                    return Ok(());
                }
                Err(error) if is_about_the_mode(&error) => refused = Some(error),
                Err(error) => return Err(error),
            }
        }
        refused.map_or(Ok(()), Err)
    }

    /// Logs the way to native mode if only the card's VLAN offload is in it.
    fn say_why_not_native(&self, interface: &Interface, mode: Mode) {
        let is_service = |vlan: &Interface| vlan.vlan.is_some_and(VlanTag::is_service);
        let mut vlans = self.view.vlans_on(interface.index).peekable();
        let offload_alone = interface.strips_tags && vlans.peek().is_some() && !vlans.any(is_service);
        if offload_alone
            && !interface.is_software()
            && mode == Mode::Tc
            && has_native_xdp(interface.index).unwrap_or(false)
        {
            let (interface, remedy) = (&interface.name, format!("ethtool -K {} rxvlan off", interface.name));
            info!(%interface, remedy, "tc, since the card takes VLAN tags off before XDP sees them");
        }
    }

    /// Returns a warning for each interface on which the kernel may send ARP requests with a bound
    /// VIP as sender. The program cannot see those.
    pub(super) fn kernel_may_ask(&self, desired: &Desired) -> Vec<String> {
        if !desired.binds.iter().any(|(_, vip)| vip.is_ipv4()) {
            return Vec::new();
        }
        let warning = |(ifindex, _)| bind::check_arp_announce(&self.name(ifindex));
        self.plane.attached().filter_map(warning).map(|warning| warning.to_string()).collect()
    }
}

/// Returns true if another mode may work after this error.
fn is_about_the_mode(error: &BpfError) -> bool {
    matches!(error, BpfError::NoProgram { .. } | BpfError::Attach { .. } | BpfError::Occupied { .. })
}
