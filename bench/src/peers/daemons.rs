//! Hosts of one LAN that share a VIP by keepalived or ucarp.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use super::system::System;
use vipward_tests::{
    agent::{PATIENCE, VIP, net},
    frames::Mac,
    kit::{Process, tools, wait_until},
    lan::{Host, Lan, Nic},
};

pub(super) const NIC: &str = "eth0";
/// Number of a host in its address, before the first one.
const BEFORE_FIRST: u8 = 10;
/// Priority of the first host in VRRP, and what each later one has less.
const PRIORITY: (u8, u8) = (150, 50);
/// Priority of a holder that should give the VIP away.
const LEAST_PRIORITY: u8 = 10;
/// Skew of each host in CARP, in 256ths of a second more than the host before.
const SKEW: u8 = 10;

/// LAN with a client, an observer, a rogue, and hosts that share the VIP. Fields are in the order
/// of dropping.
pub(super) struct Daemons {
    members: Vec<Member>,
    pub(super) client: Host,
    pub(super) observer: Host,
    pub(super) rogue: Host,
    _lan: Lan,
}

/// Host and its daemon.
struct Member {
    daemon: Daemon,
    host: Host,
}

impl Daemons {
    /// Starts the daemons on so many hosts, of which the first is to be the holder. The kernel's
    /// only host has the address.
    pub(super) fn start(system: System, hosts: u8) -> Result<Self> {
        let lan = Lan::new("peers")?;
        let host = |name: &str, last: u8, mac: Mac| lan.host(name, Nic::new(net(last)).mac(mac));
        let (client, observer) = (host("client", 1, Mac::local(1))?, host("observer", 2, Mac::local(2))?);
        let rogue = host("rogue", 3, Mac::local(3))?;
        let mut members = Vec::new();
        for place in 0..hosts {
            let number = place + 1;
            let host = host(&format!("n{number}"), BEFORE_FIRST + number, Mac([2, 0, 0, 0, 1, number]))?;
            let mut daemon = Daemon::new(system, place, &host)?;
            daemon.start()?;
            members.push(Member { daemon, host });
        }
        Ok(Self { members, client, observer, rogue, _lan: lan })
    }

    pub(super) fn hosts(&self) -> Vec<&Host> {
        self.members.iter().map(|member| &member.host).collect()
    }

    /// Returns what the daemons have printed, for failure messages.
    pub(super) fn transcripts(&self) -> String {
        self.members.iter().map(|member| member.daemon.transcript()).collect()
    }

    pub(super) fn daemon(&mut self, place: usize) -> Result<&mut Daemon> {
        Ok(&mut self.members.get_mut(place).context("there is no such host")?.daemon)
    }

    /// Switches a host off: from one instant on no frame leaves it, and its processes are gone.
    pub(super) fn power_off(&mut self, place: usize) -> Result<()> {
        let member = self.members.get_mut(place).context("there is no such host")?;
        member.daemon.freeze()?;
        member.host.set_carrier(NIC, false)?;
        member.daemon.kill9()
    }
}

/// Daemon of a host, which can be ended and started again.
pub(super) struct Daemon {
    system: System,
    host: Host,
    directory: TempDir,
    place: u8,
    process: Option<Process>,
    /// Killed children, which init reaps.
    orphans: Vec<Pid>,
}

impl Daemon {
    fn new(system: System, place: u8, host: &Host) -> Result<Self> {
        let directory = TempDir::with_prefix("vipward-peer-").context("failed to make a directory")?;
        let daemon =
            Self { system, host: host.clone(), directory, place, process: None, orphans: Vec::new() };
        match system {
            System::Keepalived | System::KeepalivedFast => {
                let (first, step) = PRIORITY;
                daemon.configure(first.saturating_sub(step * place))?;
            }
            System::Ucarp => {
                daemon.script("up", "add")?;
                daemon.script("down", "del")?;
            }
            System::Kernel => host.add_address(NIC, ipnet::Ipv4Net::from(VIP))?,
            System::Vipward => bail!("Vipward's hosts are a cluster"),
        }
        Ok(daemon)
    }

    /// Starts the daemon, or starts it again.
    ///
    /// keepalived would find a daemon running while its killed child is not reaped.
    pub(super) fn start(&mut self) -> Result<()> {
        wait_until(PATIENCE, "the daemon's children to be gone", || {
            Ok(self.orphans.iter().all(|child| kill(*child, None) == Err(Errno::ESRCH)))
        })?;
        let command = match self.system {
            System::Keepalived | System::KeepalivedFast => self.keepalived()?,
            System::Ucarp => self.ucarp()?,
            System::Kernel | System::Vipward => return Ok(()),
        };
        self.process = Some(self.host.spawn(command)?);
        Ok(())
    }

    /// Kills every process of the daemon.
    ///
    /// keepalived's child ends properly when only its parent is killed, so the parent is stopped
    /// first and killed last.
    pub(super) fn kill9(&mut self) -> Result<()> {
        let Some(mut process) = self.process.take() else { return Ok(()) };
        if process.exit_status()?.is_none() {
            process.signal(Signal::SIGSTOP)?;
            self.orphans = children(process.pid())?;
            for child in &self.orphans {
                signal_if_there(*child, Signal::SIGKILL)?;
            }
        }
        process.kill().map(drop)
    }

    /// Stops every process of the daemon with SIGSTOP.
    fn freeze(&mut self) -> Result<()> {
        let Some(process) = &mut self.process else { return Ok(()) };
        process.signal(Signal::SIGSTOP)?;
        children(process.pid())?.into_iter().try_for_each(|child| signal_if_there(child, Signal::SIGSTOP))
    }

    /// Ends the daemon properly with SIGTERM.
    pub(super) fn terminate(&mut self) -> Result<()> {
        let process = self.process.as_mut().context("the daemon does not run")?;
        process.signal(Signal::SIGTERM)?;
        process.wait(PATIENCE)?;
        self.process = None;
        Ok(())
    }

    /// Makes the daemon give the VIP to another host, by the means that its documentation names.
    pub(super) fn give_away(&mut self) -> Result<()> {
        let signal = match self.system {
            System::Keepalived | System::KeepalivedFast => {
                self.configure(LEAST_PRIORITY)?;
                Signal::SIGHUP
            }
            System::Ucarp => Signal::SIGUSR2,
            System::Kernel | System::Vipward => bail!("{} moves nothing by itself", self.system),
        };
        self.process.as_mut().context("the daemon does not run")?.signal(signal)
    }

    fn transcript(&self) -> String {
        self.process.as_ref().map_or_else(String::new, Process::transcript)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn configure(&self, priority: u8) -> Result<()> {
        let (state, fast) =
            (if self.place == 0 { "MASTER" } else { "BACKUP" }, "version 3\n  advert_int 0.1");
        let interval = if self.system == System::KeepalivedFast { fast } else { "advert_int 1" };
        let mut text = format!("vrrp_instance one {{\n  state {state}\n  interface {NIC}\n");
        write!(text, "  virtual_router_id 7\n  priority {priority}\n  {interval}\n")?;
        write!(text, "  virtual_ipaddress {{\n    {VIP}/32 dev {NIC}\n  }}\n}}\n")?;
        let path = self.path("keepalived.conf");
        fs::write(&path, text).with_context(|| format!("failed to write {}", path.display()))
    }

    fn keepalived(&self) -> Result<Command> {
        let mut command = self.host.command(tools::keepalived()?);
        command.args(["--dont-fork", "--vrrp", "--log-console", "--use-file"]);
        command.arg(self.path("keepalived.conf"));
        for (option, name) in [("--pid", "pid"), ("--vrrp_pid", "vrrp")] {
            command.arg(option).arg(self.path(name));
        }
        Ok(command)
    }

    fn ucarp(&self) -> Result<Command> {
        let mut command = self.host.command(tools::ucarp()?);
        command.arg(format!("--interface={NIC}")).arg(format!("--srcip={}", self.host.address(NIC)?));
        command.args(["--vhid=7", "--pass=secret", "--shutdown"]).arg(format!("--addr={VIP}"));
        command.arg(format!("--advskew={}", SKEW * self.place));
        for (option, name) in [("--upscript", "up"), ("--downscript", "down")] {
            command.arg(format!("{option}={}", self.path(name).display()));
        }
        Ok(command)
    }

    fn script(&self, name: &str, verb: &str) -> Result<()> {
        let path = self.path(name);
        fs::write(&path, format!("#!/bin/sh\nexec ip address {verb} {VIP}/32 dev {NIC}\n"))
            .and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(0o755)))
            .with_context(|| format!("failed to write {}", path.display()))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if let Err(error) = self.kill9() {
            eprintln!("failed to kill {} on {}: {error:#}", self.system, self.host.name());
        }
    }
}

/// Returns the children that the main thread of a process has started.
fn children(pid: u32) -> Result<Vec<Pid>> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let text = fs::read_to_string(&path).with_context(|| format!("failed to read {path}"))?;
    let child = |word: &str| -> Result<Pid> {
        let child: i32 = word.parse().with_context(|| format!("{word:?} in {path} is no pid"))?;
        ensure!(child > 1, "{child} in {path} is no child");
        Ok(Pid::from_raw(child))
    };
    text.split_whitespace().map(child).collect()
}

fn signal_if_there(pid: Pid, signal: Signal) -> Result<()> {
    match kill(pid, signal) {
        Ok(()) | Err(Errno::ESRCH) => Ok(()),
        Err(error) => Err(error).with_context(|| format!("failed to send {signal} to {pid}")),
    }
}
