//! Attaches the program to interfaces.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv4Addr,
};

use tracing::info;
use vipward_common::{Role, VipKey};
use vipward_core::{attaching::Mode, net::Interface, placement::Desired};

use super::{EventLoop, RunError, source::Source};
use crate::shell::{bind, bpf::BpfError, causes::chain};

impl<S: Source> EventLoop<S> {
    /// Attaches the wanted interfaces, and detaches all others. `unattached` gets those that fail.
    pub(super) fn attach(&mut self, wanted: &[u32]) -> Result<(), RunError> {
        let mut unattached = BTreeMap::new();
        let attached: Vec<(u32, Mode)> = self.plane.attached().collect();
        for (ifindex, mode) in attached {
            let interface = self.view.interfaces.get(&ifindex).filter(|_| wanted.contains(&ifindex)).cloned();
            let modes = interface.as_ref().map(|interface| self.config.attach.modes(interface, &self.view));
            let is_wanted = modes.is_some_and(|modes| modes.contains(&mode));
            let runs = interface.as_ref().is_some_and(|interface| self.plane.runs_on(interface));
            if is_wanted && runs {
                continue;
            }
            // XDP and traffic control run beside each other. So the new program comes first, and if it
            // is refused, the old one stays.
            let runs_beside = |other: &Mode| (*other == Mode::Tc) != (mode == Mode::Tc);
            let comes_first = modes.and_then(<[Mode]>::first).is_some_and(runs_beside);
            match interface {
                Some(interface) if runs && comes_first => {
                    if let Err(error) = self.attach_one(&interface) {
                        unattached.insert(ifindex, chain(&error));
                        continue;
                    }
                    self.plane.detach_mode(ifindex, mode)?;
                }
                _ => self.plane.detach(ifindex)?,
            }
            info!(interface = %self.name(ifindex), %mode, "detached");
        }
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

    /// Attaches in the first mode that the interface accepts.
    fn attach_one(&mut self, interface: &Interface) -> Result<(), BpfError> {
        let modes = self.config.attach.modes(interface, &self.view);
        if modes.is_empty() {
            let (interface, kind) = (interface.name.clone(), interface.kind.clone());
            return Err(BpfError::OnPorts { interface, kind });
        }
        let mut refused: Option<BpfError> = None;
        for mode in modes {
            match self.plane.attach(interface, *mode) {
                Ok(()) => {
                    let refused = refused.as_ref().map(|error| chain(error));
                    info!(interface = %interface.name, %mode, mac = %interface.mac, refused, "attached");
                    let program = self.plane.program_id(*mode);
                    if let Some(interface) = self.view.interfaces.get_mut(&interface.index) {
                        mode.note(interface, program);
                    }
                    return Ok(());
                }
                Err(error @ (BpfError::Attach { .. } | BpfError::Occupied { .. })) => {
                    refused = Some(error);
                }
                Err(error) => return Err(error),
            }
        }
        refused.map_or(Ok(()), Err)
    }

    /// Removes the desired entries on interfaces without the program, because an announced VIP must
    /// be answered. Removes those too that would silence another program too early.
    pub(super) fn leave_out(&self, desired: &mut Desired) {
        let attached: BTreeSet<u32> = self.plane.attached().map(|(ifindex, _)| ifindex).collect();
        desired.entries.retain(|key, _| attached.contains(&key.ifindex));
        desired.own_macs.retain(|ifindex, _| attached.contains(ifindex));
        desired.peers.retain(|(ifindex, _)| attached.contains(ifindex));
        let is_held = |vip: &Ipv4Addr| {
            let mut here = attached.iter().map(|ifindex| VipKey::untagged(*ifindex, vip.octets()));
            here.any(|key| desired.entries.get(&key).is_some_and(|entry| entry.role == Role::Held))
        };
        desired.binds.retain(|(_, vip)| is_held(vip));
        desired.leave_audible(&self.view, |vip| self.source.is_new(vip));
    }

    /// Returns a warning for each interface on which the kernel may send ARP requests with a bound
    /// VIP as sender. The program cannot see those.
    pub(super) fn kernel_may_ask(&self, desired: &Desired) -> Vec<String> {
        if desired.binds.is_empty() {
            return Vec::new();
        }
        let warning = |(ifindex, _)| bind::check_arp_announce(&self.name(ifindex));
        self.plane.attached().filter_map(warning).map(|warning| warning.to_string()).collect()
    }
}
