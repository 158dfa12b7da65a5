//! What the agents of a file and of a cluster do before they open the data plane.

use std::{fs, io, net::IpAddr, path::Path, sync::Arc};

use nix::unistd::gethostname;
use tokio::sync::mpsc;
use vipward_core::config::Config;

use super::error::{RunError, system};
use crate::{
    cli::{PagesArgs, PinArgs},
    shell::{
        kernel::preflight::{self, PinDirLock},
        pages::{
            Pages, Question,
            metrics::{Metrics, Mode},
        },
    },
};

/// Reads and validates the configuration.
pub fn read_config(path: &Path) -> Result<Config, RunError> {
    let text =
        fs::read_to_string(path).map_err(|source| RunError::ReadConfig { path: path.to_owned(), source })?;
    let host = gethostname().map_err(io::Error::from).map_err(system("read the host name"))?;
    Ok(Config::parse(&text, &path.display().to_string(), &host.to_string_lossy())?)
}

/// The pages and the metrics, before the event loop exists.
pub(super) struct Desk {
    pub(super) metrics: Arc<Metrics>,
    pub(super) questions: mpsc::Receiver<Question>,
    pub(super) pages: Pages,
}

impl Desk {
    pub(super) async fn open(mode: Mode, pages: &PagesArgs, pod: Option<IpAddr>) -> Result<Self, RunError> {
        let metrics = Arc::new(Metrics::new(mode, pages.metrics_max_vips));
        let listen = pages.listen(pod, mode == Mode::Kubernetes);
        let (pages, questions) = Pages::open(&listen, Arc::clone(&metrics)).await?;
        Ok(Self { metrics, questions, pages })
    }
}

/// Checks that this host can run an agent on these pins.
/// Returns the lock that excludes other agents.
pub(super) fn check_host(pins: &PinArgs) -> Result<PinDirLock, RunError> {
    preflight::check_capabilities()?;
    preflight::check_kernel()?;
    preflight::ensure_bpffs(&pins.pin_dir)?;
    Ok(PinDirLock::acquire(&pins.pin_dir)?)
}
