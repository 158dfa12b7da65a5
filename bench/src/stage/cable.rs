//! A cable whose client generates requests and receives the answers.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use aya::programs::{TestRun, TestRunAttrs, TestRunOptions, XdpMode};
use ipnet::IpNet;
use vipward_common::MacAddr;
use vipward_tests::{
    frames::Mac,
    kit::interrupt,
    lan::{Host, Lan, Nic},
};

use super::{
    object::{Far, NIC, Object, program, program_mut},
    table::{Ask, Crowd, Family, Intruders, Traffic},
};

/// Frames that the kernel sends at a time.
const BATCH: u32 = 64;
/// Silence after which no frame is under way any more.
const QUIET: Duration = Duration::from_millis(20);

/// Result of a generator's run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ran {
    pub(crate) replies: u64,
    pub(crate) received: u64,
    /// Time in which the requests were sent; the same CPU makes the answers meanwhile.
    pub(crate) elapsed: Duration,
}

impl Ran {
    /// Returns the answers a second.
    pub(crate) fn rate(&self) -> Result<f64> {
        ensure!(self.replies > 0, "nothing came back");
        Ok(f64::from(u32::try_from(self.replies)?) / self.elapsed.as_secs_f64())
    }
}

/// Two hosts and a cable: the client generates and receives, the node answers.
pub(crate) struct Stage {
    client: Host,
    pub(crate) node: Host,
    pub(crate) object: Object,
    traffic: Traffic,
    client_index: u32,
    mac: MacAddr,
}

impl Stage {
    pub(crate) fn new() -> Result<Self> {
        let (client, node) = Lan::pair(
            ("client", Nic::new("10.0.0.1/8".parse()?).mac(Mac::local(9))),
            ("node", Nic::new("10.1.0.0/8".parse()?).mac(Mac::local(1))),
        )?;
        node.add_address(NIC, "2001:db8::1:0/64".parse::<IpNet>()?)?;
        // Without NAPI, which this turns on, a veth without a program does not take frames from a
        // generator.
        node.set_gro(NIC)?;
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
    pub(crate) fn hold(&mut self, family: Family, count: u32) -> Result<()> {
        hold(&mut self.object, &self.node, family, count)
    }

    /// Sends `frames` requests of a crowd to the far end, and counts what comes back.
    pub(crate) fn run(&mut self, far: Far, crowd: Crowd, frames: u32) -> Result<Ran> {
        self.run_among(far, crowd, None, frames)
    }

    /// Returns the same with frames in between that are no requests.
    pub(crate) fn run_among(
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
    pub(crate) fn run_other(
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
        // struct xdp_md: the frame's length, and the device that it comes from.
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
    pub(crate) fn drain_neighbours(&self) -> Result<()> {
        self.node.flush_neighbours(NIC)
    }
}

/// Makes a host hold `count` VIPs of a family, as an object's program sees it.
pub(crate) fn hold(object: &mut Object, host: &Host, family: Family, count: u32) -> Result<()> {
    let mac = MacAddr(host.mac(NIC)?.0);
    object.tables.hold(host.link(NIC)?.index, mac, family, count).map(drop)
}
