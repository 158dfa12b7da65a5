//! Attaches a program to an interface that does the same with every frame. It is a foreign program that
//! the agent meets, or the one that native XDP needs at the far end of a cable.

use std::ffi::c_long;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use anyhow::{Context, Result, ensure};

use super::{host::Host, netns::NetNs};

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
const TCX_PASS: i32 = 0;
const TCX_DROP: i32 = 2;
/// Places a program before all others (`BPF_F_BEFORE`).
const BEFORE: u32 = 1 << 3;

/// Hook of a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hook {
    /// XDP in native mode.
    NativeXdp,
    /// The ingress of traffic control, by tcx.
    TcxIngress,
    /// The same, with a program that drops every frame.
    TcxDrop,
    /// The same, with a program before all others that gives every frame to the kernel.
    TcxTakeAll,
    /// The same, with one that does so with ARP requests.
    TcxTakeRequests,
}

/// Instruction of eight bytes: opcode, registers, offset, immediate.
type Instruction = [u8; 8];

impl Hook {
    /// Returns the program's type, and the type and flags of the attachment.
    const fn numbers(self) -> (u32, u32, u32) {
        match self {
            Self::NativeXdp => (BPF_PROG_TYPE_XDP, BPF_XDP, XDP_FLAGS_DRV_MODE),
            Self::TcxIngress | Self::TcxDrop => (BPF_PROG_TYPE_SCHED_CLS, BPF_TCX_INGRESS, 0),
            Self::TcxTakeAll | Self::TcxTakeRequests => (BPF_PROG_TYPE_SCHED_CLS, BPF_TCX_INGRESS, BEFORE),
        }
    }

    fn instructions(self) -> Vec<Instruction> {
        match self {
            Self::NativeXdp => end(XDP_PASS).into(),
            Self::TcxIngress => end(TCX_NEXT).into(),
            Self::TcxDrop => end(TCX_DROP).into(),
            Self::TcxTakeAll => end(TCX_PASS).into(),
            Self::TcxTakeRequests => {
                // `r6 = r1; r0 = the opcode of ARP, at offset 20; if r0 != 1 skip 2`
                let head = [[0xbf, 0x16, 0, 0, 0, 0, 0, 0], ld_half(20), [0x55, 0, 2, 0, 1, 0, 0, 0]];
                [&head[..], &end(TCX_PASS), &end(TCX_NEXT)].concat()
            }
        }
    }
}

/// Returns `r0 = verdict; exit`.
fn end(verdict: i32) -> [Instruction; 2] {
    let [a, b, c, d] = verdict.to_ne_bytes();
    [[0xb7, 0, 0, 0, a, b, c, d], [0x95, 0, 0, 0, 0, 0, 0, 0]]
}

/// Returns `r0 = two bytes of the frame` (`BPF_LD | BPF_ABS | BPF_H`).
fn ld_half(offset: i32) -> Instruction {
    let [a, b, c, d] = offset.to_ne_bytes();
    [0x28, 0, 0, 0, a, b, c, d]
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
        Self::attach_in(host.namespace(), interface, hook, name)
            .with_context(|| format!("on host {}", host.name()))
    }

    /// Does the same to an interface of a namespace.
    pub(super) fn attach_in(namespace: &NetNs, interface: &str, hook: Hook, name: &str) -> Result<Self> {
        let target_ifindex = namespace.link(interface)?.index;
        let (prog_type, attach_type, flags) = hook.numbers();
        let program = load(prog_type, &hook.instructions(), name)
            .with_context(|| format!("failed to load a program for {hook:?}"))?;
        let link = CreateLink { prog_fd: program.as_raw_fd(), target_ifindex, attach_type, flags };
        // An ifindex belongs to the namespace of the calling thread.
        let link = namespace.run(|| bpf(BPF_LINK_CREATE, &link));
        let link = link.with_context(|| format!("failed to attach a program to {interface}"))?;
        Ok(Self { _link: link })
    }
}

fn load(prog_type: u32, instructions: &[Instruction], name: &str) -> Result<OwnedFd> {
    ensure!(name.len() < BPF_OBJ_NAME_LEN, "{name} is too long for a program's name");
    let mut prog_name = [0; BPF_OBJ_NAME_LEN];
    prog_name[..name.len()].copy_from_slice(name.as_bytes());
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
