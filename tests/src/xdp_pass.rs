//! An XDP program that passes everything, for the far end of a cable on which native XDP is tried.

use std::ffi::c_long;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use anyhow::{Context, Result};

use crate::lan::Host;

/// From `linux/bpf.h` and `linux/if_link.h`.
const BPF_PROG_LOAD: c_long = 5;
const BPF_LINK_CREATE: c_long = 28;
const BPF_PROG_TYPE_XDP: u32 = 6;
const BPF_XDP: u32 = 37;
const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;
/// `r0 = XDP_PASS; exit`, each eight bytes: opcode, registers, offset, immediate.
const INSTRUCTIONS: [[u8; 8]; 2] = [[0xb7, 0, 0, 0, 2, 0, 0, 0], [0x95, 0, 0, 0, 0, 0, 0, 0]];

/// The start of `union bpf_attr` for loading; the kernel takes what is missing for zero.
#[repr(C)]
struct Load {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
}

/// The same for a link.
#[repr(C)]
struct CreateLink {
    prog_fd: i32,
    target_ifindex: u32,
    attach_type: u32,
    flags: u32,
}

/// The program on an interface, in native mode; gone when dropped.
#[derive(Debug)]
pub struct XdpPass {
    _link: OwnedFd,
}

impl XdpPass {
    /// Attaches the program to an interface that has none.
    pub fn attach(host: &Host, interface: &str) -> Result<Self> {
        let target_ifindex = host.link(interface)?.index;
        let load = Load {
            prog_type: BPF_PROG_TYPE_XDP,
            insn_cnt: u32::try_from(INSTRUCTIONS.len())?,
            insns: INSTRUCTIONS.as_ptr().expose_provenance() as u64,
            license: c"GPL".as_ptr().expose_provenance() as u64,
        };
        let program = bpf(BPF_PROG_LOAD, &load).context("failed to load a program that passes everything")?;
        let link = CreateLink {
            prog_fd: program.as_raw_fd(),
            target_ifindex,
            attach_type: BPF_XDP,
            flags: XDP_FLAGS_DRV_MODE,
        };
        // An ifindex belongs to the namespace of the thread that asks.
        let link = host.run(|| bpf(BPF_LINK_CREATE, &link));
        let link =
            link.with_context(|| format!("failed to attach a program to {interface} of {}", host.name()))?;
        Ok(Self { _link: link })
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
