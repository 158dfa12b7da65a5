use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream as StdStream;
use std::thread;
use std::time::Duration;

use super::*;
use crate::lan::{Lan, Nic};

/// A time longer than any step on a busy machine.
const PATIENCE: Duration = Duration::from_secs(10);
/// A time in which bytes that can pass arrive: they take microseconds.
const SILENCE: Duration = Duration::from_millis(100);
const LISTEN: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(198, 51, 100, 1), 6443);

struct Bench {
    forwarder: Forwarder,
    nodes: [Host; 2],
    _lan: Lan,
}

impl Bench {
    /// Makes two nodes, and an upstream that echoes.
    fn new(name: &str) -> Result<Self> {
        let echo = StdListener::bind("127.0.0.1:0")?;
        let upstream = echo.local_addr()?;
        // The thread ends with the process: it only waits for connections.
        thread::spawn(move || {
            for mut stream in echo.incoming().flatten() {
                thread::spawn(move || io::copy(&mut stream.try_clone()?, &mut stream));
            }
        });
        let lan = Lan::new(name)?;
        let control = lan.host("control", Nic::new("198.51.100.1/24".parse()?))?;
        let node = |last: u8| lan.host("node", Nic::new(format!("198.51.100.{last}/24").parse()?));
        let nodes = [node(11)?, node(12)?];
        Ok(Self { forwarder: Forwarder::start(&control, LISTEN, upstream)?, nodes, _lan: lan })
    }

    fn connect(&self, node: usize) -> io::Result<StdStream> {
        let stream = self.nodes[node].run(|| StdStream::connect(LISTEN))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(stream)
    }
}

fn node_ip(node: u8) -> Ipv4Addr {
    Ipv4Addr::new(198, 51, 100, 11 + node)
}

/// Sends a word and waits for its echo.
fn echoes(stream: &mut StdStream, word: &[u8]) -> io::Result<()> {
    stream.write_all(word)?;
    let mut back = vec![0; word.len()];
    stream.read_exact(&mut back)?;
    assert_eq!(back, word);
    Ok(())
}

fn is_silent(stream: &mut StdStream) -> bool {
    stream.set_read_timeout(Some(SILENCE)).expect("a timeout can be set");
    let read = stream.read(&mut [0]);
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout can be set");
    read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
}

#[test]
fn what_is_sent_passes_both_ways_and_an_end_is_an_end() -> Result<()> {
    let bench = Bench::new("fwd-pass")?;
    let mut stream = bench.connect(0)?;
    echoes(&mut stream, &vec![7; 3 * BUFFER_BYTES])?;
    stream.shutdown(std::net::Shutdown::Write)?;
    assert_eq!(stream.read(&mut [0])?, 0, "an orderly end comes back");
    Ok(())
}

#[test]
fn a_silent_cut_freezes_one_node_and_loses_nothing() -> Result<()> {
    let bench = Bench::new("fwd-silent")?;
    let (mut cut, mut other) = (bench.connect(0)?, bench.connect(1)?);
    echoes(&mut cut, b"before")?;
    echoes(&mut other, b"before")?;

    bench.forwarder.cut_off(node_ip(0), Cut::Silent);
    cut.write_all(b"meanwhile")?;
    assert!(is_silent(&mut cut), "what exists stays silent");
    let mut new = bench.connect(0)?;
    new.write_all(b"new")?;
    assert!(is_silent(&mut new), "and what is new");
    echoes(&mut other, b"the other goes on")?;

    bench.forwarder.reconnect(node_ip(0));
    let mut late = [0; 9];
    cut.read_exact(&mut late)?;
    assert_eq!(&late, b"meanwhile");
    echoes(&mut cut, b"after")?;
    new.read_exact(&mut [0; 3])?;
    Ok(())
}

#[test]
fn a_reset_ends_the_connections_of_one_node() -> Result<()> {
    let bench = Bench::new("fwd-reset")?;
    let (mut cut, mut other) = (bench.connect(0)?, bench.connect(1)?);
    echoes(&mut cut, b"before")?;
    echoes(&mut other, b"before")?;
    bench.forwarder.cut_off(node_ip(0), Cut::Reset);
    assert_eq!(cut.read(&mut [0]).map_err(|error| error.kind()), Err(ErrorKind::ConnectionReset));
    let new = bench.connect(0).and_then(|mut stream| echoes(&mut stream, b"new"));
    assert!(new.is_err(), "a new one is reset too");
    echoes(&mut other, b"the other goes on")?;
    bench.forwarder.reconnect(node_ip(0));
    echoes(&mut bench.connect(0)?, b"after")?;
    Ok(())
}

#[test]
fn when_all_are_refused_nothing_listens_until_it_heals() -> Result<()> {
    let bench = Bench::new("fwd-refuse")?;
    let mut stream = bench.connect(0)?;
    echoes(&mut stream, b"before")?;
    bench.forwarder.refuse_all();
    assert!(echoes(&mut stream, b"gone").is_err(), "what existed was reset");
    assert_eq!(bench.connect(1).map_err(|error| error.kind()).err(), Some(ErrorKind::ConnectionRefused));
    bench.forwarder.heal()?;
    echoes(&mut bench.connect(1)?, b"after")?;
    Ok(())
}
