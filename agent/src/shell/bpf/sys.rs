//! Raw bpf(2) calls that aya lacks: on maps whose sizes are known at run time only, and detaching a
//! link at once.

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
const BPF_MAP_UPDATE_ELEM: libc::c_long = 2;
const BPF_MAP_GET_NEXT_KEY: libc::c_long = 4;
const BPF_OBJ_GET: libc::c_long = 7;
const BPF_PROG_QUERY: libc::c_long = 16;
const BPF_MAP_LOOKUP_BATCH: libc::c_long = 24;
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

/// The part of `union bpf_attr` that asking for attached programs uses.
#[repr(C)]
struct QueryAttr {
    target_ifindex: u32,
    attach_type: u32,
    query_flags: u32,
    attach_flags: u32,
    prog_ids: u64,
    count: u32,
    _pad: u32,
    prog_attach_flags: u64,
    link_ids: u64,
    link_attach_flags: u64,
    revision: u64,
}

/// Calls bpf(2), and returns its result.
///
/// # Safety
/// Every pointer in `attr` must point to as much memory as `command` reads and writes there.
unsafe fn call<T>(command: libc::c_long, attr: &T) -> io::Result<libc::c_long> {
    // SAFETY: `attr` lives through the call. The caller guarantees the memory behind its pointers.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attr), size_of::<T>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn number(fd: &impl AsRawFd) -> io::Result<u32> {
    u32::try_from(fd.as_raw_fd()).map_err(|_| io::Error::from_raw_os_error(libc::EBADF))
}

/// Detaches a pinned link, and returns when the program has left its interface. (The kernel
/// detaches some time after the removal of a pin: `bpf_free_inode`, in an RCU callback.) A link
/// whose interface is gone is detached already.
pub(super) fn detach_link(pin: &Path) -> io::Result<()> {
    let path = CString::new(pin.as_os_str().as_bytes())?;
    let attr = PinAttr { path: path.as_ptr() as u64, _fd: 0, _flags: 0 };
    // SAFETY: `path` is a terminated string that lives through the call.
    let fd = unsafe { call(BPF_OBJ_GET, &attr)? };
    let fd = libc::c_int::try_from(fd).map_err(|_| io::Error::from_raw_os_error(libc::EBADF))?;
    // SAFETY: the kernel has just returned this descriptor, which has no other owner.
    let link = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: the attributes have no pointer.
    match unsafe { call(BPF_LINK_DETACH, &LinkAttr { link_fd: number(&link)? }) } {
        Ok(_) => Ok(()),
        Err(error) if error.raw_os_error() == Some(libc::ENOLINK) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Returns the ids of all programs that are attached to an interface with one attach type.
pub(super) fn attached_programs(ifindex: u32, attach_type: u32) -> io::Result<Vec<u32>> {
    /// `BPF_MPROG_MAX`: the kernel attaches no more.
    const MOST: u32 = 64;
    let mut ids = [0_u32; MOST as usize];
    let mut attr = QueryAttr {
        target_ifindex: ifindex,
        attach_type,
        query_flags: 0,
        attach_flags: 0,
        prog_ids: ids.as_mut_ptr().expose_provenance() as u64,
        count: MOST,
        _pad: 0,
        prog_attach_flags: 0,
        link_ids: 0,
        link_attach_flags: 0,
        revision: 0,
    };
    // SAFETY: there is room for as many ids as the attributes say.
    // The kernel writes into the attributes too.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, BPF_PROG_QUERY, &raw mut attr, size_of::<QueryAttr>()) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(ids.into_iter().take(attr.count as usize).collect())
}

fn call_on_element(
    command: libc::c_long,
    map: BorrowedFd<'_>,
    key: *const u8,
    other: *mut u8,
) -> io::Result<()> {
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

/// Returns an element of a map that has one value of `value_bytes` for a key.
pub(super) fn element(map: BorrowedFd<'_>, key: &[u8], value_bytes: usize) -> io::Result<Option<Vec<u8>>> {
    let mut value = vec![0; value_bytes];
    match call_on_element(BPF_MAP_LOOKUP_ELEM, map, key.as_ptr(), value.as_mut_ptr()) {
        Ok(()) => Ok(Some(value)),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes an element of such a map. Returns false if there is no room for it.
///
/// # Errors
///
/// Fails if the map refuses the element, and if `key` and `value` have other sizes than its own.
pub(super) fn put(map: BorrowedFd<'_>, key: &[u8], value: &mut [u8]) -> io::Result<bool> {
    match call_on_element(BPF_MAP_UPDATE_ELEM, map, key.as_ptr(), value.as_mut_ptr()) {
        Ok(()) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::E2BIG) => Ok(false),
        Err(error) => Err(error),
    }
}

/// A key and its value, as bytes.
pub(super) type Element = (Vec<u8>, Vec<u8>);

/// Returns every element of such a map.
pub(super) fn elements(
    map: BorrowedFd<'_>,
    key_bytes: usize,
    value_bytes: usize,
) -> io::Result<Vec<Element>> {
    let mut elements = Vec::new();
    let mut key: Option<Vec<u8>> = None;
    loop {
        let mut next = vec![0; key_bytes];
        let from = key.as_ref().map_or(std::ptr::null(), Vec::as_ptr);
        match call_on_element(BPF_MAP_GET_NEXT_KEY, map, from, next.as_mut_ptr()) {
            Ok(()) => {}
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(elements),
            Err(error) => return Err(error),
        }
        // Otherwise the element was removed in between.
        if let Some(value) = element(map, &next, value_bytes)? {
            elements.push((next.clone(), value));
        }
        key = Some(next);
    }
}

/// The part of `union bpf_attr` that calls on many elements use.
#[repr(C)]
struct BatchAttr {
    from: u64,
    to: u64,
    keys: u64,
    values: u64,
    count: u32,
    map_fd: u32,
    element_flags: u64,
    flags: u64,
}

/// Reads a map to its end, many elements a system call.
pub(super) struct Batch {
    size: usize,
    key_bytes: usize,
    value_bytes: usize,
    keys: Vec<u8>,
    values: Vec<u8>,
    /// The place to continue: a bucket of a hash, or an index of an array.
    from: Option<u32>,
    ended: bool,
}

impl Batch {
    /// Returns a reader of at most `size` elements a call. A value of a per-CPU map is the values
    /// of all CPUs, each padded to a multiple of 8 bytes.
    pub(super) fn new(size: usize, key_bytes: usize, value_bytes: usize) -> Self {
        let (keys, values) = (vec![0; size * key_bytes], vec![0; size * value_bytes]);
        Self { size, key_bytes, value_bytes, keys, values, from: None, ended: false }
    }

    /// Returns the next elements, keys and values as bytes. Returns `None` at the end. Every call
    /// must pass the same map, with keys and values of the lengths given to `new`.
    pub(super) fn next(
        &mut self,
        map: BorrowedFd<'_>,
    ) -> io::Result<Option<impl Iterator<Item = (&[u8], &[u8])>>> {
        if self.ended {
            return Ok(None);
        }
        let (from, mut to) = (self.from, 0_u32);
        let mut attr = BatchAttr {
            from: from.as_ref().map_or(0, |from| std::ptr::from_ref(from) as u64),
            to: std::ptr::from_mut(&mut to) as u64,
            keys: self.keys.as_mut_ptr() as u64,
            values: self.values.as_mut_ptr() as u64,
            count: u32::try_from(self.size).unwrap_or(u32::MAX),
            map_fd: number(&map)?,
            element_flags: 0,
            flags: 0,
        };
        // SAFETY: `keys` and `values` have room for `count` elements, `from`
        // and `to` are four bytes as for every hash and array, and all live
        // through the call, which also writes `count`.
        let result = unsafe {
            libc::syscall(
                libc::SYS_bpf,
                BPF_MAP_LOOKUP_BATCH,
                std::ptr::from_mut(&mut attr),
                size_of::<BatchAttr>(),
            )
        };
        if result < 0 {
            let error = io::Error::last_os_error();
            if error.raw_os_error() != Some(libc::ENOENT) {
                return Err(error);
            }
            // The elements read up to the end are valid.
            self.ended = true;
        }
        self.from = Some(to);
        let count = (attr.count as usize).min(self.size);
        let keys = self.keys.chunks_exact(self.key_bytes);
        let values = self.values.chunks_exact(self.value_bytes);
        Ok(Some(keys.zip(values).take(count)))
    }
}

/// Returns true if the kernel does not have this call for this kind of map.
pub(super) fn is_unsupported(error: &io::Error) -> bool {
    /// `ENOTSUPP`, which is the kernel's own and in no header of userspace's.
    const ENOTSUPP: i32 = 524;
    matches!(error.raw_os_error(), Some(ENOTSUPP | libc::EINVAL | libc::EOPNOTSUPP))
}
