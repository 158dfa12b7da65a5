//! Filters of traffic control, for kernels that have no links for it (before Linux 6.6).
//!
//! A filter outlives the agent by itself. Its program is pinned beside the maps, so that the next
//! agent and `unload` find it.

use std::{fs, path::Path};

use aya::programs::{
    ProgramError, SchedClassifier, TcAttachType,
    links::Link,
    tc::{self, NlOptions, SchedClassifierLink, TcAttachOptions, TcError, TcHandle},
};
use nix::net::if_::if_indextoname;
use vipward_core::host::{attaching::Mode, net::Interface};

use super::{
    error::{BpfError, Replace, not_attached},
    pins::{self, LinkPin, NEW},
    programs::{self, refused},
};

/// The first priority. Within it, the kernel runs the newest filter first.
const PRIORITY: u16 = 1;
/// The handle, by which the filter is found again. No other program takes this number by itself: the
/// kernel counts from 1.
const HANDLE: TcHandle = TcHandle::new(0x0076, 0x6970);

/// Attaches the program, and pins it. The pin comes first, so that no filter is without one.
pub(super) fn attach(
    program: &mut SchedClassifier,
    interface: &Interface,
    pin: &Path,
) -> Result<(), BpfError> {
    match tc::qdisc_add_clsact(&interface.name) {
        Ok(()) | Err(TcError::AlreadyAttached) => {}
        Err(TcError::NetlinkError(error)) if error.raw_os_error() == Some(libc::EEXIST) => {}
        Err(error) => return Err(not_attached(interface, Mode::Tc)(error.into())),
    }
    program.pin(pin).map_err(|source| BpfError::Pin { path: pin.to_owned(), source })?;
    let options = TcAttachOptions::Netlink(NlOptions { priority: PRIORITY, handle: HANDLE, classid: None });
    let attached = program.attach_with_options(&interface.name, TcAttachType::Ingress, options);
    let attached = match (attached, link(interface.index)) {
        // An earlier agent's, whose pin is lost.
        (Err(error), Some(link)) if errno(&error) == Some(libc::EEXIST) => program.attach_to_link(link),
        (attached, link) => {
            // The handle would remove the filter.
            if let Some(link) = link {
                keep(link);
            }
            attached
        }
    };
    match attached.and_then(|id| program.take_link(id)) {
        Ok(link) => {
            keep(link);
            Ok(())
        }
        Err(error) => {
            pins::remove(pin)?;
            Err(match errno(&error) {
                Some(libc::EINVAL) => BpfError::FilterRefused {
                    interface: interface.name.clone(),
                    priority: PRIORITY,
                    source: Box::new(error),
                },
                _ => not_attached(interface, Mode::Tc)(error),
            })
        }
    }
}

/// Replaces the filter's program by this one, atomically, and the pin after it.
pub(super) fn replace(program: &mut SchedClassifier, pin: &LinkPin) -> Result<(), Replace> {
    let Some(link) = link(pin.ifindex) else { return Err(Replace::Dead) };
    let failed = |error| Replace::Failed(refused(programs::TC)(error));
    let replaced = program.attach_to_link(link);
    let id = replaced.map_err(|error| if is_gone(&error) { Replace::Dead } else { failed(error) })?;
    keep(program.take_link(id).map_err(failed)?);
    repin(program, &pin.path).map_err(Replace::Failed)
}

fn repin(program: &mut SchedClassifier, path: &Path) -> Result<(), BpfError> {
    let mut new = path.as_os_str().to_owned();
    new.push(NEW);
    let new = Path::new(&new);
    pins::remove(new)?;
    program.pin(new).map_err(|source| BpfError::Pin { path: new.to_owned(), source })?;
    fs::rename(new, path).map_err(|source| BpfError::PinFile {
        operation: "replace",
        path: path.to_owned(),
        source,
    })
}

/// Removes the filter of an interface. It is no error if the interface or the filter is gone.
pub(super) fn detach(ifindex: u32) -> Result<(), BpfError> {
    let Some(link) = link(ifindex) else { return Ok(()) };
    match link.detach() {
        Err(error) if !is_gone(&error) => Err(refused(programs::TC)(error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Returns the filter of an interface, unless the interface is gone.
fn link(ifindex: u32) -> Option<SchedClassifierLink> {
    let name = if_indextoname(ifindex).ok()?;
    let ingress = TcAttachType::Ingress;
    SchedClassifierLink::attached(name.to_str().ok()?, ingress, PRIORITY, HANDLE, None).ok()
}

/// Leaves the filter in place when aya's handle on it ends.
#[expect(clippy::mem_forget, reason = "dropping the handle removes the filter")]
fn keep(link: SchedClassifierLink) {
    std::mem::forget(link);
}

/// Returns true if there is no such filter, discipline or interface.
fn is_gone(error: &ProgramError) -> bool {
    matches!(errno(error), Some(libc::ENOENT | libc::EINVAL | libc::ENODEV))
}

fn errno(error: &ProgramError) -> Option<i32> {
    match error {
        ProgramError::TcError(TcError::NetlinkError(error)) | ProgramError::NetlinkError(error) => {
            error.raw_os_error()
        }
        _ => None,
    }
}
