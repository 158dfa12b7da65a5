//! The object with the baselines, and a cable to run its programs on.

use std::env;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use aya::programs::tc::{SchedClassifierLink, TcAttachOptions};
use aya::programs::xdp::XdpLink;
use aya::programs::{
    LinkOrder, Program, SchedClassifier, TcAttachType, TestRun, TestRunAttrs, TestRunOptions, Xdp, XdpMode,
};
use aya::{Ebpf, EbpfLoader};
use ipnet::IpNet;
use nix::errno::Errno;
use nix::time::{ClockId, clock_gettime};
use vipward_common::MacAddr;

use super::pings;
use super::table::{Ask, Crowd, Family, Intruders, Tables, Traffic};
use vipward_tests::arp::Mac;
use vipward_tests::interrupt;
use vipward_tests::lan::{Host, Lan, Nic};
use vipward_tests::tools::target_dir;

/// The XDP programs of the object.
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
/// The programs of traffic control.
const TC_PROGRAMS: [&str; 4] = ["vipward_tc", "bench_pass_tc", "bench_write_tc", "bench_answer_tc"];
const NIC: &str = "eth0";
/// Frames that the kernel sends at a time.
const BATCH: u32 = 64;
/// Silence after which no frame is under way any more.
const QUIET: Duration = Duration::from_millis(20);

/// Returns the path of an object: in `$VIPWARD_EBPF_DIR`,
/// or where `cargo xtask build-ebpf` puts it.
pub(super) fn object_path(name: &str) -> PathBuf {
    env::var_os("VIPWARD_EBPF_DIR").map_or_else(|| target_dir().join("bpf"), PathBuf::from).join(name)
}

/// Loads an object, its programs not yet.
pub(super) fn load(path: &Path) -> Result<Ebpf> {
    EbpfLoader::new()
        .override_global("AYA_LOG_LEVEL", &0_u8, false)
        .load_file(path)
        .with_context(|| format!("failed to load {}; build it with `cargo xtask build-ebpf`", path.display()))
}

/// An object, loaded.
pub(super) struct Object {
    ebpf: Ebpf,
    pub(super) tables: Tables,
}

impl Object {
    /// Loads the object with the baselines.
    pub(super) fn load() -> Result<Self> {
        Self::load_programs(&object_path("vipward-bench.o"), &XDP_PROGRAMS, &TC_PROGRAMS)
    }

    /// Loads programs of an object.
    pub(super) fn load_programs(path: &Path, xdp: &[&'static str], tc: &[&'static str]) -> Result<Self> {
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

    /// Makes an interface hear pings, and writes one for `bench_ping`.
    pub(super) fn hear_pings(&mut self, ifindex: u32, own: MacAddr) -> Result<()> {
        pings::hear(&mut self.ebpf, (ifindex, own))
    }

    /// Takes the maps of the generators and the receiver.
    pub(super) fn traffic(&mut self) -> Result<Traffic> {
        Traffic::take(&mut self.ebpf)
    }

    /// Runs a program on one frame, many times; returns what it returned and the nanoseconds that
    /// it took.
    ///
    /// By this thread's CPU time: the kernel's own figure is cut to whole nanoseconds, and a clock
    /// on the wall goes on while another process has the CPU.
    pub(super) fn test_run(&self, name: &str, frame: &[u8], repeat: u32) -> Result<(u32, f64)> {
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
pub(super) enum Attached {
    Xdp { _link: XdpLink },
    Tc { _link: SchedClassifierLink },
}

impl Object {
    /// Attaches a responder's program to the NIC of a host. The kernel needs none.
    pub(super) fn attach(&mut self, host: &Host, far: Far) -> Result<Option<Attached>> {
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

fn program<'a>(ebpf: &'a Ebpf, name: &str) -> Result<&'a Xdp> {
    any(ebpf, name)?.try_into().with_context(|| format!("{name} is no XDP program"))
}

fn program_mut<'a>(ebpf: &'a mut Ebpf, name: &str) -> Result<&'a mut Xdp> {
    let program = ebpf.program_mut(name).with_context(|| format!("the object has no program {name}"))?;
    program.try_into().with_context(|| format!("{name} is no XDP program"))
}

/// Responder at the far end of the cable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Far {
    /// An XDP program, native.
    Program(&'static str),
    /// An XDP program, generic.
    Generic(&'static str),
    /// A program of traffic control.
    Tc(&'static str),
    /// The kernel, which has the first VIP of each family as an address of its own; no program.
    Kernel,
}

/// Result of a generator's run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ran {
    /// Answers that came back.
    pub(super) replies: u64,
    /// Frames that came back.
    pub(super) received: u64,
    /// Time in which the requests were sent; the same CPU makes the answers meanwhile.
    pub(super) elapsed: Duration,
}

impl Ran {
    /// Returns the answers a second.
    pub(super) fn rate(&self) -> Result<f64> {
        ensure!(self.replies > 0, "nothing came back");
        Ok(f64::from(u32::try_from(self.replies)?) / self.elapsed.as_secs_f64())
    }
}

/// Two hosts and a cable: the client generates and receives, the node answers.
pub(super) struct Stage {
    client: Host,
    pub(super) node: Host,
    pub(super) object: Object,
    traffic: Traffic,
    client_index: u32,
    mac: MacAddr,
}

impl Stage {
    pub(super) fn new() -> Result<Self> {
        let (client, node) = Lan::pair(
            ("client", Nic::new("10.0.0.1/8".parse()?).mac(Mac::local(9))),
            ("node", Nic::new("10.1.0.0/8".parse()?).mac(Mac::local(1))),
        )?;
        node.add_address(NIC, "2001:db8::1:0/64".parse::<IpNet>()?)?;
        // Without NAPI, which this turns on, a veth without a program does not take frames from a
        // generator.
        set_gro(&node, NIC).context("failed to switch GRO on")?;
        let mut object = Object::load()?;
        let client_index = client.link(NIC)?.index;
        let receiver = program_mut(&mut object.ebpf, "bench_receive")?;
        client
            .run(|| receiver.attach_to_if_index(client_index, XdpMode::Driver))
            .context("failed to attach the receiver")?;
        let traffic = object.traffic()?;
        let mac = MacAddr(Mac::local(9).0);
        Ok(Self { client, node, object, traffic, client_index, mac })
    }

    /// Makes the node hold `count` VIPs of a family.
    pub(super) fn hold(&mut self, family: Family, count: u32) -> Result<()> {
        hold(&mut self.object, &self.node, family, count)
    }

    /// Sends `frames` requests of a crowd to the far end, and counts what comes back.
    pub(super) fn run(&mut self, far: Far, crowd: Crowd, frames: u32) -> Result<Ran> {
        self.run_among(far, crowd, None, frames)
    }

    /// Returns the same with frames in between that are no requests.
    pub(super) fn run_among(
        &mut self,
        far: Far,
        crowd: Crowd,
        intruders: Option<Intruders>,
        frames: u32,
    ) -> Result<Ran> {
        let _attached = self.object.attach(&self.node, far)?;
        self.generate(Ask { mac: self.mac, crowd, intruders }, frames)
    }

    /// Returns the same from a program of another object.
    pub(super) fn run_other(
        &mut self,
        object: &mut Object,
        far: Far,
        crowd: Crowd,
        frames: u32,
    ) -> Result<Ran> {
        let _attached = object.attach(&self.node, far)?;
        self.generate(Ask { mac: self.mac, crowd, intruders: None }, frames)
    }

    fn generate(&mut self, ask: Ask, frames: u32) -> Result<Ran> {
        self.traffic.ask(ask)?;
        let traffic = &self.traffic;
        let generator = program(&self.object.ebpf, "bench_generate")?;
        let frame = ask.crowd.family.request(ask.mac);
        // struct xdp_md: the frame's length, and the device that it is said to come from.
        let context =
            [0, u32::try_from(frame.len())?, 0, self.client_index, 0, 0].map(u32::to_ne_bytes).concat();
        let options = TestRunOptions {
            data_in: Some(&frame),
            ctx_in: Some(&context),
            repeat: frames,
            attrs: TestRunAttrs::new().xdp_live_frames(BATCH),
            ..TestRunOptions::new()
        };
        let (replies, received) = (traffic.replies()?, traffic.received()?);
        let (ran, elapsed) = self.client.run(|| {
            let start = Instant::now();
            (generator.test_run(options), start.elapsed())
        });
        interrupt::check()?;
        ran.context("failed to generate frames")?;
        self.wait_for_silence()?;
        Ok(Ran { replies: traffic.replies()? - replies, received: traffic.received()? - received, elapsed })
    }

    fn wait_for_silence(&self) -> Result<()> {
        let mut last = (self.traffic.received()?, Instant::now());
        interrupt::wait(Duration::from_secs(5), "the last answers to come", || {
            let now = self.traffic.received()?;
            if now != last.0 {
                last = (now, Instant::now());
            }
            Ok((last.1.elapsed() >= QUIET).then_some(()))
        })
    }

    /// Forgets everybody that the node's kernel knows, so that its table is empty again.
    pub(super) fn drain_neighbours(&self) -> Result<()> {
        self.node.flush_neighbours(NIC)
    }
}

/// Makes a host hold `count` VIPs of a family, as an object's program sees it.
pub(super) fn hold(object: &mut Object, host: &Host, family: Family, count: u32) -> Result<()> {
    let mac = MacAddr(host.mac(NIC)?.0);
    object.tables.hold(host.link(NIC)?.index, mac, family, count).map(drop)
}

/// Switches generic receive offload on, as `ethtool -K eth0 gro on`.
fn set_gro(host: &Host, interface: &str) -> Result<()> {
    #[repr(C)]
    struct EthtoolValue {
        command: u32,
        data: u32,
    }
    /// linux/ethtool.h
    const ETHTOOL_SGRO: u32 = 0x2c;

    ensure!(interface.len() < libc::IFNAMSIZ, "{interface} is too long for an interface's name");
    host.run(|| {
        let socket = UdpSocket::bind("0.0.0.0:0")?;
        let mut value = EthtoolValue { command: ETHTOOL_SGRO, data: 1 };
        // SAFETY: all zeroes are a valid ifreq.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(interface.bytes()) {
            *to = libc::c_char::try_from(from)?;
        }
        request.ifr_ifru.ifru_data = (&raw mut value).cast();
        // SAFETY: the request names an interface and points to the value, and both live until the
        // call returns.
        let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL, &raw mut request) };
        Errno::result(done)?;
        Ok(())
    })
}
