//! Runs the XDP program in this machine's kernel, frame by frame, with `BPF_PROG_TEST_RUN`.
//! The program is neither attached nor pinned: dropping a [`Kernel`]
//! leaves no trace. It needs root, or `CAP_BPF`, `CAP_NET_ADMIN`,
//! `CAP_PERFMON` and `CAP_SYS_ADMIN` (for the network namespace).

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

/// Interface of every frame in a test run: the loopback interface of the namespace.
pub const IFINDEX: u32 = 1;

/// Length of the longest frame for [`Program::run`].
pub const MAX_FRAME: usize = 2_048;

/// Returns the path of the tested object: `$VIPWARD_EBPF_DIR/vipward.o`,
/// or the one that `cargo xtask build-ebpf` writes.
pub fn object_path() -> PathBuf {
    let dir = env::var_os("VIPWARD_EBPF_DIR")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/bpf"), PathBuf::from);
    dir.join("vipward.o")
}

/// Return code of the program.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum XdpAction {
    /// `XDP_DROP`
    Drop,
    /// `XDP_PASS`
    Pass,
    /// `XDP_TX`
    Tx,
}

/// Result of one run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ran {
    /// Return code.
    pub action: XdpAction,
    /// Frame after the run.
    pub bytes: Vec<u8>,
}

/// Loaded program. Threads can share it: it runs on the CPU of the calling thread.
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
    /// Program that runs frames.
    pub program: Program,
    /// Maps of the program.
    pub maps: Maps,
}

impl Kernel {
    /// Loads the program with maps of its own.
    /// Moves the calling thread into a new network namespace,
    /// so that [`IFINDEX`] is no interface of the host.
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
