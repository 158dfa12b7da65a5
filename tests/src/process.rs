//! Child processes that never outlive their owner, with what they printed kept for failure messages.

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

use anyhow::{Context, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::wait::wait_for;

/// A figure of a process's memory, by its name in /proc/PID/status: `VmRSS` now, `VmHWM` at its peak.
pub fn memory_bytes(pid: u32, name: &str) -> Result<u64> {
    let path = format!("/proc/{pid}/status");
    let status = fs::read_to_string(&path).with_context(|| format!("failed to read {path}"))?;
    let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let kib = value.and_then(|value| value.trim().strip_suffix(" kB"));
    let kib = kib.with_context(|| format!("there is no {name} in kB in {path}"))?;
    Ok(kib.parse::<u64>()? * 1_024)
}

/// How a process is started.
#[derive(Clone, Debug, Default)]
pub struct SpawnOptions {
    /// A file for both stdout and stderr; without one they are kept apart, in files without a name.
    pub output: Option<PathBuf>,
    /// Do not have the kernel kill it when this process dies, so that [`Process::leave`] can be used.
    pub can_be_left: bool,
}

/// A child process; killed and reaped when dropped.
///
/// Its output goes to files, not to pipes: nobody has to read for it to go on.
#[derive(Debug)]
pub struct Process {
    name: String,
    /// None after [`Process::leave`].
    child: Option<Child>,
    stdout: File,
    stderr: File,
}

impl Process {
    /// Starts `command`.
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
            // Its own process group: a Ctrl-C at the terminal is not meant for it.
            command.process_group(0);
        } else {
            die_with_us(&mut command);
        }
        let child = spawn_on_lasting_thread(command).with_context(|| format!("failed to start {name}"))?;
        Ok(Self { name, child: Some(child), stdout, stderr })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child().id()
    }

    /// Sends it a signal.
    pub fn signal(&mut self, signal: Signal) -> Result<()> {
        // Not yet reaped, so that the pid cannot be someone else's.
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

    /// How it ended, if it has.
    pub fn exit_status(&mut self) -> Result<Option<ExitStatus>> {
        let name = &self.name;
        let child = self.child.as_mut().expect("invariant: a process that was left is gone from here");
        child.try_wait().with_context(|| format!("failed to wait for {name}"))
    }

    /// Waits until it ends by itself; the failure after `limit` shows what it printed.
    pub fn wait(&mut self, limit: Duration) -> Result<ExitStatus> {
        let what = format!("{} to end", self.name);
        let ended = wait_for(limit, &what, || self.exit_status());
        ended.with_context(|| format!("it printed:{}", self.transcript()))
    }

    /// Kills it, by its own pid, and reaps it.
    pub fn kill(&mut self) -> Result<ExitStatus> {
        let name = &self.name;
        let child = self.child.as_mut().expect("invariant: a process that was left is gone from here");
        child.kill().and_then(|()| child.wait()).with_context(|| format!("failed to kill {name}"))
    }

    /// Lets it go on without an owner, and returns its pid. It must have been started for that.
    pub fn leave(mut self) -> u32 {
        self.child.take().expect("invariant: a process that was left is gone from here").id()
    }

    /// What it has written to stdout so far (to both, when they share a file).
    pub fn stdout(&self) -> String {
        read_all(&self.stdout)
    }

    /// What it has written to stderr so far (to both, when they share a file).
    pub fn stderr(&self) -> String {
        read_all(&self.stderr)
    }

    /// What it has written, for a failure message.
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

/// Runs a command to its end and returns its stdout; a failure shows its stderr.
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

/// Has the kernel kill the child when this process dies, however that happens.
fn die_with_us(command: &mut Command) {
    // SAFETY: between fork and exec the closure makes one system call and allocates nothing.
    unsafe {
        command.pre_exec(|| nix::sys::prctl::set_pdeathsig(Signal::SIGKILL).map_err(io::Error::from));
    }
}

/// Starts a child on a thread that lives as long as this process: the death signal of a child is sent when the
/// *thread* that started it ends, and a test's threads come and go.
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
        // The receiver waits below; it cannot be gone.
        let _ = sender.send(command.spawn());
    });
    jobs.send(job).ok().context("invariant: the spawning thread never ends")?;
    Ok(receiver.recv()??)
}

fn open_log(path: &Path) -> Result<File> {
    // Appending: a process that is started again goes on in the same file.
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

/// Reads by position: the offset is the writer's, who shares the open file.
fn read_all(file: &File) -> String {
    let mut text = Vec::new();
    let mut chunk = [0; 8192];
    while let Ok(read @ 1..) = file.read_at(&mut chunk, text.len() as u64) {
        text.extend_from_slice(&chunk[..read]);
    }
    String::from_utf8_lossy(&text).into_owned()
}
