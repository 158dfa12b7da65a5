//! The XDP program in this machine's kernel, run frame by frame with `BPF_PROG_TEST_RUN`.
//!
//! Nothing is attached and nothing is pinned: dropping a [`Kernel`] leaves no trace. Needs root, or `CAP_BPF`,
//! `CAP_NET_ADMIN`, `CAP_PERFMON` and `CAP_SYS_ADMIN` (for the network namespace).

mod maps;

use std::{
    env,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail};
use aya::{
    Ebpf, EbpfLoader,
    programs::{TestRun as _, TestRunOptions, Xdp},
};
use nix::sched::{CloneFlags, unshare};

pub use maps::{Maps, moved};

/// The interface that every frame of a test run is said to come from: the loopback interface of the namespace.
pub const IFINDEX: u32 = 1;

/// The longest frame that [`Program::run`] takes.
pub const MAX_FRAME: usize = 2_048;

/// The object that is tested: `$VIPWARD_EBPF_DIR/vipward.o`, or where `cargo xtask build-ebpf` puts it.
pub fn object_path() -> PathBuf {
    let dir = env::var_os("VIPWARD_EBPF_DIR")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/bpf"), PathBuf::from);
    dir.join("vipward.o")
}

/// What became of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum XdpAction {
    /// `XDP_DROP`
    Drop,
    /// `XDP_PASS`
    Pass,
    /// `XDP_TX`
    Tx,
}

/// A frame after the program has seen it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ran {
    /// What the program returned.
    pub action: XdpAction,
    /// The frame as the program left it.
    pub bytes: Vec<u8>,
}

/// The loaded program. Shared by threads, it runs on the CPU of the thread that calls.
pub struct Program(Ebpf);

impl Program {
    /// Runs one frame.
    pub fn run(&self, frame: &[u8]) -> Result<Ran> {
        let xdp: &Xdp = self.0.program("vipward").context("the object has no program vipward")?.try_into()?;
        let mut bytes = vec![0; MAX_FRAME];
        let options =
            TestRunOptions { data_in: Some(frame), data_out: Some(&mut bytes), ..TestRunOptions::default() };
        let result = xdp.test_run(options).with_context(|| format!("a frame of {} bytes", frame.len()))?;
        bytes.truncate(result.data_size_out.try_into()?);
        let action = match result.return_value {
            1 => XdpAction::Drop,
            2 => XdpAction::Pass,
            3 => XdpAction::Tx,
            other => bail!("the program returned {other}, which is neither XDP_DROP, XDP_PASS nor XDP_TX"),
        };
        Ok(Ran { action, bytes })
    }
}

/// The loaded program and its maps.
pub struct Kernel {
    /// Runs frames.
    pub program: Program,
    /// What the frames meet.
    pub maps: Maps,
}

impl Kernel {
    /// Loads the program with maps of its own.
    ///
    /// The calling thread moves into a new network namespace, so that [`IFINDEX`] is nothing of the host's.
    pub fn load() -> Result<Self> {
        unshare(CloneFlags::CLONE_NEWNET).context("failed to make a network namespace; run as root")?;
        let path = object_path();
        let mut ebpf =
            EbpfLoader::new().override_global("AYA_LOG_LEVEL", &0_u8, false).load_file(&path).with_context(
                || format!("failed to load {}; build it with `cargo xtask build-ebpf`", path.display()),
            )?;
        let maps = Maps::take(&mut ebpf)?;
        let xdp: &mut Xdp =
            ebpf.program_mut("vipward").context("the object has no program vipward")?.try_into()?;
        xdp.load().context("the verifier refused the program")?;
        Ok(Self { program: Program(ebpf), maps })
    }
}
