//! Sends one HTTP request from a host and reads the response.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::lan::Host;

/// The address of an agent's pages.
pub const PAGES: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9647);
/// Time limit of a response.
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    pub status: u16,
    /// Headers: name in lower case, value.
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns the body, or fails unless the status is 200.
    pub fn good(self) -> Result<String> {
        ensure!(self.status == 200, "status {}: {}", self.status, self.body);
        Ok(self.body)
    }

    /// Returns the body as JSON, or fails unless the status is 200.
    pub fn json(self) -> Result<Value> {
        let body = self.good()?;
        serde_json::from_str(&body).with_context(|| format!("this is no JSON: {body}"))
    }
}

pub fn get(from: &Host, address: SocketAddr, path: &str) -> Result<Answer> {
    get_as(from, address, path, "*/*", PATIENCE)
}

/// Requests a path with an `Accept` header and this time limit.
pub fn get_as(
    from: &Host,
    address: SocketAddr,
    path: &str,
    accept: &str,
    patience: Duration,
) -> Result<Answer> {
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nAccept: {accept}\r\nConnection: close\r\n\r\n");
    let answer = from.run(|| -> std::io::Result<Vec<u8>> {
        let mut stream = TcpStream::connect_timeout(&address, patience)?;
        stream.set_read_timeout(Some(patience))?;
        stream.write_all(request.as_bytes())?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        Ok(answer)
    });
    let answer = answer.with_context(|| format!("failed to get {path} from {address} on {}", from.name()))?;
    parse(&String::from_utf8(answer).context("the answer is no text")?)
}

fn parse(answer: &str) -> Result<Answer> {
    let (head, body) = answer.split_once("\r\n\r\n").with_context(|| format!("no answer: {answer:?}"))?;
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).context("no status line")?;
    let headers: Vec<_> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let chunked = headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked");
    let body = if chunked { unchunked(body)? } else { body.to_owned() };
    Ok(Answer { status: status.parse().context("a status is a number")?, headers, body })
}

/// Joins the chunks of a body (RFC 9112, section 7.1).
fn unchunked(mut body: &str) -> Result<String> {
    let mut joined = String::new();
    loop {
        let (size, rest) = body.split_once("\r\n").context("a chunk without a size")?;
        let size = usize::from_str_radix(size.trim(), 16).context("the size of a chunk")?;
        if size == 0 {
            return Ok(joined);
        }
        joined.push_str(rest.get(..size).context("a chunk that is cut off")?);
        body = rest.get(size + 2..).context("a chunk without an end")?;
    }
}
