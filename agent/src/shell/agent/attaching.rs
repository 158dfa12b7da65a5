//! Attaches the program to interfaces.

use std::collections::BTreeMap;

use tracing::{info, warn};
use vipward_core::host::{
    attaching::{Attach, Mode, Step, WhyNotNative},
    net::{Interface, NetView},
    stack::Point,
};

use crate::shell::{
    kernel::{
        bind,
        bpf::{BpfError, DataPlane},
        netdev::has_native_xdp,
    },
    logging::causes::chain,
};

/// Attaches the wanted interfaces, and detaches all others. The table of attachments gets those that
/// fail, and the view the programs that run.
pub(super) fn attach(
    plane: &mut DataPlane,
    view: &mut NetView,
    attach: Attach,
    wanted: &[u32],
) -> Result<(), BpfError> {
    Attaching { plane, view, attach }.attach(wanted)
}

/// Attaches a native program again that sees none of a segment's frames. A driver may have lost it
/// while the interface was down, as vmxnet3 does on Linux 6.12. On a bond the ports' entries are
/// missing instead.
pub(super) fn attach_again(
    plane: &mut DataPlane,
    view: &mut NetView,
    attach: Attach,
    segment: u32,
) -> Result<(), BpfError> {
    let interface = plane.attachments().native_point(view, segment).cloned();
    interface.map_or(Ok(()), |interface| Attaching { plane, view, attach }.replace_own(&interface))
}

/// Returns a warning for each interface on which the kernel may send ARP requests with a bound
/// VIP as sender. The program cannot see those.
pub(super) fn kernel_may_ask(plane: &DataPlane, view: &NetView, binds_ipv4: bool) -> Vec<String> {
    let warning = |(ifindex, _)| bind::check_arp_announce(&view.name_of(ifindex));
    let attached = plane.attachments().attached().filter(|_| binds_ipv4);
    attached.filter_map(warning).map(|warning| warning.to_string()).collect()
}

/// The objects that an attachment changes, and the setting that it follows.
struct Attaching<'a> {
    plane: &'a mut DataPlane,
    view: &'a mut NetView,
    attach: Attach,
}

impl Attaching<'_> {
    fn attach(&mut self, wanted: &[u32]) -> Result<(), BpfError> {
        let mut unattached = BTreeMap::new();
        // The program of a lower interface may see the frames of those above it.
        let mut bottom_up: Vec<u32> =
            wanted.iter().copied().filter(|ifindex| self.view.interfaces.contains_key(ifindex)).collect();
        bottom_up.sort_by_key(|ifindex| self.view.path(*ifindex).len());
        for ifindex in bottom_up {
            let interface = self.view.interfaces[&ifindex].clone();
            let point = self.plane.attachments().point_below(self.view, &interface, wanted);
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
        let attached: Vec<(u32, Mode)> = self.plane.attachments().attached().collect();
        for (ifindex, mode) in attached {
            if !wanted.contains(&ifindex) || !self.view.interfaces.contains_key(&ifindex) {
                self.plane.detach(ifindex)?;
                info!(interface = %self.view.name_of(ifindex), %mode, "detached");
            }
        }
        let attachments = self.plane.attachments_mut();
        attachments.forget_gone(self.view);
        attachments.set_unattached(unattached);
        Ok(())
    }

    fn lead_own(&mut self, interface: &Interface) -> Result<(), BpfError> {
        let keys = self.plane.attachments().own_keys(self.view, interface);
        self.plane.lead(interface.index, keys)
    }

    /// Has the program of a lower interface decide about a VLAN device's frames, instead of one of its
    /// own.
    fn attach_through(&mut self, device: &Interface, point: &Point) -> Result<(), BpfError> {
        let keys = self.view.keys_of(point);
        let attachments = self.plane.attachments();
        if attachments.own(device.index).is_none() && attachments.keys_of(device.index) == keys {
            return Ok(());
        }
        self.plane.lead(device.index, keys)?;
        self.plane.detach_own(device.index)?;
        let (interface, through, mode) = (&device.name, self.view.name_of(point.ifindex), point.mode);
        info!(%interface, vlan = device.vlan_id(), through, %mode, mac = %device.mac, "attached");
        Ok(())
    }

    /// Attaches a program to an interface, in a mode that is wanted there.
    fn attach_own(&mut self, interface: &Interface) -> Result<(), BpfError> {
        let ifindex = interface.index;
        let modes = self.attach.modes(interface, self.view);
        let attachments = self.plane.attachments();
        let step = attachments.step(self.view, self.attach, interface);
        let (Some(own), Some(step)) = (attachments.own(ifindex), step) else {
            return self.attach_in(interface, modes);
        };
        let mode = own.mode;
        match step {
            Step::Keep => Ok(()),
            Step::Add(better) => match self.attach_in(interface, better) {
                Ok(()) => {
                    self.plane.detach_mode(ifindex, mode)?;
                    info!(interface = %interface.name, %mode, "detached");
                    Ok(())
                }
                Err(error) if is_about_the_mode(&error) && modes.contains(&mode) => {
                    info!(interface = %interface.name, %mode, refused = chain(&error), "stays attached");
                    self.plane.attachments_mut().refuse(ifindex);
                    Ok(())
                }
                Err(error) => Err(error),
            },
            Step::Replace => self.replace_own(interface),
        }
    }

    /// Detaches an interface's own program, and attaches one.
    fn replace_own(&mut self, interface: &Interface) -> Result<(), BpfError> {
        if let Some(own) = self.plane.attachments().own(interface.index) {
            self.plane.detach_own(interface.index)?;
            info!(interface = %interface.name, mode = %own.mode, "detached");
        }
        let modes = self.attach.modes(interface, self.view);
        self.attach_in(interface, modes)
    }

    /// Attaches in the first of some modes that the interface accepts.
    fn attach_in(&mut self, interface: &Interface, modes: &[Mode]) -> Result<(), BpfError> {
        let mut refused: Option<BpfError> = None;
        for mode in modes {
            match self.plane.attach(interface, *mode) {
                Ok(()) => {
                    if refused.is_some() {
                        self.plane.attachments_mut().refuse(interface.index);
                    }
                    let refused = refused.as_ref().map(|error| chain(error));
                    let vlan = interface.vlan_id();
                    info!(interface = %interface.name, vlan, %mode, mac = %interface.mac, refused, "attached");
                    self.say_why_not_native(interface, *mode);
                    let own = self.plane.attachments().own(interface.index);
                    if let Some(interface) = self.view.interfaces.get_mut(&interface.index) {
                        mode.note(interface, own.map(|own| own.id).unwrap_or_default());
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
        if mode == Mode::Tc
            && WhyNotNative::is_offload_alone(interface, self.view)
            && has_native_xdp(interface.index).unwrap_or(false)
        {
            let (interface, remedy) = (&interface.name, format!("ethtool -K {} rxvlan off", interface.name));
            info!(%interface, remedy, "tc, since the card takes VLAN tags off before XDP sees them");
        }
    }
}

/// Returns true if another mode may work after this error.
fn is_about_the_mode(error: &BpfError) -> bool {
    matches!(error, BpfError::NoProgram { .. } | BpfError::Attach { .. } | BpfError::Occupied { .. })
}
