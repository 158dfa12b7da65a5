//! Runs child processes that end with their owner, and keeps their output for failure messages.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, SysconfVar, geteuid, sysconf};

use super::wait_for;

/// Fails unless this process is root. The error tells how to run it as root.
pub fn require_root() -> Result<()> {
    ensure!(
        geteuid().is_root(),
        "needs root for network namespaces, raw sockets and bpffs: run `cargo xtask test`, or this command with sudo"
    );
    Ok(())
}

/// Returns a memory figure of a process by its name in
/// /proc/PID/status: `VmRSS` is the present, `VmHWM` the peak.
pub fn memory_bytes(pid: u32, name: &str) -> Result<u64> {
    let path = format!("/proc/{pid}/status");
    let status = fs::read_to_string(&path).with_context(|| format!("failed to read {path}"))?;
    let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let kib = value.and_then(|value| value.trim().strip_suffix(" kB"));
    let kib = kib.with_context(|| format!("there is no {name} in kB in {path}"))?;
    Ok(kib.parse::<u64>()? * 1_024)
}

/// Returns the CPU time that a process has used.
pub fn cpu_time(pid: u32) -> Result<Duration> {
    time_in(&format!("/proc/{pid}/stat"))
}

/// Returns the CPU time that the thread of a process with this name has used.
pub fn thread_time(pid: u32, name: &str) -> Result<Duration> {
    let tasks = format!("/proc/{pid}/task");
    for task in fs::read_dir(&tasks).with_context(|| format!("failed to read {tasks}"))? {
        let task = task?.path();
        // A thread may have ended meanwhile.
        let is_it = fs::read_to_string(task.join("comm")).is_ok_and(|comm| comm.trim_end() == name);
        if is_it {
            return time_in(&task.join("stat").display().to_string());
        }
    }
    bail!("process {pid} has no thread {name}")
}

/// Returns the sum of `utime` and `stime` in a file of the format of /proc/PID/stat.
fn time_in(path: &str) -> Result<Duration> {
    /// Field numbers as proc(5) counts them, less those up to the name in parentheses.
    const UTIME: usize = 14 - 3;

    let stat = fs::read_to_string(path).with_context(|| format!("failed to read {path}"))?;
    let (_, fields) = stat.rsplit_once(") ").with_context(|| format!("there is no name in {path}"))?;
    let ticks: Vec<u64> = fields
        .split(' ')
        .skip(UTIME)
        .take(2)
        .map(str::parse)
        .collect::<Result<_, _>>()
        .with_context(|| format!("the times in {path} are no numbers"))?;
    let per_second = sysconf(SysconfVar::CLK_TCK)?.context("the kernel has no clock tick")?;
    Ok(Duration::from_secs(1) * u32::try_from(ticks.iter().sum::<u64>())? / u32::try_from(per_second)?)
}

#[derive(Clone, Debug, Default)]
pub struct SpawnOptions {
    /// File for stdout and stderr. By default each has an unnamed file.
    pub output: Option<PathBuf>,
    /// True if [`Process::leave`] is allowed. Otherwise the kernel
    /// kills the child when this process dies.
    pub can_be_left: bool,
}

/// Child process. Dropping it kills and reaps the process.
/// Its output goes to files, so that it never waits for a reader.
#[derive(Debug)]
pub struct Process {
    name: String,
    /// Child; `None` after [`Process::leave`].
    child: Option<Child>,
    stdout: File,
    stderr: File,
}

impl Process {
    pub fn spawn(mut command: Command, options: &SpawnOptions) -> Result<Self> {
        let name = Path::new(command.get_program()).display().to_string();
        let (stdout, stderr) = match &options.output {
            Some(path) => {
                let file = open_log(path)?;
                (file.try_clone()?, file)
            }
            None => (unnamed_file()?, unnamed_file()?),
        };
        command.stdin(Stdio::null()).stdout(stdout.try_clone()?).stderr(stderr.try_clone()?);
        if options.can_be_left {
            // With its own process group it does not receive Ctrl-C of the terminal.
            command.process_group(0);
        } else {
            die_with_us(&mut command);
        }
        let child = spawn_on_lasting_thread(command).with_context(|| format!("failed to start {name}"))?;
        Ok(Self { name, child: Some(child), stdout, stderr })
    }

    pub fn pid(&self) -> u32 {
        self.child().id()
    }

    pub fn signal(&mut self, signal: Signal) -> Result<()> {
        // The process is not reaped yet, so that no other has its pid.
        ensure!(
            self.exit_status()?.is_none(),
            "{} has ended before {signal}{}",
            self.name,
            self.transcript()
        );
        let pid = self.pid();
        let pid = Pid::from_raw(i32::try_from(pid).context("invariant: a pid fits")?);
        kill(pid, signal).with_context(|| format!("failed to send {signal} to {} ({pid})", self.name))
    }

    /// Returns its exit status, if it has ended.
    pub fn exit_status(&mut self) -> Result<Option<ExitStatus>> {
        let name = &self.name;
        let child = self.child.as_mut().expect("invariant: a process that was left is gone from here");
        child.try_wait().with_context(|| format!("failed to wait for {name}"))
    }

    /// Waits for its end. The failure after `limit` shows its output.
    pub fn wait(&mut self, limit: Duration) -> Result<ExitStatus> {
        let what = format!("{} to end", self.name);
        let ended = wait_for(limit, &what, || self.exit_status());
        ended.with_context(|| format!("it printed:{}", self.transcript()))
    }

    /// Kills it by its pid, and reaps it.
    pub fn kill(&mut self) -> Result<ExitStatus> {
        let name = &self.name;
        let child = self.child.as_mut().expect("invariant: a process that was left is gone from here");
        child.kill().and_then(|()| child.wait()).with_context(|| format!("failed to kill {name}"))
    }

    /// Leaves it running without an owner, and returns its pid. Its options must allow that.
    pub fn leave(mut self) -> u32 {
        self.child.take().expect("invariant: a process that was left is gone from here").id()
    }

    /// Returns its stdout so far, with stderr if they share a file.
    pub fn stdout(&self) -> String {
        read_all(&self.stdout)
    }

    /// Returns its stderr so far, with stdout if they share a file.
    pub fn stderr(&self) -> String {
        read_all(&self.stderr)
    }

    /// Returns its output, for a failure message.
    pub fn transcript(&self) -> String {
        let (stdout, stderr) = (self.stdout(), self.stderr());
        let once = if stdout == stderr { "" } else { stdout.as_str() };
        format!("\n{once}{stderr}")
    }

    fn child(&self) -> &Child {
        self.child.as_ref().expect("invariant: a process that was left is gone from here")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child
            && let Err(error) = child.kill().and_then(|()| child.wait())
        {
            eprintln!("failed to kill {} ({}): {error}", self.name, child.id());
        }
    }
}

/// Runs a command and returns its stdout. A failure shows its stderr.
pub fn output_of(mut command: Command) -> Result<String> {
    let name = Path::new(command.get_program()).display().to_string();
    let output = command.output().with_context(|| format!("failed to start {name}"))?;
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(
        output.status.success(),
        "{name} failed: {}{}\n{stdout}{}",
        output.status,
        if output.status.signal().is_some() { " (killed)" } else { "" },
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(stdout)
}

/// Makes the kernel kill the child when this process dies.
fn die_with_us(command: &mut Command) {
    // SAFETY: between fork and exec the closure makes one system call and allocates nothing.
    unsafe {
        command.pre_exec(|| nix::sys::prctl::set_pdeathsig(Signal::SIGKILL).map_err(io::Error::from));
    }
}

/// Starts a child on a thread that lives as long as this process. The kernel sends a child's
/// death signal when the *thread* that started it ends, and a test's threads end early.
fn spawn_on_lasting_thread(mut command: Command) -> Result<Child> {
    type Job = Box<dyn FnOnce() + Send>;
    static JOBS: OnceLock<Sender<Job>> = OnceLock::new();
    let jobs = JOBS.get_or_init(|| {
        let (sender, receiver) = channel::<Job>();
        thread::spawn(move || receiver.into_iter().for_each(|job| job()));
        sender
    });
    let (sender, receiver) = channel();
    let job = Box::new(move || {
        // The receiver waits below.
        let _ = sender.send(command.spawn());
    });
    jobs.send(job).ok().context("invariant: the spawning thread never ends")?;
    Ok(receiver.recv()??)
}

fn open_log(path: &Path) -> Result<File> {
    // Appends, because a restarted process uses the same file.
    OpenOptions::new()
        .create(true)
        .append(true)
        .read(true)
        .open(path)
        .with_context(|| format!("failed to open {}", path.display()))
}

fn unnamed_file() -> Result<File> {
    tempfile::tempfile().context("failed to make a file for what a process prints")
}

/// Reads by position, because the writer shares the file's offset.
fn read_all(file: &File) -> String {
    let mut text = Vec::new();
    let mut chunk = [0; 8192];
    while let Ok(read @ 1..) = file.read_at(&mut chunk, text.len() as u64) {
        text.extend_from_slice(&chunk[..read]);
    }
    String::from_utf8_lossy(&text).into_owned()
}
