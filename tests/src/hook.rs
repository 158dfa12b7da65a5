//! Attaches a program that does one thing with every frame to an interface: a foreign program that
//! the agent meets, or the program that native XDP needs at the far end of a cable.

use std::ffi::c_long;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use anyhow::{Context, Result, ensure};

use crate::lan::Host;

/// Constants from `linux/bpf.h` and `linux/if_link.h`.
const BPF_PROG_LOAD: c_long = 5;
const BPF_LINK_CREATE: c_long = 28;
const BPF_PROG_TYPE_SCHED_CLS: u32 = 3;
const BPF_PROG_TYPE_XDP: u32 = 6;
const BPF_XDP: u32 = 37;
const BPF_TCX_INGRESS: u32 = 46;
const BPF_OBJ_NAME_LEN: usize = 16;
const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;
const XDP_PASS: i32 = 2;
const TCX_NEXT: i32 = -1;
const TCX_DROP: i32 = 2;

/// Hook of a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hook {
    /// XDP in native mode.
    NativeXdp,
    /// The ingress of traffic control, by tcx.
    TcxIngress,
    /// The same, with a program that drops every frame.
    TcxDrop,
}

impl Hook {
    /// Returns the program's type, its return code, and the type and flags of the attachment.
    const fn numbers(self) -> (u32, i32, u32, u32) {
        match self {
            Self::NativeXdp => (BPF_PROG_TYPE_XDP, XDP_PASS, BPF_XDP, XDP_FLAGS_DRV_MODE),
            Self::TcxIngress => (BPF_PROG_TYPE_SCHED_CLS, TCX_NEXT, BPF_TCX_INGRESS, 0),
            Self::TcxDrop => (BPF_PROG_TYPE_SCHED_CLS, TCX_DROP, BPF_TCX_INGRESS, 0),
        }
    }
}

/// Start of `union bpf_attr` for loading; the kernel reads missing fields as zero.
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
    prog_name: [u8; BPF_OBJ_NAME_LEN],
}

/// Start of `union bpf_attr` for a link.
#[repr(C)]
struct CreateLink {
    prog_fd: i32,
    target_ifindex: u32,
    attach_type: u32,
    flags: u32,
}

/// Program on an interface. Dropping it detaches the program.
#[derive(Debug)]
pub struct Hooked {
    _link: OwnedFd,
}

impl Hooked {
    /// Attaches a program that passes every frame, in native mode.
    pub fn xdp_pass(host: &Host, interface: &str) -> Result<Self> {
        Self::attach(host, interface, Hook::NativeXdp, "pass")
    }

    /// Attaches a program to an interface, under a name of at most 15 bytes.
    pub fn attach(host: &Host, interface: &str, hook: Hook, name: &str) -> Result<Self> {
        let target_ifindex = host.link(interface)?.index;
        let (prog_type, verdict, attach_type, flags) = hook.numbers();
        let program = load(prog_type, verdict, name)
            .with_context(|| format!("failed to load a program for {hook:?}"))?;
        let link = CreateLink { prog_fd: program.as_raw_fd(), target_ifindex, attach_type, flags };
        // An ifindex belongs to the namespace of the calling thread.
        let link = host.run(|| bpf(BPF_LINK_CREATE, &link));
        let link =
            link.with_context(|| format!("failed to attach a program to {interface} of {}", host.name()))?;
        Ok(Self { _link: link })
    }
}

/// Loads `r0 = verdict; exit`.
fn load(prog_type: u32, verdict: i32, name: &str) -> Result<OwnedFd> {
    ensure!(name.len() < BPF_OBJ_NAME_LEN, "{name} is too long for a program's name");
    let mut prog_name = [0; BPF_OBJ_NAME_LEN];
    prog_name[..name.len()].copy_from_slice(name.as_bytes());
    // An instruction has eight bytes: opcode, registers, offset, immediate.
    let [a, b, c, d] = verdict.to_ne_bytes();
    let instructions = [[0xb7, 0, 0, 0, a, b, c, d], [0x95, 0, 0, 0, 0, 0, 0, 0]];
    let load = Load {
        prog_type,
        insn_cnt: u32::try_from(instructions.len())?,
        insns: instructions.as_ptr().expose_provenance() as u64,
        license: c"GPL".as_ptr().expose_provenance() as u64,
        log_level: 0,
        log_size: 0,
        log_buf: 0,
        kern_version: 0,
        prog_flags: 0,
        prog_name,
    };
    Ok(bpf(BPF_PROG_LOAD, &load)?)
}

/// Runs a bpf(2) command that returns a descriptor.
fn bpf<T>(command: c_long, attributes: &T) -> io::Result<OwnedFd> {
    // SAFETY: both commands read the attributes, of the given size, and the memory behind their
    // pointers, which lives until the call returns.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, command, &raw const *attributes, size_of::<T>()) };
    let fd = i32::try_from(fd).map_err(io::Error::other)?;
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made the descriptor for this caller.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
