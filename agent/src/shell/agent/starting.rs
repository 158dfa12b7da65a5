//! What the agents of a file and of a cluster do before they open the data plane.

use std::{
    io,
    net::IpAddr,
    path::Path,
    sync::{Arc, mpsc as blocking},
};

use nix::unistd::gethostname;
use tokio::sync::mpsc;
use vipward_core::config::Config;

use super::error::{RunError, system};
use crate::{
    cli::{EndpointArgs, PinArgs},
    shell::{
        endpoints::{
            Endpoints, Question,
            metrics::{Metrics, Mode},
        },
        kernel::{
            file::{self, FileError, PATIENCE, Threads},
            preflight::{self, PinDirLock},
        },
    },
};

/// Reads the configuration, or fails when its file system does not answer.
pub fn read_config(path: &Path) -> Result<Config, RunError> {
    let failed = |source| RunError::ReadConfig { path: path.to_owned(), source };
    let (sender, receiver) = blocking::channel();
    let from = path.to_owned();
    let reading = move || {
        // The receiver may have given up.
        drop(sender.send(file::read(&from)));
    };
    Threads::default().run(reading).map_err(failed)?;
    let read = receiver.recv_timeout(PATIENCE).unwrap_or_else(|_| Err(FileError::TooSlow.into()));
    parse_config(path, read)
}

/// Makes a configuration of what was read.
pub(super) fn parse_config(path: &Path, read: io::Result<String>) -> Result<Config, RunError> {
    let text = read.map_err(|source| RunError::ReadConfig { path: path.to_owned(), source })?;
    let host = gethostname().map_err(io::Error::from).map_err(system("read the host name"))?;
    Ok(Config::parse(&text, &path.display().to_string(), &host.to_string_lossy())?)
}

/// The HTTP endpoints and the metrics, before the event loop exists.
pub(super) struct OpenEndpoints {
    pub(super) metrics: Arc<Metrics>,
    pub(super) questions: mpsc::Receiver<Question>,
    pub(super) server: Endpoints,
}

impl OpenEndpoints {
    pub(super) async fn open(mode: Mode, args: &EndpointArgs, pod: Option<IpAddr>) -> Result<Self, RunError> {
        let metrics = Arc::new(Metrics::new(mode, args.metrics_max_vips));
        let listen = args.listen(pod, mode == Mode::Kubernetes);
        let (server, questions) = Endpoints::open(&listen, Arc::clone(&metrics)).await?;
        Ok(Self { metrics, questions, server })
    }
}

/// Checks that this host can run an agent on these pins.
/// Returns the lock that excludes other agents.
pub(super) fn check_host(pins: &PinArgs) -> Result<PinDirLock, RunError> {
    preflight::check_namespaces()?;
    preflight::check_capabilities()?;
    preflight::check_kernel()?;
    preflight::ensure_bpffs(&pins.pin_dir)?;
    Ok(PinDirLock::acquire(&pins.pin_dir)?)
}
