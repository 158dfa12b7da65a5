//! Raw bpf(2) calls that aya lacks: on maps whose sizes are known at run time only, and detaching a link at once.

use std::{
    ffi::CString,
    io,
    os::{
        fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
};

const BPF_MAP_LOOKUP_ELEM: libc::c_long = 1;
const BPF_MAP_GET_NEXT_KEY: libc::c_long = 4;
const BPF_OBJ_GET: libc::c_long = 7;
const BPF_LINK_DETACH: libc::c_long = 34;

/// The part of `union bpf_attr` that calls on map elements use.
#[repr(C)]
struct ElementAttr {
    map_fd: u32,
    _pad: u32,
    key: u64,
    value_or_next_key: u64,
    flags: u64,
}

/// The part of `union bpf_attr` that opening a pin uses.
#[repr(C)]
struct PinAttr {
    path: u64,
    _fd: u32,
    _flags: u32,
}

/// The part of `union bpf_attr` that detaching a link uses.
#[repr(C)]
struct LinkAttr {
    link_fd: u32,
}

/// bpf(2); what it returns when that is no error.
///
/// # Safety
/// Every pointer in `attr` is to as much memory as `command` reads and writes there.
unsafe fn call<T>(command: libc::c_long, attr: &T) -> io::Result<libc::c_long> {
    // SAFETY: `attr` lives through the call; what it points to is the caller's word.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attr), size_of::<T>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn number(fd: &impl AsRawFd) -> io::Result<u32> {
    u32::try_from(fd.as_raw_fd()).map_err(|_| io::Error::from_raw_os_error(libc::EBADF))
}

/// Detaches a pinned link and returns when the program has gone from its interface; removing the pin alone does
/// that some time later (`bpf_free_inode`, in an RCU callback). A link whose interface is gone is detached already.
pub(super) fn detach_link(pin: &Path) -> io::Result<()> {
    let path = CString::new(pin.as_os_str().as_bytes())?;
    let attr = PinAttr { path: path.as_ptr() as u64, _fd: 0, _flags: 0 };
    // SAFETY: `path` is a terminated string that lives through the call.
    let fd = unsafe { call(BPF_OBJ_GET, &attr)? };
    let fd = libc::c_int::try_from(fd).map_err(|_| io::Error::from_raw_os_error(libc::EBADF))?;
    // SAFETY: the kernel has just given us this descriptor, and nobody else has it.
    let link = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: no pointer.
    match unsafe { call(BPF_LINK_DETACH, &LinkAttr { link_fd: number(&link)? }) } {
        Ok(_) => Ok(()),
        Err(error) if error.raw_os_error() == Some(libc::ENOLINK) => Ok(()),
        Err(error) => Err(error),
    }
}

fn element(command: libc::c_long, map: BorrowedFd<'_>, key: *const u8, other: *mut u8) -> io::Result<()> {
    let attr = ElementAttr {
        map_fd: number(&map)?,
        _pad: 0,
        key: key as u64,
        value_or_next_key: other as u64,
        flags: 0,
    };
    // SAFETY: the callers give pointers to as many bytes as the map's key and value have.
    unsafe { call(command, &attr) }.map(|_| ())
}

/// Every element of a hash map, as bytes.
pub(super) fn elements(
    map: BorrowedFd<'_>,
    key_bytes: usize,
    value_bytes: usize,
) -> io::Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut elements = Vec::new();
    let mut key: Option<Vec<u8>> = None;
    loop {
        let mut next = vec![0; key_bytes];
        let from = key.as_ref().map_or(std::ptr::null(), Vec::as_ptr);
        match element(BPF_MAP_GET_NEXT_KEY, map, from, next.as_mut_ptr()) {
            Ok(()) => {}
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(elements),
            Err(error) => return Err(error),
        }
        let mut value = vec![0; value_bytes];
        match element(BPF_MAP_LOOKUP_ELEM, map, next.as_ptr(), value.as_mut_ptr()) {
            Ok(()) => elements.push((next.clone(), value)),
            // Removed in between.
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {}
            Err(error) => return Err(error),
        }
        key = Some(next);
    }
}
