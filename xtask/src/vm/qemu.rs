//! Runs a machine in QEMU: its devices, its output, and its end.

use std::{
    fs::{self, File},
    io::{BufRead as _, BufReader},
    os::{
        fd::AsRawFd as _,
        unix::{net::UnixStream, process::CommandExt as _},
    },
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use clap::ValueEnum;
use nix::{
    fcntl::{FcntlArg, FdFlag, fcntl},
    sys::{prctl, signal::Signal},
};

use super::{
    guest::{EXIT, HOST_TAG, Root},
    kernels::{Arch, Unpacked},
};
use crate::process;

/// Longest life of a machine, however much it prints.
const MOST: Duration = Duration::from_mins(20);

/// Model of the NICs of the node. The client always has virtio-net.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(super) enum Nic {
    #[value(name = "virtio-net")]
    VirtioNet,
    #[value(name = "e1000e")]
    E1000e,
    #[value(name = "vmxnet3")]
    Vmxnet3,
}

impl Nic {
    pub(super) const ALL: [Self; 3] = [Self::VirtioNet, Self::E1000e, Self::Vmxnet3];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::VirtioNet => "virtio-net",
            Self::E1000e => "e1000e",
            Self::Vmxnet3 => "vmxnet3",
        }
    }

    const fn device(self) -> &'static str {
        match self {
            // LACP needs a speed and full duplex, which a card without these options does not report.
            Self::VirtioNet => "virtio-net-pci,speed=10000,duplex=full",
            Self::E1000e | Self::Vmxnet3 => self.name(),
        }
    }
}

/// MACs of the client's NICs.
pub(super) const CLIENT: [&str; 2] = ["52:54:00:00:00:01", "52:54:00:00:00:04"];
/// MACs of the node's NICs.
pub(super) const NODE: [&str; 3] = ["52:54:00:00:00:02", "52:54:00:00:00:03", "52:54:00:00:00:05"];
/// The hub of each NIC, the client's first: one with the client's first NIC and two of the node's,
/// and a cable between the others.
const HUBS: [u8; 5] = [0, 1, 0, 0, 1];
/// Name of the port on which the tests talk to QEMU.
const CONTROL: &str = "control";

/// Execution of the machine's instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Accelerator {
    /// The CPU's virtualisation.
    Kvm,
    Tcg,
}

pub(super) struct Machine<'a> {
    pub(super) arch: Arch,
    pub(super) accelerator: Accelerator,
    pub(super) kernel: &'a Unpacked,
    pub(super) initramfs: &'a Path,
    pub(super) root: Root,
    pub(super) nic: Nic,
    /// File for the kernel's messages.
    pub(super) console: &'a Path,
}

pub(super) const fn program(arch: Arch) -> &'static str {
    match arch {
        Arch::Amd64 => "qemu-system-x86_64",
        Arch::Arm64 => "qemu-system-aarch64",
    }
}

impl Machine<'_> {
    /// Runs the machine and passes on each line that it prints. Returns the exit code of what ran in
    /// it. Kills a machine that prints nothing for `silence`.
    pub(super) fn run(&self, silence: Duration, mut receive: impl FnMut(&str)) -> Result<i32> {
        let (monitor, port) = UnixStream::pair().context("failed to make a pair of sockets")?;
        let mut command = self.command(&monitor, &port);
        let warnings = self.console.with_extension("qemu");
        let warnings =
            File::create(&warnings).with_context(|| format!("failed to make {}", warnings.display()))?;
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(warnings);
        // Ctrl-C reaches QEMU too; this is for an end by another signal.
        // SAFETY: between fork and exec the closure makes system calls and allocates nothing.
        unsafe {
            command.pre_exec(move || {
                prctl::set_pdeathsig(Signal::SIGKILL)?;
                for end in [&monitor, &port] {
                    fcntl(end, FcntlArg::F_SETFD(FdFlag::empty()))?;
                }
                Ok(())
            });
        }
        let child = command
            .spawn()
            .with_context(|| format!("failed to start `{}`", process::command_line(&command)))?;
        // This process's ends of the sockets go with the closure.
        drop(command);
        let mut machine = Running(child);
        let output = machine.0.stdout.take().context("invariant: stdout is a pipe")?;
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            let lines = BufReader::new(output).split(b'\n').map_while(Result::ok);
            lines
                .map(|line| String::from_utf8_lossy(&line).into_owned())
                .try_for_each(|line| sender.send(line))
        });
        let (mut code, begin) = (None, Instant::now());
        loop {
            match lines.recv_timeout(silence) {
                _ if begin.elapsed() > MOST => {
                    bail!("the machine was not done after {MOST:?}{}", self.last_messages())
                }
                Ok(line) => match line.strip_prefix(EXIT) {
                    Some(printed) => code = printed.trim().parse().ok(),
                    None => receive(line.trim_end()),
                },
                Err(RecvTimeoutError::Timeout) => {
                    bail!("the machine printed nothing for {silence:?}{}", self.last_messages())
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        code.with_context(|| format!("the machine ended before its tests{}", self.last_messages()))
    }

    /// Returns true if the kernel died of a breakpoint that it had taken away already.
    ///
    /// The kernel puts an `int3` over an instruction while it changes it, and takes it away when all
    /// CPUs have seen that. QEMU emulates each CPU in a thread of its own, and one may still run the
    /// breakpoint of a translation that is outdated. No CPU does that.
    pub(super) fn died_of_emulation(&self) -> bool {
        let messages = fs::read(self.console).unwrap_or_default();
        self.accelerator == Accelerator::Tcg
            && String::from_utf8_lossy(&messages).lines().any(|line| line.contains("int3: 0000 [#1]"))
    }

    /// Returns the command. The tests in the machine talk to QEMU's monitor through a port.
    fn command(&self, monitor: &UnixStream, port: &UnixStream) -> Command {
        let mut qemu = Command::new(program(self.arch));
        qemu.args(["-no-user-config", "-nodefaults", "-display", "none", "-no-reboot"]);
        qemu.args(["-smp", "2", "-m", "2048"]);
        let (machine, cpu, console) = match self.arch {
            Arch::Amd64 => ("q35", "max", "ttyS0"),
            Arch::Arm64 => ("virt", "cortex-a72", "ttyAMA0"),
        };
        match self.accelerator {
            Accelerator::Kvm => qemu.args(["-accel", "kvm", "-cpu", "host"]),
            Accelerator::Tcg => qemu.args(["-accel", "tcg,thread=multi", "-cpu", cpu]),
        };
        qemu.args(["-machine", machine]);
        qemu.arg("-kernel").arg(&self.kernel.image).arg("-initrd").arg(self.initramfs);
        qemu.arg("-append").arg(format!("console={console} quiet loglevel=5 panic=1 mitigations=off"));
        qemu.arg("-serial").arg(format!("file:{}", self.console.display()));
        // A port without a terminal's line discipline takes the output. `stdio` would close the port
        // at the end of an empty stdin.
        qemu.args(["-device", "virtio-serial-pci", "-chardev", "file,id=output,path=/proc/self/fd/1"]);
        qemu.args(["-device", "virtserialport,chardev=output,nr=1"]);
        qemu.arg("-chardev").arg(format!("socket,id=monitor,fd={}", monitor.as_raw_fd()));
        qemu.args(["-mon", "chardev=monitor,mode=control"]);
        qemu.arg("-chardev").arg(format!("socket,id=port,fd={}", port.as_raw_fd()));
        qemu.arg("-device").arg(format!("virtserialport,chardev=port,nr=2,name={CONTROL}"));
        if self.root == Root::Host {
            let share = "local,path=/,security_model=none,readonly=on,multidevs=remap";
            qemu.arg("-virtfs").arg(format!("{share},mount_tag={HOST_TAG}"));
        }
        let client = CLIENT.map(|mac| (mac, Nic::VirtioNet.device()));
        let node = NODE.map(|mac| (mac, self.nic.device()));
        for ((mac, device), hub) in client.into_iter().chain(node).zip(HUBS) {
            // The tests name a NIC so.
            let id = format!("nic{}", mac.replace(':', "-"));
            qemu.arg("-netdev").arg(format!("hubport,id=at-{id},hubid={hub}"));
            // Without a boot ROM, which not every package of QEMU has.
            qemu.arg("-device").arg(format!("{device},id={id},netdev=at-{id},mac={mac},romfile="));
        }
        qemu
    }

    /// Returns the end of what the kernel and QEMU printed, for a failure message.
    fn last_messages(&self) -> String {
        const LINES: usize = 15;
        let mut text = String::new();
        for path in [self.console.to_owned(), self.console.with_extension("qemu")] {
            let Ok(bytes) = fs::read(&path) else { continue };
            let messages = String::from_utf8_lossy(&bytes).into_owned();
            let lines: Vec<_> = messages.lines().collect();
            let last = lines[lines.len().saturating_sub(LINES)..].join("\n");
            text = format!("{text}\n{} ends:\n{last}", path.display());
        }
        text
    }
}

/// QEMU's process, which ends with the value.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        if let Err(error) = self.0.wait() {
            eprintln!("failed to wait for QEMU: {error}");
        }
    }
}
