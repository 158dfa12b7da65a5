//! Notifies systemd, if it has started this process: `sd_notify(3)`.
//!
//! The crate `sd-notify` sends by a socket that blocks. The event loop must not wait for systemd.

use std::{
    env,
    ffi::OsStr,
    io,
    os::{
        linux::net::SocketAddrExt as _,
        unix::{
            ffi::OsStrExt as _,
            net::{SocketAddr, UnixDatagram},
        },
    },
    process,
    time::Duration,
};

use tracing::warn;

#[cfg(test)]
mod tests;

/// The socket of the service manager.
#[derive(Debug)]
pub struct Systemd {
    socket: UnixDatagram,
    address: SocketAddr,
    /// The time after which systemd ends a process that is silent.
    pub watchdog: Option<Duration>,
}

impl Systemd {
    /// Returns the service manager that the environment names.
    pub fn find() -> Option<Self> {
        let name = env::var_os("NOTIFY_SOCKET")?;
        let variable = |name| env::var(name).ok();
        let watchdog = watchdog(variable("WATCHDOG_USEC"), variable("WATCHDOG_PID"), process::id());
        let failed = |error: &io::Error| {
            warn!(socket = %name.display(), %error, "systemd is not notified: its socket cannot be used");
        };
        Self::at(&name, watchdog).inspect_err(failed).ok()
    }

    /// Returns the service manager with this socket.
    pub fn at(name: &OsStr, watchdog: Option<Duration>) -> io::Result<Self> {
        let address = match name.as_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
            [b'/', ..] => SocketAddr::from_pathname(name)?,
            _ => return Err(io::Error::new(io::ErrorKind::Unsupported, "it is no UNIX socket")),
        };
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        Ok(Self { socket, address, watchdog })
    }

    /// Sends assignments, one a line.
    pub fn notify(&self, state: &str) -> io::Result<()> {
        self.socket.send_to_addr(state.as_bytes(), &self.address).map(drop)
    }
}

/// Returns the time of the watchdog from its variables, if they are for this process.
fn watchdog(usec: Option<String>, pid: Option<String>, own: u32) -> Option<Duration> {
    let is_own = pid.is_none_or(|pid| pid.parse() == Ok(own));
    let usec = usec?.parse().ok().filter(|usec| *usec > 0 && is_own)?;
    Some(Duration::from_micros(usec))
}
