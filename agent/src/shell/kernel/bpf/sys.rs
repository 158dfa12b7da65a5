//! Raw bpf(2) calls that aya lacks: on maps whose sizes are known at run time only, and detaching a
//! link at once.

use std::{
    ffi::CString,
    io,
    os::{
        fd::{AsFd, AsRawFd, FromRawFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
};

use aya::{
    maps::{MapData, MapError, MapType},
    util::nr_cpus,
};

const BPF_OBJ_PIN: libc::c_long = 6;
const BPF_OBJ_GET: libc::c_long = 7;
const BPF_OBJ_GET_INFO_BY_FD: libc::c_long = 15;
const BPF_PROG_QUERY: libc::c_long = 16;
const BPF_MAP_LOOKUP_BATCH: libc::c_long = 24;
const BPF_LINK_DETACH: libc::c_long = 34;

#[derive(Clone, Copy)]
enum ElementCommand {
    Lookup = 1,
    Update = 2,
    NextKey = 4,
}

/// The part of `union bpf_attr` that calls on map elements use.
#[repr(C)]
struct ElementAttr {
    map_fd: u32,
    _pad: u32,
    key: u64,
    value_or_next_key: u64,
    flags: u64,
}

/// The part of `union bpf_attr` that pinning, and opening a pin, uses.
#[repr(C)]
struct PinAttr {
    path: u64,
    fd: u32,
    _flags: u32,
}

/// The part of `union bpf_attr` that describing an object uses.
#[repr(C)]
struct InfoAttr {
    fd: u32,
    info_bytes: u32,
    info: u64,
}

/// The beginning of `struct bpf_link_info` of links of XDP and tcx.
#[repr(C)]
#[derive(Default)]
struct LinkInfo {
    _kind: u32,
    _id: u32,
    _program: u32,
    _pad: u32,
    /// 0 once the link is detached.
    ifindex: u32,
    _pad_2: u32,
}

/// The part of `union bpf_attr` that detaching a link uses.
#[repr(C)]
struct LinkAttr {
    link_fd: u32,
}

/// The part of `union bpf_attr` for a query of attached programs.
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

/// Opens a pinned object.
pub(super) fn open(pin: &Path) -> io::Result<OwnedFd> {
    let path = CString::new(pin.as_os_str().as_bytes())?;
    let attr = PinAttr { path: path.as_ptr() as u64, fd: 0, _flags: 0 };
    // SAFETY: `path` is a terminated string that lives through the call.
    let fd = unsafe { call(BPF_OBJ_GET, &attr)? };
    let fd = libc::c_int::try_from(fd).map_err(|_| io::Error::from_raw_os_error(libc::EBADF))?;
    // SAFETY: the kernel has just returned this descriptor, which has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Pins an open object.
pub(super) fn pin(object: &OwnedFd, pin: &Path) -> io::Result<()> {
    let path = CString::new(pin.as_os_str().as_bytes())?;
    let attr = PinAttr { path: path.as_ptr() as u64, fd: number(object)?, _flags: 0 };
    // SAFETY: `path` is a terminated string that lives through the call.
    unsafe { call(BPF_OBJ_PIN, &attr) }.map(|_| ())
}

/// Returns true if a link of XDP or tcx was detached, or its interface is gone.
pub(super) fn is_detached(link: &OwnedFd) -> io::Result<bool> {
    let mut info = LinkInfo::default();
    let info_bytes = u32::try_from(size_of::<LinkInfo>()).map_err(io::Error::other)?;
    let attr = InfoAttr { fd: number(link)?, info_bytes, info: (&raw mut info).expose_provenance() as u64 };
    // SAFETY: the kernel writes `info_bytes` at most, and `info` lives through the call.
    unsafe { call(BPF_OBJ_GET_INFO_BY_FD, &attr)? };
    Ok(info.ifindex == 0)
}

/// Detaches a pinned link, and returns when the program has left its interface. (The kernel
/// detaches some time after the removal of a pin: `bpf_free_inode`, in an RCU callback.) A link
/// whose interface is gone is detached already.
pub(super) fn detach_link(pin: &Path) -> io::Result<()> {
    let link = open(pin)?;
    // SAFETY: the attributes have no pointer.
    match unsafe { call(BPF_LINK_DETACH, &LinkAttr { link_fd: number(&link)? }) } {
        Ok(_) => Ok(()),
        Err(error) if error.raw_os_error() == Some(libc::ENOLINK) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Returns the ids of the programs attached to an interface with a type of `enum bpf_attach_type`.
/// A kernel without that type returns `EINVAL`.
pub(crate) fn attached_programs(ifindex: u32, attach_type: u32) -> io::Result<Vec<u32>> {
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
    // SAFETY: there is room for as many ids as the attributes claim. The kernel writes into the
    // attributes too.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, BPF_PROG_QUERY, &raw mut attr, size_of::<QueryAttr>()) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(ids.into_iter().take(attr.count as usize).collect())
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

/// A key and its value, as bytes.
pub(super) type Element = (Vec<u8>, Vec<u8>);

/// A map, and the lengths of its keys and values by the kernel's own account: bpf(2) gets pointers, and
/// reads and writes that many bytes behind them.
pub(super) struct RawMap {
    fd: OwnedFd,
    key_bytes: usize,
    /// In a per-CPU map, the length of the values of all CPUs, each padded to a multiple of 8 bytes.
    value_bytes: usize,
}

impl RawMap {
    /// Copies the descriptor of a map, and queries the kernel for the lengths.
    pub(super) fn of(map: &MapData) -> Result<Self, MapError> {
        let info = map.info()?;
        let bytes = info.value_size() as usize;
        let value_bytes = match info.map_type()? {
            MapType::Hash | MapType::LruHash | MapType::Array => bytes,
            MapType::PerCpuHash | MapType::LruPerCpuHash | MapType::PerCpuArray => {
                bytes.next_multiple_of(8) * nr_cpus().map_err(|(_, error)| error)?
            }
            map_type => return Err(MapError::InvalidMapType { map_type: map_type as u32 }),
        };
        let fd = map.fd().as_fd().try_clone_to_owned()?;
        Ok(Self { fd, key_bytes: info.key_size() as usize, value_bytes })
    }

    /// Calls bpf(2) on an element. `key` may only be missing where the kernel takes none.
    ///
    /// # Errors
    ///
    /// Fails with `EINVAL` if `key` or `other` has another length than the map's keys or values.
    fn call(&self, command: ElementCommand, key: Option<&[u8]>, other: &mut [u8]) -> io::Result<()> {
        let other_bytes = match command {
            ElementCommand::NextKey => self.key_bytes,
            ElementCommand::Lookup | ElementCommand::Update => self.value_bytes,
        };
        if key.is_some_and(|key| key.len() != self.key_bytes) || other.len() != other_bytes {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let attr = ElementAttr {
            map_fd: number(&self.fd)?,
            _pad: 0,
            key: key.map_or(0, |key| key.as_ptr() as u64),
            value_or_next_key: other.as_mut_ptr() as u64,
            flags: 0,
        };
        // SAFETY: both slices are as long as what the command reads and writes of this map, and live
        // through the call. The kernel refuses a null pointer, except for the first key.
        unsafe { call(command as libc::c_long, &attr) }.map(|_| ())
    }

    pub(super) fn element(&self, key: &[u8]) -> io::Result<Option<Vec<u8>>> {
        let mut value = vec![0; self.value_bytes];
        match self.call(ElementCommand::Lookup, Some(key), &mut value) {
            Ok(()) => Ok(Some(value)),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes an element. Returns false if there is no room for it.
    ///
    /// # Errors
    ///
    /// Fails if the map refuses the element, and if `key` or `value` has another length than its own.
    pub(super) fn put(&self, key: &[u8], value: &mut [u8]) -> io::Result<bool> {
        match self.call(ElementCommand::Update, Some(key), value) {
            Ok(()) => Ok(true),
            Err(error) if error.raw_os_error() == Some(libc::E2BIG) => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub(super) fn elements(&self) -> io::Result<Vec<Element>> {
        let mut elements = Vec::new();
        let mut key: Option<Vec<u8>> = None;
        loop {
            let mut next = vec![0; self.key_bytes];
            match self.call(ElementCommand::NextKey, key.as_deref(), &mut next) {
                Ok(()) => {}
                Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(elements),
                Err(error) => return Err(error),
            }
            // Otherwise the element was removed in between.
            if let Some(value) = self.element(&next)? {
                elements.push((next.clone(), value));
            }
            key = Some(next);
        }
    }

    /// Returns a reader of the whole map, of at most `size` elements a call.
    pub(super) fn batches(&self, size: u32) -> Batches<'_> {
        let room = |bytes: usize| vec![0; size as usize * bytes];
        let (keys, values) = (room(self.key_bytes), room(self.value_bytes));
        Batches { map: self, size, keys, values, from: None, ended: false }
    }
}

/// Reads a map to its end, many elements a system call.
pub(super) struct Batches<'m> {
    map: &'m RawMap,
    size: u32,
    keys: Vec<u8>,
    values: Vec<u8>,
    /// The place to continue: a bucket of a hash, or an index of an array.
    from: Option<u32>,
    ended: bool,
}

impl Batches<'_> {
    /// Returns the next elements, keys and values as bytes. Returns `None` at the end.
    pub(super) fn next(&mut self) -> io::Result<Option<impl Iterator<Item = (&[u8], &[u8])>>> {
        if self.ended {
            return Ok(None);
        }
        let (from, mut to) = (self.from, 0_u32);
        let mut attr = BatchAttr {
            from: from.as_ref().map_or(0, |from| std::ptr::from_ref(from) as u64),
            to: std::ptr::from_mut(&mut to) as u64,
            keys: self.keys.as_mut_ptr() as u64,
            values: self.values.as_mut_ptr() as u64,
            count: self.size,
            map_fd: number(&self.map.fd)?,
            element_flags: 0,
            flags: 0,
        };
        // SAFETY: `keys` and `values` have room for `count` elements of this map, which is a hash or an
        // array (`RawMap::of`): `from` and `to` are four bytes for both. All live through the call, which
        // also writes `count`.
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
        let count = attr.count.min(self.size) as usize;
        let keys = self.keys.chunks_exact(self.map.key_bytes);
        let values = self.values.chunks_exact(self.map.value_bytes);
        Ok(Some(keys.zip(values).take(count)))
    }
}

/// Returns true if the kernel does not have this call for this kind of map.
pub(super) fn is_unsupported(error: &io::Error) -> bool {
    /// `ENOTSUPP`, which is the kernel's own and in no header of userspace's.
    const ENOTSUPP: i32 = 524;
    matches!(error.raw_os_error(), Some(ENOTSUPP | libc::EINVAL | libc::EOPNOTSUPP))
}
