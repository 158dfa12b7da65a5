//! Attaches the programs to interfaces, so that they outlive the agent: through pinned links, or
//! through a filter of traffic control where the kernel has no link for it.

use std::{collections::BTreeSet, path::PathBuf};

use aya::programs::{
    LinkOrder, ProgramError, ProgramInfo, SchedClassifier, TcAttachType, Xdp, XdpMode,
    links::{FdLink, LinkError, PinnedLink},
    loaded_programs,
    tc::{SchedClassifierLink, TcAttachOptions},
    xdp::XdpLink,
};
use tracing::info;
use vipward_common::VlanKey;
use vipward_core::{
    diagnosis::pinned::LinkIds,
    host::{
        attaching::{self, Attachments, Mode, OwnProgram, Programs as _},
        net::Interface,
    },
};

use super::{
    data_plane::DataPlane,
    error::{BpfError, Replace, not_attached},
    filter,
    pins::{self, LinkPin, Pinned},
    programs::{self, refused},
    sys,
};
use crate::shell::{kernel::netdev::has_native_xdp, logging::errors::chain};

impl DataPlane {
    /// Takes over the attachments of an earlier agent. Keys of interfaces without a program, or above
    /// one, are removed.
    pub(super) fn take_over(&mut self) -> Result<(), BpfError> {
        for (key, device) in self.maps.vlans()? {
            self.attachments.insert_key(device, key);
        }
        self.take_over_links()?;
        let unseen = self.attachments.unseen();
        unseen.into_iter().try_for_each(|device| self.lead(device, BTreeSet::new()))
    }

    fn attach_xdp(
        &mut self,
        interface: &Interface,
        mode: Mode,
        flags: XdpMode,
    ) -> Result<(u32, PathBuf), BpfError> {
        let loaded = self.programs.xdp(&mut self.ebpf, mode.runs_on_ports(interface));
        let (program, program_id) = loaded.map_err(no_program(interface))?;
        let id = program.attach_to_if_index(interface.index, flags).map_err(|source| {
            if is_busy(&source) {
                let there = interface.xdp_programs.first();
                let program = there.map_or_else(|| "its id is not known".to_owned(), |id| describe(*id));
                BpfError::Occupied { interface: interface.name.clone(), program }
            } else {
                not_attached(interface, mode)(source)
            }
        })?;
        let link = program.take_link(id).map_err(refused(programs::XDP))?;
        Ok((program_id, self.pin(link, interface, mode)?))
    }

    /// Attaches to the ingress of traffic control, before the programs that are there.
    fn attach_tc(&mut self, interface: &Interface) -> Result<(u32, PathBuf), BpfError> {
        let (program, program_id) = self.programs.tc(&mut self.ebpf).map_err(no_program(interface))?;
        let first = TcAttachOptions::TcxOrder(LinkOrder::first());
        match program.attach_with_options(&interface.name, TcAttachType::Ingress, first) {
            Ok(id) => {
                let link = program.take_link(id).map_err(refused(programs::TC))?;
                Ok((program_id, self.pin(link, interface, Mode::Tc)?))
            }
            // Linux has links of traffic control (tcx) since 6.6.
            Err(error) if os_error(&error) == Some(libc::EINVAL) => {
                let path = self.pins.filter(interface.index);
                filter::attach(program, interface, &path).map(|()| (program_id, path))
            }
            Err(error) => Err(not_attached(interface, Mode::Tc)(error)),
        }
    }

    /// Pins a link. Returns its path.
    fn pin<L>(&self, link: L, interface: &Interface, mode: Mode) -> Result<PathBuf, BpfError>
    where
        FdLink: TryFrom<L>,
    {
        let link =
            FdLink::try_from(link).map_err(|_| BpfError::NoLink { interface: interface.name.clone() })?;
        let path = self.pins.link(interface.index, mode);
        match link.pin(&path) {
            Ok(_) => Ok(path),
            Err(source) => Err(BpfError::Pin { path, source }),
        }
    }

    /// Replaces the program behind every pin by this one. Of two on an interface, which an agent left
    /// that was killed while it changed the mode, one goes.
    fn take_over_links(&mut self) -> Result<(), BpfError> {
        for pin in self.pins.links()? {
            if self.attachments.own(pin.ifindex).is_some() {
                pin.remove()?;
                continue;
            }
            let has_ports = self.attachments.keys_of(pin.ifindex).iter().any(|key| key.is_untagged());
            let on_ports = pin.mode == Mode::Native && has_ports;
            let (id, replaced) = match pin.mode {
                Mode::Tc => {
                    let (tc, id) = self.programs.tc(&mut self.ebpf)?;
                    let replaced = match pin.kind {
                        Pinned::Filter => filter::replace(tc, &pin),
                        Pinned::Link => replace_tc(tc, &pin),
                    };
                    (id, replaced)
                }
                Mode::Native | Mode::Generic => {
                    let (xdp, id) = self.programs.xdp(&mut self.ebpf, on_ports)?;
                    (id, replace_xdp(xdp, &pin))
                }
            };
            match replaced {
                Ok(()) => {
                    self.attachments.insert(pin.ifindex, OwnProgram { mode: pin.mode, id, on_ports });
                }
                // The interface is gone, and only the pin is left.
                Err(Replace::Dead) => {
                    pins::remove(&pin.path)?;
                }
                Err(Replace::Failed(error)) => return Err(error),
            }
        }
        Ok(())
    }
}

impl attaching::Programs for DataPlane {
    type Error = BpfError;

    fn attachments(&self) -> &Attachments {
        &self.attachments
    }

    fn attachments_mut(&mut self) -> &mut Attachments {
        &mut self.attachments
    }

    fn attach(&mut self, interface: &Interface, mode: Mode) -> Result<(), BpfError> {
        let (id, pin) = match mode {
            Mode::Native if !interface.is_software() => {
                info!(
                    interface = interface.name,
                    "attaching native XDP, which resets some cards' links for seconds"
                );
                self.attach_xdp(interface, mode, XdpMode::Driver)?
            }
            Mode::Native => self.attach_xdp(interface, mode, XdpMode::Driver)?,
            Mode::Generic => self.attach_xdp(interface, mode, XdpMode::Skb)?,
            Mode::Tc => self.attach_tc(interface)?,
        };
        let own = OwnProgram { mode, id, on_ports: mode.runs_on_ports(interface) };
        self.attachments.insert(interface.index, own);
        // The link has a pin now, and only this one.
        self.held.close(|pin| pin.ifindex == interface.index);
        self.held.add(pin)?;
        Ok(())
    }

    fn lead(&mut self, ifindex: u32, keys: BTreeSet<VlanKey>) -> Result<(), BpfError> {
        for key in keys.difference(&self.attachments.keys_of(ifindex)) {
            self.maps.put_vlan(*key, ifindex)?;
        }
        let stale = self.attachments.lead(ifindex, keys);
        stale.into_iter().try_for_each(|key| self.maps.remove_vlan(key))
    }

    fn detach_own(&mut self, ifindex: u32) -> Result<(), BpfError> {
        for pin in self.pins.links()?.into_iter().filter(|pin| pin.ifindex == ifindex) {
            pin.remove()?;
        }
        self.attachments.remove(ifindex);
        self.held.close(|pin| pin.ifindex == ifindex);
        Ok(())
    }

    fn detach_mode(&mut self, ifindex: u32, mode: Mode) -> Result<(), BpfError> {
        let pins = self.pins.links()?.into_iter();
        pins.filter(|pin| (pin.ifindex, pin.mode) == (ifindex, mode)).try_for_each(|pin| pin.remove())
    }

    fn offers_native(&self, ifindex: u32) -> bool {
        has_native_xdp(ifindex).unwrap_or(false)
    }

    fn is_about_the_mode(error: &BpfError) -> bool {
        matches!(error, BpfError::NoProgram { .. } | BpfError::Attach { .. } | BpfError::Occupied { .. })
    }

    fn in_words(error: &BpfError) -> String {
        chain(error)
    }
}

impl LinkPin {
    /// Detaches the program and removes the pin.
    pub(super) fn remove(&self) -> Result<(), BpfError> {
        match self.kind {
            Pinned::Link => sys::detach_link(&self.path).map_err(|source| BpfError::PinFile {
                operation: "detach the link of",
                path: self.path.clone(),
                source,
            })?,
            Pinned::Filter => filter::detach(self.ifindex)?,
        }
        pins::remove(&self.path).map(|_| ())
    }

    /// Returns true if the pinned program has a name of Vipward's. For a link, that needs `CAP_SYS_ADMIN`.
    pub(super) fn is_vipwards(&self) -> Result<bool, BpfError> {
        let id = self.ids()?.program;
        let named =
            |program: &ProgramInfo| program.name_as_str().is_some_and(|name| name.starts_with(programs::XDP));
        if self.kind == Pinned::Filter {
            return ProgramInfo::from_pin(&self.path).map(|it| named(&it)).map_err(refused(programs::TC));
        }
        for program in loaded_programs() {
            match program {
                Ok(program) if program.id() == id => return Ok(named(&program)),
                Err(error) if os_error(&error) == Some(libc::EPERM) => {
                    return Err(refused(programs::XDP)(error));
                }
                // Another program may have ended meanwhile.
                Ok(_) | Err(_) => {}
            }
        }
        Ok(false)
    }

    pub fn ids(&self) -> Result<LinkIds, BpfError> {
        match self.kind {
            Pinned::Link => {
                let failed = |source| BpfError::Link {
                    operation: "read",
                    interface: format!("interface {}", self.ifindex),
                    source: Box::new(source),
                };
                let link = FdLink::from(PinnedLink::from_pin(&self.path).map_err(failed)?);
                let info = link.info().map_err(failed)?;
                Ok(LinkIds { link: Some(info.id()), program: info.program_id() })
            }
            Pinned::Filter => {
                let info = ProgramInfo::from_pin(&self.path).map_err(refused(programs::TC))?;
                Ok(LinkIds { link: None, program: info.id() })
            }
        }
    }
}

fn replace_xdp(program: &mut Xdp, pin: &LinkPin) -> Result<(), Replace> {
    let link = XdpLink::try_from(open(pin)?).map_err(broken(pin))?;
    let id = program.attach_to_link(link).map_err(not_replaced(programs::XDP))?;
    let link = program.take_link(id).map_err(|error| Replace::Failed(refused(programs::XDP)(error)))?;
    FdLink::try_from(link).map(drop).map_err(broken(pin))
}

fn replace_tc(program: &mut SchedClassifier, pin: &LinkPin) -> Result<(), Replace> {
    let link = SchedClassifierLink::try_from(open(pin)?).map_err(broken(pin))?;
    let id = program.attach_to_link(link).map_err(not_replaced(programs::TC))?;
    let link = program.take_link(id).map_err(|error| Replace::Failed(refused(programs::TC)(error)))?;
    FdLink::try_from(link).map(drop).map_err(broken(pin))
}

fn open(pin: &LinkPin) -> Result<FdLink, Replace> {
    PinnedLink::from_pin(&pin.path).map(FdLink::from).map_err(broken(pin))
}

fn broken(pin: &LinkPin) -> impl Fn(LinkError) -> Replace {
    let interface = format!("interface {}", pin.ifindex);
    move |source| {
        Replace::Failed(BpfError::Link {
            operation: "open",
            interface: interface.clone(),
            source: Box::new(source),
        })
    }
}

fn not_replaced(program: &'static str) -> impl FnOnce(ProgramError) -> Replace {
    move |error| match os_error(&error) {
        Some(libc::ENOLINK) => Replace::Dead,
        _ => Replace::Failed(refused(program)(error)),
    }
}

/// Returns the error of a program that could not be loaded for an interface.
fn no_program(interface: &Interface) -> impl FnOnce(BpfError) -> BpfError {
    let interface = interface.name.clone();
    move |source| BpfError::NoProgram { interface, source: Box::new(source) }
}

fn os_error(error: &ProgramError) -> Option<i32> {
    match error {
        ProgramError::SyscallError(error) => error.io_error.raw_os_error(),
        _ => None,
    }
}

fn is_busy(error: &ProgramError) -> bool {
    matches!(os_error(error), Some(libc::EBUSY | libc::EEXIST))
}

/// Returns a program's id and, with `CAP_SYS_ADMIN`, its name.
pub(crate) fn describe(id: u32) -> String {
    let name = loaded_programs()
        .filter_map(Result::ok)
        .find(|program| program.id() == id)
        .and_then(|program| program.name_as_str().map(ToOwned::to_owned));
    match name {
        Some(name) => format!("id {id}, name {name}"),
        None => format!("id {id}"),
    }
}
