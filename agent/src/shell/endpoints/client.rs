//! A client of the endpoints of this host's agent.

use std::{
    fs,
    io::{self, Read as _, Write as _},
    net::{Ipv4Addr, TcpStream},
    os::unix::fs::MetadataExt as _,
    path::Path,
    time::Duration,
};

use serde::de::DeserializeOwned;
use vipward_core::{
    diagnosis::{
        doctor::{Agent, FileReport, WireReport},
        fact::{Fact, Unread},
    },
    host::answering::Waiting,
};

use crate::{
    cli::PORT,
    shell::{kernel::preflight, logging::errors::fact},
};

/// The header that names the pin directory of the agent that answers.
pub(super) const PINS: &str = "vipward-pins";
/// The endpoint of the failure detector.
pub(super) const WIRE: &str = "/debug/wire";
/// The endpoint of the VIPs that wait.
pub(super) const WAITING: &str = "/debug/waiting";
/// The endpoint of a standalone agent's file.
pub(super) const FILE: &str = "/debug/file";
/// The time that the agent has to answer: its event loop has 2 s.
const PATIENCE: Duration = Duration::from_secs(3);
/// The longest answer that is read.
const LONGEST: u64 = 32 << 20;

/// Returns the report of the failure detector of the agent that uses a pin directory.
pub(crate) fn wire_report(dir: &Path) -> Fact<WireReport> {
    fact(preflight::user_of(dir)).and_then(|agent| wire(agent, dir))
}

/// Returns the VIPs that wait, by the agent that uses a pin directory.
pub(crate) fn waiting(dir: &Path) -> Fact<Vec<Waiting>> {
    fact(preflight::user_of(dir)).and_then(|agent| query(agent, dir, WAITING))
}

/// Returns the agent's report of the failure detector.
pub(crate) fn wire(agent: Agent, dir: &Path) -> Fact<WireReport> {
    ask(agent, dir, WIRE, "the agent's VIPs are those of a file")
}

/// Returns the agent's report of its file.
pub(crate) fn file(agent: Agent, dir: &Path) -> Fact<FileReport> {
    ask(agent, dir, FILE, "the agent's VIPs are those of a cluster")
}

/// Returns a report of the agent. `none` is the reason why one has nothing to report.
fn ask<T: DeserializeOwned>(agent: Agent, dir: &Path, page: &str, none: &str) -> Fact<T> {
    query(agent, dir, page)
        .and_then(|report: Option<T>| report.map_or_else(|| Fact::skipped(none), Fact::Read))
}

/// Gets a page of the agent that uses a pin directory.
fn query<T: DeserializeOwned>(agent: Agent, dir: &Path, page: &str) -> Fact<T> {
    if agent == Agent::None {
        return Fact::skipped("no agent runs that could be queried");
    }
    let answer = get(page)
        .map_err(|error| error.to_string())
        .and_then(|answer| parse(&answer, identity(dir).as_deref()));
    let failed = |why| {
        let whom = format!("127.0.0.1:{PORT}, its default address (--listen, --listen-port)");
        Unread::failed(format!("the agent at {whom} was queried: {why}"))
    };
    answer.map_err(failed).into()
}

/// Gets a page. HTTP/1.0: the answer ends with the connection, and is not in chunks.
fn get(page: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&(Ipv4Addr::LOCALHOST, PORT).into(), PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(format!("GET {page} HTTP/1.0\r\n\r\n").as_bytes())?;
    let mut answer = String::new();
    stream.take(LONGEST).read_to_string(&mut answer)?;
    Ok(answer)
}

/// Returns what is the same for all who see a pin directory, under whatever path: its device and inode.
pub(super) fn identity(dir: &Path) -> Option<String> {
    let metadata = fs::metadata(dir).ok()?;
    Some(format!("{}:{}", metadata.dev(), metadata.ino()))
}

/// Reads the report in an answer, or returns why there is none. `pins` is the identity of the pin directory
/// whose agent was to answer.
fn parse<T: DeserializeOwned>(answer: &str, pins: Option<&str>) -> Result<T, String> {
    let (head, body) = answer.split_once("\r\n\r\n").ok_or("it closed the connection")?;
    let status = head.lines().next().unwrap_or_default();
    if status.split(' ').nth(1) != Some("200") {
        return Err(format!("{status}: {}", body.trim()));
    }
    let fields = head.lines().filter_map(|line| line.split_once(':'));
    let of = fields.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(PINS)).map(|(_, of)| of.trim());
    if of.is_none() || of != pins {
        return Err("another agent answered, which uses another pin directory".to_owned());
    }
    serde_json::from_str(body).map_err(|error| format!("another answer than an agent's: {error}"))
}

#[cfg(test)]
mod tests {
    use vipward_core::{
        liveness::{Counts, Thread},
        ownership::WireCounts,
    };

    use super::*;

    #[test]
    fn an_answer_is_a_report_or_says_why_there_is_none() {
        let thread = Thread {
            not_first: Some("Operation not permitted".to_owned()),
            not_locked: None,
            peers: Vec::new(),
            counts: Counts { pings: 7, ..Counts::default() },
            frames_unsent: 0,
            frames_refused: 1,
            peers_left_out: 0,
        };
        let report = WireReport { counts: WireCounts::default(), view: None, thread: Some(thread) };
        let with_report =
            format!("HTTP/1.0 200 OK\r\nVipward-Pins: 7:1\r\n\r\n{}", serde_json::json!(report));
        let table: [(&str, Result<Option<WireReport>, &str>); 7] = [
            (&with_report, Ok(Some(report))),
            ("HTTP/1.0 200 OK\r\nvipward-pins: 7:1\r\n\r\nnull\n", Ok(None)),
            ("HTTP/1.0 200 OK\r\nvipward-pins: 7:2\r\n\r\nnull\n", Err("another agent answered")),
            ("HTTP/1.0 200 OK\r\na: b\r\n\r\nnull\n", Err("another agent answered")),
            ("HTTP/1.0 403 Forbidden\r\n\r\nthis host only\n", Err("HTTP/1.0 403 Forbidden: this host only")),
            ("", Err("it closed the connection")),
            (
                "HTTP/1.0 200 OK\r\nvipward-pins: 7:1\r\n\r\n{}",
                Err("another answer than an agent's: missing field `counts`"),
            ),
        ];
        for (answer, expected) in table {
            match (parse::<Option<WireReport>>(answer, Some("7:1")), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected),
                (Err(found), Err(expected)) => assert!(found.starts_with(expected), "{found}"),
                (found, expected) => panic!("{found:?}, not {expected:?}"),
            }
        }
    }
}
