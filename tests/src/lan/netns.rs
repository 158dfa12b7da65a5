//! Owns a network namespace without a name. It ends with the last descriptor.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::panic;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::thread;

use anyhow::{Context, Result};
use nix::sched::{CloneFlags, setns, unshare};
use rtnetlink::Handle;

/// Namespace of the calling thread; `/proc/self` has the main thread's.
const OWN: &str = "/proc/thread-self/ns/net";

/// Network namespace. Clones are the same namespace.
#[derive(Clone, Debug)]
pub struct NetNs(Arc<File>);

impl From<Arc<File>> for NetNs {
    /// Returns the namespace that a file of /proc names.
    fn from(file: Arc<File>) -> Self {
        Self(file)
    }
}

impl NetNs {
    /// Makes a namespace with lo up and, for a quiet wire, IPv6 off.
    pub fn new() -> Result<Self> {
        crate::kit::require_root()?;
        let file = on_own_thread(|| {
            unshare(CloneFlags::CLONE_NEWNET).context("failed to make a network namespace")?;
            switch_ipv6_off()?;
            File::open(OWN).with_context(|| format!("failed to open {OWN}"))
        })?;
        let namespace = Self(Arc::new(file));
        namespace.set_up("lo", true)?;
        Ok(namespace)
    }

    /// Runs `work` on a thread in the namespace, and waits for it. Passes on a panic.
    /// Sockets that `work` opens and `/proc/sys/net` belong to
    /// the namespace. Everything else, such as mounts, stays.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        on_own_thread(|| {
            setns(&self.0, CloneFlags::CLONE_NEWNET)
                .expect("invariant: root enters a network namespace that it holds open");
            work()
        })
    }

    /// Runs rtnetlink requests in the namespace.
    pub fn netlink<T: Send>(
        &self,
        requests: impl AsyncFnOnce(Handle) -> Result<T, rtnetlink::Error> + Send,
    ) -> Result<T> {
        self.run(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
            runtime.block_on(async {
                let (connection, handle, _) = rtnetlink::new_connection()?;
                tokio::spawn(connection);
                Ok(requests(handle).await?)
            })
        })
    }

    /// Makes `command` start its process in the namespace.
    pub fn adopt(&self, command: &mut Command) {
        let file = Arc::clone(&self.0);
        // SAFETY: between fork and exec the closure makes one system call and allocates nothing.
        unsafe {
            command.pre_exec(move || setns(&file, CloneFlags::CLONE_NEWNET).map_err(io::Error::from));
        }
    }

    /// Returns the inode number in `/proc/PID/ns/net`.
    pub fn inode(&self) -> Result<u64> {
        Ok(self.0.metadata().context("failed to stat a network namespace")?.ino())
    }

    /// Returns the descriptor that keeps the namespace.
    pub fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Runs `work` on a thread of its own, which may change its namespace.
fn on_own_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| scope.spawn(work).join()).unwrap_or_else(|cause| panic::resume_unwind(cause))
}

fn switch_ipv6_off() -> Result<()> {
    for scope in ["all", "default"] {
        let path = format!("/proc/sys/net/ipv6/conf/{scope}/disable_ipv6");
        if Path::new(&path).exists() {
            fs::write(&path, "1").with_context(|| format!("failed to write {path}"))?;
        }
    }
    Ok(())
}
