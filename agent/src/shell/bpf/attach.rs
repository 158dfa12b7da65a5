//! Attaches the program to interfaces, through pinned links that outlive the agent.

use aya::programs::{
    ProgramError, Xdp, XdpMode,
    links::{FdLink, LinkError, PinnedLink},
    loaded_programs,
    xdp::XdpLink,
};
use vipward_core::pinned::Mode;

use super::{
    BpfError, DataPlane,
    pins::{self, LinkPin},
    program_mut, refused,
};

/// A program on an interface.
pub struct Attached {
    /// The mode in which it runs.
    pub mode: Mode,
    /// The open link. The pin keeps it attached.
    _link: FdLink,
}

impl DataPlane {
    /// Returns the interfaces that the program is attached to, with the mode.
    pub fn attached(&self) -> impl Iterator<Item = (u32, Mode)> {
        self.links.iter().map(|(ifindex, attached)| (*ifindex, attached.mode))
    }

    /// Attaches to an interface. `other` is the id of another XDP program on it, if one is known.
    pub fn attach(
        &mut self,
        ifindex: u32,
        interface: &str,
        mode: Mode,
        other: Option<u32>,
    ) -> Result<(), BpfError> {
        let program = program_mut(&mut self.ebpf)?;
        let id = program.attach_to_if_index(ifindex, flags(mode)).map_err(|source| {
            if is_busy(&source) {
                BpfError::Occupied { interface: interface.to_owned(), program: describe(other) }
            } else {
                BpfError::Attach { interface: interface.to_owned(), mode, source: Box::new(source) }
            }
        })?;
        let link = program.take_link(id).map_err(refused)?;
        let link =
            FdLink::try_from(link).map_err(|_| BpfError::NoLink { interface: interface.to_owned() })?;
        let path = self.pins.link(ifindex, mode);
        let link = link.pin(&path).map_err(|source| BpfError::Pin { path, source })?;
        self.links.insert(ifindex, Attached { mode, _link: link.into() });
        Ok(())
    }

    /// Detaches from an interface, or removes a link whose interface is gone.
    pub fn detach(&mut self, ifindex: u32) -> Result<(), BpfError> {
        for link in self.pins.links()?.into_iter().filter(|link| link.ifindex == ifindex) {
            link.remove()?;
        }
        self.links.remove(&ifindex);
        Ok(())
    }

    /// Replaces the program of every pinned link by this one.
    pub(super) fn take_over_links(&mut self) -> Result<(), BpfError> {
        for pin in self.pins.links()? {
            match replace(program_mut(&mut self.ebpf)?, &pin) {
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

fn flags(mode: Mode) -> XdpMode {
    match mode {
        Mode::Native => XdpMode::Driver,
        Mode::Generic => XdpMode::Skb,
    }
}

enum Replace {
    Dead,
    Failed(BpfError),
}

fn replace(program: &mut Xdp, pin: &LinkPin) -> Result<FdLink, Replace> {
    let failed = |source: LinkError| {
        Replace::Failed(BpfError::Link {
            operation: "open",
            interface: format!("interface {}", pin.ifindex),
            source: Box::new(source),
        })
    };
    let link = FdLink::from(PinnedLink::from_pin(&pin.path).map_err(failed)?);
    let link = XdpLink::try_from(link).map_err(failed)?;
    let id = program.attach_to_link(link).map_err(|error| {
        if os_error(&error) == Some(libc::ENOLINK) { Replace::Dead } else { Replace::Failed(refused(error)) }
    })?;
    let link = program.take_link(id).map_err(|error| Replace::Failed(refused(error)))?;
    FdLink::try_from(link).map_err(failed)
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
