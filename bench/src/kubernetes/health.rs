//! Health of the agents, as the operating system and the agents report it.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result};
use nix::unistd::{SysconfVar, sysconf};

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

/// Returns the CPU time that a process has used.
pub(super) fn cpu_time(pid: u32) -> Result<Duration> {
    let path = format!("/proc/{pid}/stat");
    let stat = fs::read_to_string(&path).with_context(|| format!("failed to read {path}"))?;
    // After the name, which may have anything in it: state is field 3, utime and stime are 14 and
    // 15.
    let (_, rest) = stat.rsplit_once(')').with_context(|| format!("{path} has no name"))?;
    let mut fields = rest.split_whitespace().skip(11);
    let mut ticks = || -> Result<u32> {
        let field = fields.next().with_context(|| format!("{path} is too short"))?;
        field.parse().with_context(|| format!("{path} has the CPU time {field}"))
    };
    let ticks = ticks()? + ticks()?;
    let hertz = sysconf(SysconfVar::CLK_TCK)?.context("the kernel does not report its clock's rate")?;
    Ok(Duration::from_secs_f64(f64::from(ticks) / f64::from(u32::try_from(hertz)?)))
}
