//! Checks this host before anything is loaded: capabilities, kernel and pin directory.

use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use caps::{CapSet, Capability, CapsHashSet};
use nix::errno::Errno;
use nix::sys::utsname::uname;

mod pin_dir;

#[cfg(test)]
mod tests;

pub use self::pin_dir::{PinDirError, PinDirLock, check_bpffs, ensure_bpffs, look_at, user_of};

/// Capabilities that the agent needs, root or not.
const NEEDED: [Capability; 4] =
    [Capability::CAP_BPF, Capability::CAP_NET_ADMIN, Capability::CAP_NET_RAW, Capability::CAP_PERFMON];
const BTF: &str = "/sys/kernel/btf/vmlinux";
/// Features that the program and its loader use, each with the first Linux release that has it.
const FEATURES: [(Release, &str); 4] = [
    (Release { major: 5, minor: 8 }, "the BPF ring buffer and CAP_BPF"),
    (Release { major: 5, minor: 9 }, "bpf_link for XDP"),
    (Release { major: 5, minor: 11 }, "bpf_ktime_get_coarse_ns"),
    (Release { major: 5, minor: 12 }, "BPF compare-and-exchange"),
];

/// `PROC_USER_INIT_INO`: the host's user namespace, on each Linux.
const HOSTS_USERS: u64 = 0xefff_fffd;

/// The first release that charges BPF memory to the cgroup.
const MEMORY_IN_CGROUP: Release = Release { major: 5, minor: 11 };

#[derive(Debug, thiserror::Error)]
pub enum PreflightError {
    #[error("failed to read this process's capabilities")]
    ReadCapabilities(#[source] caps::errors::CapsError),
    #[error(
        "this process lacks {missing}: run it as root (sudo), or with AmbientCapabilities={needed} in a systemd \
         unit, or after setcap {setcap}+ep on the binary",
        needed = Capabilities(NEEDED.to_vec()),
        setcap = Capabilities(NEEDED.to_vec()).for_setcap(),
    )]
    Capabilities { missing: Capabilities },
    #[error(
        "this process is in a user namespace, whose root the kernel does not let load the program: run it in the \
         host's (a privileged container; no rootless Docker, Podman or LXC)"
    )]
    UserNamespace,
    #[error(
        "this process is in a time namespace whose boot clock is {seconds} s off the kernel's, and the lease \
         deadline would be too: run it in the host's (nsenter --time --target 1)"
    )]
    TimeNamespace { seconds: i64 },
    #[error("failed to read the kernel's release")]
    Uname(#[source] Errno),
    #[error("kernel {release} is too old: it lacks {missing}")]
    KernelTooOld { release: String, missing: Features },
    #[error(
        "{path} is missing: the kernel must be built with CONFIG_DEBUG_INFO_BTF=y (those of current distributions \
         are), and /sys must be mounted"
    )]
    NoBtf { path: PathBuf },
}

/// Capabilities, displayed with spaces between them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Capabilities(pub Vec<Capability>);

impl Capabilities {
    fn for_setcap(&self) -> String {
        self.to_string().to_lowercase().replace(' ', ",")
    }
}

impl fmt::Display for Capabilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&names.join(" "))
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Features(Vec<(Release, &'static str)>);

impl fmt::Display for Features {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let features: Vec<_> =
            self.0.iter().map(|(since, feature)| format!("{feature} (since {since})")).collect();
        f.write_str(&features.join(", "))
    }
}

/// The part of a kernel's release that determines its features.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Release {
    /// The first number, such as 6 of 6.18.
    pub major: u32,
    /// The second number, such as 18 of 6.18.
    pub minor: u32,
}

impl Release {
    /// Parses the output of `uname -r`, with any suffix of a distribution. Returns `None` if it
    /// does not begin with two numbers.
    pub fn parse(release: &str) -> Option<Self> {
        let (major, rest) = release.trim().split_once('.')?;
        let minor = rest.split(|c: char| !c.is_ascii_digit()).next()?;
        Some(Self { major: major.parse().ok()?, minor: minor.parse().ok()? })
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// Checks that the calling thread has all capabilities that the agent needs.
pub fn check_capabilities() -> Result<(), PreflightError> {
    let effective = caps::read(None, CapSet::Effective).map_err(PreflightError::ReadCapabilities)?;
    match missing_capabilities(&effective) {
        missing if missing.0.is_empty() => Ok(()),
        missing => Err(PreflightError::Capabilities { missing }),
    }
}

/// Checks that the process is in the host's user namespace, and that its boot clock is the kernel's.
pub fn check_namespaces() -> Result<(), PreflightError> {
    // Where they cannot be read, nothing is known.
    if fs::metadata("/proc/self/ns/user").is_ok_and(|users| users.ino() != HOSTS_USERS) {
        return Err(PreflightError::UserNamespace);
    }
    // Without the file, the kernel has no time namespaces.
    match boot_clock_offset(&fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default()) {
        0 => Ok(()),
        seconds => Err(PreflightError::TimeNamespace { seconds }),
    }
}

/// Returns the seconds in a line like `boottime 100000 0` of `timens_offsets`. A part of a second counts as
/// one.
fn boot_clock_offset(offsets: &str) -> i64 {
    let boot = offsets.lines().map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
    let boot = boot.into_iter().find(|fields| fields.first() == Some(&"boottime")).unwrap_or_default();
    let number = |at: usize| boot.get(at).and_then(|field| field.parse::<i64>().ok()).unwrap_or(0);
    match (number(1), number(2)) {
        (0, nanoseconds) => nanoseconds.signum(),
        (seconds, _) => seconds,
    }
}

/// Returns the needed capabilities that a process lacks.
/// Without a `pid`, checks the calling thread.
pub fn missing_capabilities_of(pid: Option<u32>) -> Result<Capabilities, PreflightError> {
    let pid = pid.and_then(|pid| i32::try_from(pid).ok());
    let effective = caps::read(pid, CapSet::Effective).map_err(PreflightError::ReadCapabilities)?;
    Ok(missing_capabilities(&effective))
}

pub fn release() -> Result<String, PreflightError> {
    let uname = uname().map_err(PreflightError::Uname)?;
    Ok(uname.release().to_string_lossy().into_owned())
}

/// Returns the features that a kernel of this release lacks, as text. Returns none if it has all, or if
/// the release cannot be parsed.
pub fn lacks(release: &str) -> Option<String> {
    match check_release(release) {
        Err(PreflightError::KernelTooOld { missing, .. }) => Some(missing.to_string()),
        Ok(()) | Err(_) => None,
    }
}

/// Returns true if a kernel of this release counts BPF memory as locked memory.
pub fn counts_bpf_as_locked(release: &str) -> bool {
    Release::parse(release).is_some_and(|running| running < MEMORY_IN_CGROUP)
}

pub fn has_btf() -> std::io::Result<bool> {
    Path::new(BTF).try_exists()
}

/// Checks that the running kernel has what the program needs. A release that cannot be parsed
/// passes.
pub fn check_kernel() -> Result<(), PreflightError> {
    check_release(&release()?)?;
    check_btf(Path::new(BTF))
}

/// Returns the missing capabilities. `CAP_SYS_ADMIN` includes the two that were split off it.
fn missing_capabilities(effective: &CapsHashSet) -> Capabilities {
    let has = |needed: &Capability| {
        let split_off = matches!(needed, Capability::CAP_BPF | Capability::CAP_PERFMON);
        effective.contains(needed) || split_off && effective.contains(&Capability::CAP_SYS_ADMIN)
    };
    Capabilities(NEEDED.into_iter().filter(|needed| !has(needed)).collect())
}

fn check_release(release: &str) -> Result<(), PreflightError> {
    let Some(running) = Release::parse(release) else { return Ok(()) };
    let missing: Vec<_> = FEATURES.into_iter().filter(|(since, _)| running < *since).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(PreflightError::KernelTooOld { release: release.to_owned(), missing: Features(missing) })
}

fn check_btf(path: &Path) -> Result<(), PreflightError> {
    if path.exists() { Ok(()) } else { Err(PreflightError::NoBtf { path: path.to_owned() }) }
}
