//! Throughput of other traffic through an interface, with the program in each mode and without it.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::effort::Effort;
use crate::{
    report::{Group, Item, Limit, Report, Samples, Unit},
    stage::{Far, Object},
};
use vipward_tests::{
    kit::interrupt,
    lan::{Host, Lan, Nic},
};

/// The first is the baseline of the others.
const MODES: [(&str, Far); 5] = [
    ("no program", Far::Kernel),
    ("an empty tc program", Far::Tc("bench_pass_tc")),
    ("native", Far::Program("vipward")),
    ("tc", Far::Tc("vipward_tc")),
    ("generic", Far::Generic("vipward")),
];
const NODE: &str = "10.0.0.2";
/// The payload of the smallest Ethernet frame.
const PAYLOAD_BYTES: usize = 18;
/// The least share of the throughput without a program, of datagrams in mode tc.
const LEAST_OF_TC: f64 = 0.97;

/// Measures small datagrams and a TCP stream from the client to the node, whose interface has the
/// program. The client's end always has an XDP program, without which native answers are not
/// delivered on a veth.
pub(super) fn measure(effort: &Effort, report: &mut Report) -> Result<()> {
    let (client, node) = Lan::pair(
        ("client", Nic::new("10.0.0.1/8".parse()?)),
        ("node", Nic::new(format!("{NODE}/8").parse()?)),
    )?;
    let mut object = Object::load()?;
    let _at_client = object.attach(&client, Far::Program("bench_pass"))?;
    let (mut datagrams, mut streams) = (vec![Vec::new(); MODES.len()], vec![Vec::new(); MODES.len()]);
    for _ in 0..effort.traffic.0 {
        for (place, (_, mode)) in MODES.into_iter().enumerate() {
            let attached = object.attach(&node, mode)?;
            datagrams[place].push(send_datagrams(&client, &node, effort.traffic.1)?);
            streams[place].push(stream(&client, &node, effort.traffic.2)?);
            drop(attached);
        }
    }
    push(report, "datagrams of 60 bytes a second", Unit::PerSecond, &datagrams, Some(LEAST_OF_TC));
    push(report, "one TCP stream, bytes a second", Unit::Bytes, &streams, None);
    Ok(())
}

fn push(report: &mut Report, what: &str, unit: Unit, of_modes: &[Vec<f64>], least_of_tc: Option<f64>) {
    let baseline = &of_modes[0];
    for ((name, mode), own) in MODES.into_iter().zip(of_modes) {
        let samples: Samples = own.iter().copied().collect();
        let mut item = Item::new(Group::Traffic, format!("{what}: {name}"), unit, &samples);
        if mode != Far::Kernel {
            let ratios: Samples = own.iter().zip(baseline).map(|(own, base)| own / base).collect();
            let least = least_of_tc.filter(|_| mode == Far::Tc("vipward_tc"));
            item = item.ratio("no program", &ratios, least.map(Limit::AtLeast));
        }
        report.push(item);
    }
}

/// Sends datagrams as fast as one thread can, and returns how many arrived a second. No process
/// reads them: after some hundred, the node's kernel drops them behind the interface.
fn send_datagrams(client: &Host, node: &Host, count: u32) -> Result<f64> {
    interrupt::check()?;
    let sink = node.run(|| UdpSocket::bind((NODE, 0)))?;
    let socket = client.run(|| UdpSocket::bind("0.0.0.0:0"))?;
    socket.connect(sink.local_addr()?)?;
    let before = delivered(node)?;
    let begin = Instant::now();
    for _ in 0..count {
        socket.send(&[0; PAYLOAD_BYTES])?;
    }
    let elapsed = begin.elapsed();
    let arrived = u32::try_from(delivered(node)? - before)?;
    ensure!(arrived > count / 2, "{arrived} of {count} datagrams arrived");
    Ok(f64::from(arrived) / elapsed.as_secs_f64())
}

/// Returns the number of packets that the node's kernel has delivered to a protocol.
fn delivered(node: &Host) -> Result<u64> {
    let text = node.run(|| fs::read_to_string("/proc/thread-self/net/snmp"))?;
    let mut lines = text.lines().filter(|line| line.starts_with("Ip: ")).map(|line| line.split_whitespace());
    let (names, values) = (lines.next(), lines.next());
    let found = names
        .zip(values)
        .and_then(|(names, mut values)| values.nth(names.take_while(|name| *name != "InDelivers").count()));
    Ok(found.context("the kernel counts no InDelivers")?.parse()?)
}

/// Sends a stream for a while, and returns the bytes that arrived a second.
fn stream(client: &Host, node: &Host, duration: Duration) -> Result<f64> {
    const BLOCK: usize = 128 << 10;
    interrupt::check()?;
    let listener = node.run(|| TcpListener::bind((NODE, 0)))?;
    let address = listener.local_addr()?;
    let mut sender = client.run(|| TcpStream::connect(address))?;
    let (mut receiver, _) = listener.accept()?;
    let reading = thread::spawn(move || -> Result<(u64, Duration)> {
        let mut block = vec![0; BLOCK];
        let (mut bytes, begin) = (0, Instant::now());
        loop {
            let read = receiver.read(&mut block)?;
            if read == 0 {
                return Ok((bytes, begin.elapsed()));
            }
            bytes += u64::try_from(read)?;
        }
    });
    let (block, begin) = (vec![0; BLOCK], Instant::now());
    while begin.elapsed() < duration {
        sender.write_all(&block)?;
    }
    drop(sender);
    let read = reading.join().ok().context("the reading thread panicked")?;
    let (bytes, elapsed) = read?;
    #[expect(clippy::cast_precision_loss, reason = "a rate needs no more digits")]
    Ok(bytes as f64 / elapsed.as_secs_f64())
}
