//! Health of the agents, as the operating system and the agents report it.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::time::Duration;

use vipward_tests::lan::Host;

/// Address of the pages of an agent.
const HEALTH: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 9647);
const PATIENCE: Duration = Duration::from_secs(3);

/// Returns whether the agent on a host says that it is ready.
pub(super) fn is_ready(host: &Host) -> bool {
    let asked = host.run(|| -> std::io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&HEALTH.into(), PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: agent\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    });
    // Without an answer, the agent does not listen yet or is busy. It is not ready in either case.
    asked.is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"))
}
