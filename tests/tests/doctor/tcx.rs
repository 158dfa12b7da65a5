//! A program of traffic control that does nothing, attached by tcx.

use std::ffi::c_long;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use anyhow::{Context, Result};
use vipward_tests::lan::Host;

/// From `linux/bpf.h`.
const BPF_PROG_LOAD: c_long = 5;
const BPF_LINK_CREATE: c_long = 28;
const BPF_PROG_TYPE_SCHED_CLS: u32 = 3;
const BPF_TCX_INGRESS: u32 = 46;
/// `r0 = TCX_NEXT; exit`, each eight bytes: opcode, registers, offset, immediate.
const INSTRUCTIONS: [[u8; 8]; 2] = [[0xb7, 0, 0, 0, 0xff, 0xff, 0xff, 0xff], [0x95, 0, 0, 0, 0, 0, 0, 0]];

/// The start of `union bpf_attr` for loading; the kernel takes what is missing for zero.
#[repr(C)]
struct Load {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
    prog_name: [u8; 16],
}

/// The same for a link.
#[repr(C)]
struct CreateLink {
    prog_fd: i32,
    target_ifindex: u32,
    attach_type: u32,
    flags: u32,
}

/// The program on an interface's ingress; gone when dropped.
pub(crate) struct Tcx {
    _link: OwnedFd,
}

impl Tcx {
    /// Attaches the program under this name, of at most 15 bytes.
    pub(crate) fn attach(host: &Host, interface: &str, name: &str) -> Result<Self> {
        let target_ifindex = host.link(interface)?.index;
        let mut load = Load {
            prog_type: BPF_PROG_TYPE_SCHED_CLS,
            insn_cnt: u32::try_from(INSTRUCTIONS.len())?,
            insns: INSTRUCTIONS.as_ptr().expose_provenance() as u64,
            license: c"GPL".as_ptr().expose_provenance() as u64,
            log_level: 0,
            log_size: 0,
            log_buf: 0,
            kern_version: 0,
            prog_flags: 0,
            prog_name: [0; 16],
        };
        load.prog_name[..name.len()].copy_from_slice(name.as_bytes());
        let program = bpf(BPF_PROG_LOAD, &load).context("failed to load a program of traffic control")?;
        let link = CreateLink {
            prog_fd: program.as_raw_fd(),
            target_ifindex,
            attach_type: BPF_TCX_INGRESS,
            flags: 0,
        };
        // An ifindex belongs to the namespace of the thread that asks.
        let link = host.run(|| bpf(BPF_LINK_CREATE, &link));
        Ok(Self { _link: link.with_context(|| format!("failed to attach it to {interface}"))? })
    }
}

/// A bpf(2) command that returns a descriptor.
fn bpf<T>(command: c_long, attributes: &T) -> io::Result<OwnedFd> {
    // SAFETY: both commands read the attributes, of the size that is given, and what these point to, which is static.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, command, &raw const *attributes, size_of::<T>()) };
    let fd = i32::try_from(fd).map_err(io::Error::other)?;
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made the descriptor for this caller.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
