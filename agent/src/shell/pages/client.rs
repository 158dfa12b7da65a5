//! Asks an agent of this host for its pages.

use std::{
    io::{self, Read as _, Write as _},
    net::{Ipv4Addr, TcpStream},
    path::Path,
    time::Duration,
};

use vipward_core::diagnosis::{
    doctor::{Agent, WireReport},
    pinned::{Fact, Unread},
};

use crate::{cli::PORT, shell::kernel::preflight};

/// The page of wire failover.
pub(super) const WIRE: &str = "/debug/wire";
/// The time that the agent has to answer: its event loop has 2 s.
const PATIENCE: Duration = Duration::from_secs(3);
/// The longest answer that is read.
const LONGEST: u64 = 1 << 20;

/// Returns the account of wire failover of the agent that uses a pin directory.
pub(crate) fn wire_report(dir: &Path) -> Fact<WireReport> {
    wire(preflight::user_of(dir).ok())
}

/// Returns the agent's account of wire failover.
pub(crate) fn wire(agent: Option<Agent>) -> Fact<WireReport> {
    let unread = |why: String| Unread {
        reason: format!(
            "the agent was asked on 127.0.0.1:{PORT}, its default address (--listen, --listen-port): {why}"
        ),
        denied: false,
    };
    match agent {
        Some(Agent::Runs(_)) => {}
        Some(Agent::None) | None => return Err(unread("none runs".to_owned())),
    }
    parse(&get(WIRE).map_err(|error| unread(error.to_string()))?).map_err(unread)
}

/// Asks for a page. HTTP/1.0: the answer ends with the connection, and is not in chunks.
fn get(page: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&(Ipv4Addr::LOCALHOST, PORT).into(), PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(format!("GET {page} HTTP/1.0\r\n\r\n").as_bytes())?;
    let mut answer = String::new();
    stream.take(LONGEST).read_to_string(&mut answer)?;
    Ok(answer)
}

/// Reads the report in an answer, or returns why there is none.
fn parse(answer: &str) -> Result<WireReport, String> {
    let (head, body) = answer.split_once("\r\n\r\n").ok_or("it closed the connection")?;
    let status = head.lines().next().unwrap_or_default();
    if status.split(' ').nth(1) != Some("200") {
        return Err(format!("{status}: {}", body.trim()));
    }
    serde_json::from_str(body).map_err(|error| format!("another answer than an agent's: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_a_report_or_says_why_there_is_none() {
        let table = [
            ("HTTP/1.0 200 OK\r\na: b\r\n\r\n{\"view\": null, \"peers\": []}", Ok(WireReport::default())),
            ("HTTP/1.0 403 Forbidden\r\n\r\nthis host only\n", Err("HTTP/1.0 403 Forbidden: this host only")),
            ("", Err("it closed the connection")),
            ("HTTP/1.0 200 OK\r\n\r\n{}", Err("another answer than an agent's: missing field `peers`")),
        ];
        for (answer, expected) in table {
            match (parse(answer), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected),
                (Err(found), Err(expected)) => assert!(found.starts_with(expected), "{found}"),
                (found, expected) => panic!("{found:?}, not {expected:?}"),
            }
        }
    }
}
