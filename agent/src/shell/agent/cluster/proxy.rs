//! Asks this node's service proxy (kube-proxy, Cilium): HTTP GETs, each a task with a connection of its own.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    task::JoinSet,
    time::timeout,
};
use vipward_core::{
    delivery::{Answer, Target},
    records::HealthPort,
};

use crate::cli::HealthUrl;

/// Longest time for one request.
const LONGEST: Duration = Duration::from_secs(1);
/// The part of an answer that is read.
const MOST_READ: usize = 4_096;

pub(in crate::shell::agent) struct ProxyProber {
    health: Vec<HealthUrl>,
    /// The addresses of this node where its proxy may serve the ports, besides loopback. kube-proxy leaves
    /// loopback out if it has --nodeport-addresses.
    pub(super) addresses: Vec<IpAddr>,
    asked: JoinSet<(Target, Answer)>,
}

impl ProxyProber {
    pub(in crate::shell::agent) fn new(health: Vec<HealthUrl>) -> Self {
        Self { health, addresses: Vec::new(), asked: JoinSet::new() }
    }

    pub(super) fn ask(&mut self, target: Target) {
        match target {
            Target::Health => {
                let urls = self.health.clone();
                self.asked.spawn(async move { (target, ask_health(urls).await) });
            }
            Target::Port(port) => {
                let addresses = addresses(port, &self.addresses);
                self.asked.spawn(async move { (target, ask_port(addresses).await) });
            }
        }
    }

    /// Returns the next answer. Never resolves while nothing is asked. Safe to cancel.
    pub(super) async fn answered(&mut self) -> (Target, Answer) {
        loop {
            match self.asked.join_next().await {
                Some(Ok(answer)) => return answer,
                // A task ends by panic alone, which ends the process.
                Some(Err(_)) => {}
                None => return std::future::pending().await,
            }
        }
    }

    /// Returns another answer that has come already.
    pub(super) fn try_answered(&mut self) -> Option<(Target, Answer)> {
        self.asked.try_join_next()?.ok()
    }
}

/// Returns where a port may be served, the likeliest first.
fn addresses(port: HealthPort, own: &[IpAddr]) -> Vec<SocketAddr> {
    let loopback =
        if port.is_ipv6 { IpAddr::V6(Ipv6Addr::LOCALHOST) } else { IpAddr::V4(Ipv4Addr::LOCALHOST) };
    let own = own.iter().copied().filter(|address| address.is_ipv6() == port.is_ipv6);
    [loopback].into_iter().chain(own).map(|address| SocketAddr::new(address, port.number)).collect()
}

async fn ask_port(addresses: Vec<SocketAddr>) -> Answer {
    for address in addresses {
        let answer = judge(get(address, &address.to_string(), "/healthz").await.as_deref());
        if answer != Answer::Unreachable {
            return answer;
        }
    }
    Answer::Unreachable
}

/// Asks all endpoints at once. One of them is that of the proxy.
async fn ask_health(urls: Vec<HealthUrl>) -> Answer {
    let mut asked: JoinSet<_> = urls
        .into_iter()
        .map(|HealthUrl { address, path }| async move {
            judge_health(get(address, &address.to_string(), &path).await.as_deref())
        })
        .collect();
    let mut found = Answer::Unreachable;
    while let Some(answer) = asked.join_next().await {
        match answer {
            Ok(sound @ (Answer::Good | Answer::Perhaps)) => return sound,
            Ok(Answer::Bad) => found = Answer::Bad,
            Ok(Answer::Unreachable) | Err(_) => {}
        }
    }
    found
}

/// Returns the beginning of an answer. Returns none if none came in time. `brief` has Cilium's agent leave
/// out what does not matter to its readiness, as kubelet's probe does.
async fn get(address: SocketAddr, host: &str, path: &str) -> Option<String> {
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: vipward\r\nbrief: true\r\nConnection: close\r\n\r\n"
    );
    let exchange = async {
        let mut stream = TcpStream::connect(address).await.ok()?;
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut answer = Vec::new();
        // A server that has answered may reset the connection.
        _ = stream.take(MOST_READ as u64).read_to_end(&mut answer).await;
        (!answer.is_empty()).then(|| String::from_utf8_lossy(&answer).into_owned())
    };
    timeout(LONGEST, exchange).await.ok().flatten()
}

fn judge(answer: Option<&str>) -> Answer {
    let status = answer.and_then(|answer| answer.strip_prefix("HTTP/1.")?.get(2..5)?.parse::<u16>().ok());
    match status {
        Some(200) => Answer::Good,
        Some(500..=599) => Answer::Bad,
        Some(_) | None => Answer::Unreachable,
    }
}

/// Judges an answer of the health endpoint. kube-proxy calls itself healthy before it has written its first
/// rules. It lists no IP family by then, and its earlier versions never do.
fn judge_health(answer: Option<&str>) -> Answer {
    let found = judge(answer);
    let body = answer.and_then(|answer| answer.split_once("\r\n\r\n")).map(|(_, body)| body);
    let is_kube_proxys = body.is_some_and(|body| body.contains("\"lastUpdated\""));
    let lists_families = body.is_some_and(|body| body.contains("\"status\""));
    if found == Answer::Good && is_kube_proxys && !lists_families { Answer::Perhaps } else { found }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_good_or_bad_or_of_another_program() {
        let table = [
            (None, Answer::Unreachable),
            (Some("HTTP/1.1 200 OK\r\n\r\n"), Answer::Good),
            (Some("HTTP/1.0 503 Service Unavailable\r\n"), Answer::Bad),
            (Some("HTTP/1.1 404 Not Found\r\n"), Answer::Unreachable),
            (Some("HTTP/1.1 2"), Answer::Unreachable),
            (Some("SSH-2.0-OpenSSH"), Answer::Unreachable),
        ];
        for (answer, found) in table {
            assert_eq!((judge(answer), judge_health(answer)), (found, found), "{answer:?}");
        }
    }

    #[test]
    fn a_proxy_that_lists_no_family_has_perhaps_not_written_its_rules() {
        let table = [
            (r#"{"lastUpdated":"…","currentTime":"…","nodeEligible":true}"#, Answer::Perhaps),
            (r#"{"lastUpdated":"…","nodeEligible":true,"status":{"IPv4":{"healthy":true}}}"#, Answer::Good),
            ("ok", Answer::Good),
            ("", Answer::Good),
        ];
        for (body, found) in table {
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{body}");
            assert_eq!(judge_health(Some(&answer)), found, "{body}");
        }
    }

    #[test]
    fn a_port_is_asked_on_loopback_first_and_in_its_family_alone() {
        let own = ["192.0.2.1".parse().expect("an address"), "2001:db8::1".parse().expect("an address")];
        let found = |is_ipv6| addresses(HealthPort { number: 30_001, is_ipv6 }, &own);
        let texts = |is_ipv6| found(is_ipv6).iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(texts(false), ["127.0.0.1:30001", "192.0.2.1:30001"]);
        assert_eq!(texts(true), ["[::1]:30001", "[2001:db8::1]:30001"]);
    }
}
