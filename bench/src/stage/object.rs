//! The object with the baselines, and the attachment of its programs.

use std::env;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use aya::programs::tc::{SchedClassifierLink, TcAttachOptions};
use aya::programs::xdp::XdpLink;
use aya::programs::{
    LinkOrder, Program, SchedClassifier, TcAttachType, TestRun, TestRunOptions, Xdp, XdpMode,
};
use aya::{Ebpf, EbpfLoader};
use nix::time::{ClockId, clock_gettime};
use vipward_common::MacAddr;
use vipward_tests::{
    kit::{interrupt, tools::target_dir},
    lan::Host,
};

use super::{
    pings,
    table::{Tables, Traffic},
};

const XDP_PROGRAMS: [&str; 10] = [
    "vipward",
    "bench_pass",
    "bench_tx",
    "bench_reflect",
    "bench_write_tx",
    "bench_answer",
    "bench_generate",
    "bench_receive",
    "bench_write_ping",
    "bench_ping",
];
const TC_PROGRAMS: [&str; 4] = ["vipward_tc", "bench_pass_tc", "bench_write_tc", "bench_answer_tc"];
pub(super) const NIC: &str = "eth0";

/// Returns the path of an object: in `$VIPWARD_EBPF_DIR`,
/// or where `cargo xtask build-ebpf` puts it.
pub(crate) fn object_path(name: &str) -> PathBuf {
    env::var_os("VIPWARD_EBPF_DIR").map_or_else(|| target_dir().join("bpf"), PathBuf::from).join(name)
}

/// Loads an object, its programs not yet.
pub(crate) fn load(path: &Path) -> Result<Ebpf> {
    EbpfLoader::new()
        .override_global("AYA_LOG_LEVEL", &0_u8, false)
        .load_file(path)
        .with_context(|| format!("failed to load {}; build it with `cargo xtask build-ebpf`", path.display()))
}

pub(crate) struct Object {
    pub(super) ebpf: Ebpf,
    pub(crate) tables: Tables,
}

impl Object {
    /// Loads the object with the baselines.
    pub(crate) fn load() -> Result<Self> {
        Self::load_programs(&object_path("vipward-bench.o"), &XDP_PROGRAMS, &TC_PROGRAMS)
    }

    pub(crate) fn load_programs(path: &Path, xdp: &[&'static str], tc: &[&'static str]) -> Result<Self> {
        let mut ebpf = load(path)?;
        let refused = |name| move || format!("the kernel refused program {name} of {}", path.display());
        for name in xdp {
            program_mut(&mut ebpf, name)?.load().with_context(refused(*name))?;
        }
        for name in tc {
            tc_mut(&mut ebpf, name)?.load().with_context(refused(*name))?;
        }
        let tables = Tables::take(&mut ebpf)?;
        Ok(Self { ebpf, tables })
    }

    /// Makes an interface receive pings, and writes one for `bench_ping`.
    pub(crate) fn receive_pings(&mut self, ifindex: u32, own: MacAddr) -> Result<()> {
        pings::receive(&mut self.ebpf, (ifindex, own))
    }

    /// Takes the maps of the generators and the receiver.
    pub(crate) fn traffic(&mut self) -> Result<Traffic> {
        Traffic::take(&mut self.ebpf)
    }

    /// Runs a program on one frame, many times; returns what it returned and the nanoseconds that
    /// it took.
    ///
    /// The time is this thread's CPU time. The kernel's own figure is cut to whole nanoseconds, and a
    /// wall clock goes on while another process has the CPU.
    pub(crate) fn test_run(&self, name: &str, frame: &[u8], repeat: u32) -> Result<(u32, f64)> {
        let options = TestRunOptions { data_in: Some(frame), repeat, ..TestRunOptions::new() };
        let start = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)?;
        let ran = match any(&self.ebpf, name)? {
            Program::Xdp(program) => program.test_run(options),
            Program::SchedClassifier(program) => program.test_run(options),
            _ => bail!("{name} is of another kind"),
        };
        let elapsed = Duration::from(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)? - start);
        interrupt::check()?;
        let ran = ran.with_context(|| format!("failed to run program {name}"))?;
        Ok((ran.return_value, elapsed.as_secs_f64() * 1e9 / f64::from(repeat)))
    }
}

/// A program on an interface, until this is dropped.
pub(crate) enum Attached {
    Xdp { _link: XdpLink },
    Tc { _link: SchedClassifierLink },
}

impl Object {
    /// Attaches a responder's program to the NIC of a host. The kernel needs none.
    pub(crate) fn attach(&mut self, host: &Host, far: Far) -> Result<Option<Attached>> {
        let failed = |name| move || format!("failed to attach {name}");
        let mut xdp = |name, mode| -> Result<Option<Attached>> {
            let program = program_mut(&mut self.ebpf, name)?;
            let index = host.link(NIC)?.index;
            let id = host.run(|| program.attach_to_if_index(index, mode)).with_context(failed(name))?;
            Ok(Some(Attached::Xdp { _link: program.take_link(id)? }))
        };
        match far {
            Far::Program(name) => xdp(name, XdpMode::Driver),
            Far::Generic(name) => xdp(name, XdpMode::Skb),
            Far::Tc(name) => {
                let program = tc_mut(&mut self.ebpf, name)?;
                let first = TcAttachOptions::TcxOrder(LinkOrder::first());
                let attach = || program.attach_with_options(NIC, TcAttachType::Ingress, first);
                let id = host.run(attach).with_context(failed(name))?;
                Ok(Some(Attached::Tc { _link: program.take_link(id)? }))
            }
            Far::Kernel => Ok(None),
        }
    }
}

fn any<'a>(ebpf: &'a Ebpf, name: &str) -> Result<&'a Program> {
    ebpf.program(name).with_context(|| format!("the object has no program {name}"))
}

fn tc_mut<'a>(ebpf: &'a mut Ebpf, name: &str) -> Result<&'a mut SchedClassifier> {
    let program = ebpf.program_mut(name).with_context(|| format!("the object has no program {name}"))?;
    program.try_into().with_context(|| format!("{name} is no program of traffic control"))
}

pub(super) fn program<'a>(ebpf: &'a Ebpf, name: &str) -> Result<&'a Xdp> {
    any(ebpf, name)?.try_into().with_context(|| format!("{name} is no XDP program"))
}

pub(super) fn program_mut<'a>(ebpf: &'a mut Ebpf, name: &str) -> Result<&'a mut Xdp> {
    let program = ebpf.program_mut(name).with_context(|| format!("the object has no program {name}"))?;
    program.try_into().with_context(|| format!("{name} is no XDP program"))
}

/// Responder at the far end of the cable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Far {
    /// An XDP program, native.
    Program(&'static str),
    /// An XDP program, generic.
    Generic(&'static str),
    Tc(&'static str),
    /// The kernel, which has the first VIP of each family as an address of its own; no program.
    Kernel,
}
