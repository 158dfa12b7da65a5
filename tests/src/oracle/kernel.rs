//! Runs the programs in this machine's kernel, frame by frame, with `BPF_PROG_TEST_RUN`.
//! A program is neither attached nor pinned: dropping a [`Kernel`]
//! leaves no trace. It needs root, or `CAP_BPF`, `CAP_NET_ADMIN`,
//! `CAP_PERFMON` and `CAP_SYS_ADMIN` (for the network namespace).

mod maps;

use std::{
    env,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use aya::{
    Ebpf, EbpfLoader,
    programs::{SchedClassifier, TestRun as _, TestRunOptions, Xdp},
};
use nix::sched::{CloneFlags, unshare};

pub use self::maps::{Maps, moved, moved_wire};

/// Interface of every frame in a test run: the loopback interface of the namespace.
pub const IFINDEX: u32 = 1;

/// The most by which a program makes a frame longer.
const MAX_GROWTH: usize = 64;
/// Length of the longest frame that fits a socket buffer of a test run: a page, less its headroom and
/// the buffer's own data.
const MAX_SKB: usize = 3_500;

/// Returns the path of the tested object: `$VIPWARD_EBPF_DIR/vipward.o`,
/// or the one that `cargo xtask build-ebpf` writes.
pub fn object_path() -> PathBuf {
    let dir = env::var_os("VIPWARD_EBPF_DIR")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/bpf"), PathBuf::from);
    dir.join("vipward.o")
}

/// Hook whose program runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hook {
    /// XDP, native or generic.
    Xdp,
    /// The ingress of traffic control.
    Tc,
}

impl Hook {
    pub const ALL: [Self; 2] = [Self::Xdp, Self::Tc];

    /// Returns true if a test can run this frame. For traffic control, the kernel makes no socket buffer of a
    /// frame that does not fit a page, nor of an IP frame without its whole IP header. For XDP it puts the
    /// rest of a long frame in other buffers.
    pub fn takes(self, frame: &[u8]) -> bool {
        let header = match frame.get(12..14) {
            Some([0x08, 0x00]) => 20,
            Some([0x86, 0xdd]) => 40,
            _ => 0,
        };
        match self {
            Self::Xdp => true,
            Self::Tc => (14 + header..=MAX_SKB).contains(&frame.len()),
        }
    }

    const fn program(self) -> &'static str {
        match self {
            Self::Xdp => "vipward",
            Self::Tc => "vipward_tc",
        }
    }

    /// Returns the action that a return code stands for.
    fn action(self, code: u32) -> Option<Action> {
        match (self, code.cast_signed()) {
            (Self::Xdp, 1) | (Self::Tc, TC_ACT_SHOT) => Some(Action::Drop),
            (Self::Xdp, 2) | (Self::Tc, TC_ACT_UNSPEC) => Some(Action::Pass),
            (Self::Xdp, 3) | (Self::Tc, TC_ACT_REDIRECT) => Some(Action::Send),
            _ => None,
        }
    }
}

/// Return codes from `linux/pkt_cls.h`.
const TC_ACT_UNSPEC: i32 = -1;
const TC_ACT_SHOT: i32 = 2;
const TC_ACT_REDIRECT: i32 = 7;

/// End of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Action {
    Drop,
    /// The kernel gets the frame.
    Pass,
    /// The frame, as it is now, leaves by the interface that it came in by.
    Send,
}

/// Result of one run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ran {
    /// Return code.
    pub action: Action,
    pub bytes: Vec<u8>,
}

/// Loaded program. Threads can share it: it runs on the CPU of the calling thread.
pub struct Program {
    object: Ebpf,
    hook: Hook,
}

impl Program {
    pub fn run(&self, frame: &[u8]) -> Result<Ran> {
        let mut bytes = vec![0; frame.len() + MAX_GROWTH];
        let options =
            TestRunOptions { data_in: Some(frame), data_out: Some(&mut bytes), ..TestRunOptions::default() };
        let name = self.hook.program();
        let program =
            self.object.program(name).with_context(|| format!("the object has no program {name}"))?;
        let result = match self.hook {
            Hook::Xdp => <&Xdp>::try_from(program)?.test_run(options),
            Hook::Tc => <&SchedClassifier>::try_from(program)?.test_run(options),
        };
        let result = result.with_context(|| format!("a frame of {} bytes", frame.len()))?;
        bytes.truncate(result.data_size_out.try_into()?);
        let code = result.return_value;
        let action = self.hook.action(code).with_context(|| format!("{name} returned {code}"))?;
        Ok(Ran { action, bytes })
    }
}

pub struct Kernel {
    /// Program that runs frames.
    pub program: Program,
    pub maps: Maps,
}

impl Kernel {
    /// Loads a hook's program with maps of its own.
    /// Moves the calling thread into a new network namespace,
    /// so that [`IFINDEX`] is no interface of the host.
    pub fn load(hook: Hook) -> Result<Self> {
        unshare(CloneFlags::CLONE_NEWNET).context("failed to make a network namespace; run as root")?;
        let path = object_path();
        let mut object =
            EbpfLoader::new().override_global("AYA_LOG_LEVEL", &0_u8, false).load_file(&path).with_context(
                || format!("failed to load {}; build it with `cargo xtask build-ebpf`", path.display()),
            )?;
        let maps = Maps::take(&mut object)?;
        let name = hook.program();
        let program =
            object.program_mut(name).with_context(|| format!("the object has no program {name}"))?;
        let loaded = match hook {
            Hook::Xdp => <&mut Xdp>::try_from(program)?.load(),
            Hook::Tc => <&mut SchedClassifier>::try_from(program)?.load(),
        };
        loaded.context("the verifier refused the program")?;
        Ok(Self { program: Program { object, hook }, maps })
    }
}
