//! Attaching the program to interfaces, through links that are pinned and outlive the agent.

use std::fmt;

use aya::programs::{
    ProgramError, Xdp, XdpMode,
    links::{FdLink, LinkError, PinnedLink},
    loaded_programs,
    xdp::XdpLink,
};
use serde::Serialize;

use super::{
    BpfError, DataPlane,
    pins::{self, LinkPin},
    program_mut, refused,
};

/// How the program runs on an interface.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize))]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// In the driver, before there is a socket buffer.
    Native,
    /// In the network stack; works on every interface.
    Generic,
}

impl Mode {
    const ALL: [Self; 2] = [Self::Native, Self::Generic];

    pub(super) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.to_string() == name)
    }

    fn flags(self) -> XdpMode {
        match self {
            Self::Native => XdpMode::Driver,
            Self::Generic => XdpMode::Skb,
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Native => "native",
            Self::Generic => "generic",
        })
    }
}

/// A program on an interface.
pub struct Attached {
    /// How it runs.
    pub mode: Mode,
    /// Keeps the link open; the pin keeps it attached.
    _link: FdLink,
}

impl DataPlane {
    /// The interfaces that the program is on, and how.
    pub fn attached(&self) -> impl Iterator<Item = (u32, Mode)> {
        self.links.iter().map(|(ifindex, attached)| (*ifindex, attached.mode))
    }

    /// Attaches to an interface. `other` is the id of the XDP program that it is known to have, if any.
    pub fn attach(
        &mut self,
        ifindex: u32,
        interface: &str,
        mode: Mode,
        other: Option<u32>,
    ) -> Result<(), BpfError> {
        let program = program_mut(&mut self.ebpf)?;
        let id = program.attach_to_if_index(ifindex, mode.flags()).map_err(|source| {
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

    /// Detaches from an interface, or forgets a link whose interface is gone.
    pub fn detach(&mut self, ifindex: u32) -> Result<(), BpfError> {
        for link in self.pins.links()?.into_iter().filter(|link| link.ifindex == ifindex) {
            link.remove()?;
        }
        self.links.remove(&ifindex);
        Ok(())
    }

    /// Puts this program in the place of the one that every pinned link runs.
    pub(super) fn take_over_links(&mut self) -> Result<(), BpfError> {
        for pin in self.pins.links()? {
            match replace(program_mut(&mut self.ebpf)?, &pin) {
                Ok(link) => {
                    self.links.insert(pin.ifindex, Attached { mode: pin.mode, _link: link });
                }
                // The interface is gone, and the link is only a name.
                Err(Replace::Dead) => {
                    pins::remove(&pin.path)?;
                }
                Err(Replace::Failed(error)) => return Err(error),
            }
        }
        Ok(())
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

/// A program by its id and, where the kernel lets us look (`CAP_SYS_ADMIN`), its name.
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
