//! The file of a standalone agent.

use std::path::PathBuf;

use tracing::{error, info};
use vipward_core::config::Config;

use super::starting::read_config;
use crate::shell::{kernel::file_watch::FileWatch, logging::errors::chain};

pub(super) struct Reading {
    pub(super) path: PathBuf,
    pub(super) watch: FileWatch,
    pub(super) stopped_by: Option<&'static str>,
}

impl Reading {
    /// Reads the file again. Returns `None` for a faulty one, which is logged.
    pub(super) fn read(&self, running: &Config, reclaim: bool) -> Option<Box<Config>> {
        let path = self.path.display();
        match read_config(&self.path) {
            Ok(config) => {
                if config != *running || reclaim {
                    info!(config = %path, reclaim, "configuration is applied");
                }
                Some(Box::new(config))
            }
            Err(error) => {
                error!(
                    error = chain(&error),
                    config = %path,
                    "configuration is not applied; the running one stays in force"
                );
                None
            }
        }
    }
}
