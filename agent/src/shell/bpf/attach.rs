//! Attaches the programs to interfaces, so that they outlive the agent: through pinned links, or
//! through a filter of traffic control where the kernel has no link for it.

use aya::programs::{
    LinkOrder, ProgramError, SchedClassifier, TcAttachType, Xdp, XdpMode,
    links::{FdLink, LinkError, PinnedLink},
    loaded_programs,
    tc::{SchedClassifierLink, TcAttachOptions},
    xdp::XdpLink,
};
use vipward_common::VlanKey;
use vipward_core::{
    attaching::Mode,
    net::{Interface, NetView},
    stack::Point,
};

use super::{
    BpfError, DataPlane, filter,
    pins::{self, LinkPin, Pinned},
    programs::{self, refused},
};

/// A program on an interface.
pub struct Attached {
    /// The mode in which it runs.
    pub mode: Mode,
    /// The open link, if there is one. The pin keeps it attached.
    _link: Option<FdLink>,
}

impl DataPlane {
    /// Returns the interfaces that have a program of their own, with its mode.
    pub fn points(&self) -> impl Iterator<Item = (u32, Mode)> {
        self.links.iter().map(|(ifindex, attached)| (*ifindex, attached.mode))
    }

    /// Returns the interfaces whose frames a program sees, with its mode: those with one of their own,
    /// and VLAN devices above them.
    pub fn attached(&self) -> impl Iterator<Item = (u32, Mode)> {
        let vlans = self.through.iter().filter(|(device, _)| !self.links.contains_key(device));
        let vlans = vlans.filter_map(|(device, key)| Some((*device, self.links.get(&key.ifindex)?.mode)));
        self.points().chain(vlans)
    }

    /// Returns the tags by which another interface's program sees a VLAN device's frames.
    pub fn through(&self, device: u32) -> Option<VlanKey> {
        self.through.get(&device).copied()
    }

    /// Returns true if the kernel runs a program of this one's that sees an interface's frames.
    pub fn runs_on(&self, view: &NetView, ifindex: u32) -> bool {
        if !view.interfaces.contains_key(&ifindex) {
            return false;
        }
        let has_own = self.links.contains_key(&ifindex);
        let through = self.through.get(&ifindex).filter(|_| !has_own);
        let point = through.map_or(ifindex, |key| key.ifindex);
        let (attached, interface) = (self.links.get(&point), view.interfaces.get(&point));
        attached.zip(interface).is_some_and(|(attached, interface)| {
            attached.mode.runs(interface, self.programs.id(attached.mode))
        })
    }

    /// Has the program of a lower interface decide about a VLAN device's frames, instead of one of its
    /// own.
    pub fn attach_through(&mut self, device: u32, point: &Point) -> Result<(), BpfError> {
        let key = VlanKey::new(point.ifindex, point.tags);
        self.maps.put_vlan(key, device)?;
        if let Some(former) = self.through.insert(device, key).filter(|former| *former != key) {
            self.maps.remove_vlan(former)?;
        }
        if self.links.contains_key(&device) {
            self.detach_own(device)?;
        }
        Ok(())
    }

    /// Leaves a VLAN device's frames to its own program.
    pub fn detach_through(&mut self, device: u32) -> Result<(), BpfError> {
        self.through.remove(&device).map_or(Ok(()), |key| self.maps.remove_vlan(key))
    }

    /// Reads the VLAN devices of an earlier agent. Those whose lower interface has no program any more
    /// are left to be attached anew.
    pub(super) fn take_over_vlans(&mut self) -> Result<(), BpfError> {
        for (key, device) in self.maps.vlans()? {
            if self.links.contains_key(&key.ifindex) && !self.through.contains_key(&device) {
                self.through.insert(device, key);
            } else {
                self.maps.remove_vlan(key)?;
            }
        }
        Ok(())
    }

    /// Attaches to an interface.
    pub fn attach(&mut self, interface: &Interface, mode: Mode) -> Result<(), BpfError> {
        let link = match mode {
            Mode::Native => Some(self.attach_xdp(interface, mode, XdpMode::Driver)?),
            Mode::Generic => Some(self.attach_xdp(interface, mode, XdpMode::Skb)?),
            Mode::Tc => self.attach_tc(interface)?,
        };
        self.links.insert(interface.index, Attached { mode, _link: link });
        Ok(())
    }

    fn attach_xdp(&mut self, interface: &Interface, mode: Mode, flags: XdpMode) -> Result<FdLink, BpfError> {
        let program = self.programs.xdp(&mut self.ebpf)?;
        let id = program.attach_to_if_index(interface.index, flags).map_err(|source| {
            if is_busy(&source) {
                let program = describe(interface.xdp_programs.first().copied());
                BpfError::Occupied { interface: interface.name.clone(), program }
            } else {
                attaching(interface, mode)(source)
            }
        })?;
        let link = program.take_link(id).map_err(refused(programs::XDP))?;
        self.pin(link, interface, mode)
    }

    /// Attaches to the ingress of traffic control, before the programs that are there.
    fn attach_tc(&mut self, interface: &Interface) -> Result<Option<FdLink>, BpfError> {
        let program = programs::tc(&mut self.ebpf)?;
        let first = TcAttachOptions::TcxOrder(LinkOrder::first());
        match program.attach_with_options(&interface.name, TcAttachType::Ingress, first) {
            Ok(id) => {
                let link = program.take_link(id).map_err(refused(programs::TC))?;
                self.pin(link, interface, Mode::Tc).map(Some)
            }
            // Linux has links of traffic control (tcx) since 6.6.
            Err(error) if os_error(&error) == Some(libc::EINVAL) => {
                let path = self.pins.filter(interface.index);
                filter::attach(program, interface, &path).map(|()| None)
            }
            Err(error) => Err(attaching(interface, Mode::Tc)(error)),
        }
    }

    fn pin<L>(&self, link: L, interface: &Interface, mode: Mode) -> Result<FdLink, BpfError>
    where
        FdLink: TryFrom<L>,
    {
        let link =
            FdLink::try_from(link).map_err(|_| BpfError::NoLink { interface: interface.name.clone() })?;
        let path = self.pins.link(interface.index, mode);
        let link = link.pin(&path).map_err(|source| BpfError::Pin { path, source })?;
        Ok(link.into())
    }

    /// Detaches from an interface, or removes what is pinned of an interface that is gone.
    pub fn detach(&mut self, ifindex: u32) -> Result<(), BpfError> {
        self.detach_through(ifindex)?;
        self.detach_own(ifindex)
    }

    /// Detaches an interface's own program.
    pub fn detach_own(&mut self, ifindex: u32) -> Result<(), BpfError> {
        for pin in self.pins.links()?.into_iter().filter(|pin| pin.ifindex == ifindex) {
            pin.remove()?;
        }
        self.links.remove(&ifindex);
        Ok(())
    }

    /// Detaches the program of a mode from an interface that another mode's program is attached to.
    pub fn detach_mode(&mut self, ifindex: u32, mode: Mode) -> Result<(), BpfError> {
        let pins = self.pins.links()?.into_iter();
        pins.filter(|pin| (pin.ifindex, pin.mode) == (ifindex, mode)).try_for_each(|pin| pin.remove())
    }

    /// Replaces the program behind every pin by this one. Of two on an interface, which an agent left
    /// that was killed while it changed the mode, one goes.
    pub(super) fn take_over_links(&mut self) -> Result<(), BpfError> {
        for pin in self.pins.links()? {
            if self.links.contains_key(&pin.ifindex) {
                pin.remove()?;
                continue;
            }
            let replaced = match (pin.kind, pin.mode) {
                (Pinned::Filter, _) => filter::replace(programs::tc(&mut self.ebpf)?, &pin).map(|()| None),
                (Pinned::Link, Mode::Tc) => replace_tc(programs::tc(&mut self.ebpf)?, &pin).map(Some),
                (Pinned::Link, Mode::Native | Mode::Generic) => {
                    replace_xdp(self.programs.xdp(&mut self.ebpf)?, &pin).map(Some)
                }
            };
            match replaced {
                Ok(link) => {
                    self.links.insert(pin.ifindex, Attached { mode: pin.mode, _link: link });
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

/// The failure of a replacement.
pub(super) enum Replace {
    /// There is nothing to replace.
    Dead,
    /// The kernel refused.
    Failed(BpfError),
}

fn replace_xdp(program: &mut Xdp, pin: &LinkPin) -> Result<FdLink, Replace> {
    let link = XdpLink::try_from(open(pin)?).map_err(broken(pin))?;
    let id = program.attach_to_link(link).map_err(not_replaced(programs::XDP))?;
    let link = program.take_link(id).map_err(|error| Replace::Failed(refused(programs::XDP)(error)))?;
    FdLink::try_from(link).map_err(broken(pin))
}

fn replace_tc(program: &mut SchedClassifier, pin: &LinkPin) -> Result<FdLink, Replace> {
    let link = SchedClassifierLink::try_from(open(pin)?).map_err(broken(pin))?;
    let id = program.attach_to_link(link).map_err(not_replaced(programs::TC))?;
    let link = program.take_link(id).map_err(|error| Replace::Failed(refused(programs::TC)(error)))?;
    FdLink::try_from(link).map_err(broken(pin))
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

/// Returns the error of a program that could not be attached.
pub(super) fn attaching(interface: &Interface, mode: Mode) -> impl FnOnce(ProgramError) -> BpfError {
    let interface = interface.name.clone();
    move |source| BpfError::Attach { interface, mode, source: Box::new(source) }
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
fn describe(id: Option<u32>) -> String {
    let Some(id) = id else { return "its id is not known".to_owned() };
    let name = loaded_programs()
        .filter_map(Result::ok)
        .find(|program| program.id() == id)
        .and_then(|program| program.name_as_str().map(ToOwned::to_owned));
    match name {
        Some(name) => format!("id {id}, name {name}"),
        None => format!("id {id}"),
    }
}
