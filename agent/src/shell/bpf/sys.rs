//! Raw bpf(2) calls for maps whose key and value sizes are known at run time only: those of another layout.

use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd},
};

const BPF_MAP_LOOKUP_ELEM: libc::c_long = 1;
const BPF_MAP_GET_NEXT_KEY: libc::c_long = 4;

/// The part of `union bpf_attr` that calls on map elements use.
#[repr(C)]
struct ElementAttr {
    map_fd: u32,
    _pad: u32,
    key: u64,
    value_or_next_key: u64,
    flags: u64,
}

fn bpf(command: libc::c_long, map: BorrowedFd<'_>, key: *const u8, other: *mut u8) -> io::Result<()> {
    let attr = ElementAttr {
        map_fd: u32::try_from(map.as_raw_fd()).map_err(|_| io::Error::from_raw_os_error(libc::EBADF))?,
        _pad: 0,
        key: key as u64,
        value_or_next_key: other as u64,
        flags: 0,
    };
    // SAFETY: `attr` lives through the call; the callers give pointers to as many bytes as the map's key and value have.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(&attr), size_of::<ElementAttr>()) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
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
        match bpf(BPF_MAP_GET_NEXT_KEY, map, from, next.as_mut_ptr()) {
            Ok(()) => {}
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(elements),
            Err(error) => return Err(error),
        }
        let mut value = vec![0; value_bytes];
        match bpf(BPF_MAP_LOOKUP_ELEM, map, next.as_ptr(), value.as_mut_ptr()) {
            Ok(()) => elements.push((next.clone(), value)),
            // Removed in between.
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {}
            Err(error) => return Err(error),
        }
        key = Some(next);
    }
}
