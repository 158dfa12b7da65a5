//! The credentials in files: the API server's CA, the agent's token, its certificate and key. They
//! are read again when the files change.
//!
//! The kubelet replaces those of a Pod, and an operator those of a kubeconfig. All connections that
//! are opened after a change use the new ones. Bad files never replace good ones.

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use kube::{Client, Config};
use rustls::pki_types::{
    CertificateDer,
    pem::{self, PemObject as _},
};
use thiserror::Error;
use tracing::{info, warn};

use super::servers::Route;
use crate::shell::logging::errors::chain;

#[cfg(test)]
mod tests;

/// Least time between two checks of the files.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Time between two log lines about files that stay bad.
const REMIND_EVERY: Duration = Duration::from_mins(1);

#[derive(Debug, Error)]
pub enum CredentialError {
    #[error("failed to read {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("a certificate in {} is cut off, or is no PEM", path.display())]
    Certificate { path: PathBuf },
    #[error("{} has no certificate (in PEM)", path.display())]
    NoCertificate { path: PathBuf },
    #[error("{} has no token: it must be one line of visible characters", path.display())]
    NoToken { path: PathBuf },
    #[error("failed to use the credentials {files}")]
    Unusable {
        files: String,
        #[source]
        source: Box<kube::Error>,
    },
}

/// A way to open connections with credentials that do not change, by a route.
#[derive(Clone)]
pub(crate) struct Way(pub(crate) Arc<dyn Fn(Route) -> kube::Result<Client> + Send + Sync>);

impl fmt::Debug for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Way").finish_non_exhaustive()
    }
}

/// Makes a way from a configuration that names no file of a CA or token.
type Prepare = Box<dyn Fn(Config) -> kube::Result<Way> + Send + Sync>;

/// The credentials, and the files from which they come.
pub(crate) struct Credentials {
    config: Config,
    files: Vec<PathBuf>,
    prepare: Prepare,
    current: Mutex<Current>,
}

/// The files' contents, and the way to the API server that they give.
struct Loaded {
    way: Way,
    /// The contents of the files, in the same order.
    contents: Vec<Vec<u8>>,
}

struct Current {
    number: u64,
    loaded: Loaded,
    looked: Instant,
    /// The last log line about files that cannot be used, and its time.
    trouble: Option<(String, Instant)>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("files", &self.files).finish_non_exhaustive()
    }
}

impl Credentials {
    pub(crate) fn read(config: Config, prepare: Prepare) -> Result<Self, CredentialError> {
        let auth = &config.auth_info;
        let named = [&auth.token_file, &auth.client_certificate, &auth.client_key];
        let named = named.into_iter().flatten().map(PathBuf::from);
        let files: Vec<_> = config.root_cert_file.clone().into_iter().chain(named).collect();
        let contents = contents(&files)?;
        let loaded = Loaded { way: load(&config, &files, &prepare)?, contents };
        let current = Current { number: 0, loaded, looked: Instant::now(), trouble: None };
        Ok(Self { config, files, prepare, current: Mutex::new(current) })
    }

    /// Returns the present way, and its number, which grows with each change. Checks the files first,
    /// at most once a second.
    pub(crate) fn current(&self) -> (u64, Way) {
        self.current_at(Instant::now())
    }

    fn current_at(&self, now: Instant) -> (u64, Way) {
        let mut current = self.current.lock().expect("invariant: no thread panics with this lock");
        if !self.files.is_empty() && current.looked + LOOK_EVERY <= now {
            current.looked = now;
            match self.look(&current.loaded.contents) {
                Ok(None) => current.settle(&self.files),
                Ok(Some(loaded)) => current.change(&self.files, loaded),
                Err(error) => current.complain(chain(&error), now),
            }
        }
        (current.number, current.loaded.way.clone())
    }

    /// Returns what the files have now, if that is other than `known`.
    fn look(&self, known: &[Vec<u8>]) -> Result<Option<Loaded>, CredentialError> {
        let contents = contents(&self.files)?;
        if contents == known {
            return Ok(None);
        }
        Ok(Some(Loaded { way: load(&self.config, &self.files, &self.prepare)?, contents }))
    }
}

impl Current {
    fn settle(&mut self, files: &[PathBuf]) {
        if self.trouble.take().is_some() {
            info!(files = list(files), "the credentials are the last good ones again");
        }
    }

    fn change(&mut self, files: &[PathBuf], loaded: Loaded) {
        let changed = files.iter().zip(loaded.contents.iter().zip(&self.loaded.contents));
        let changed = changed.filter(|(_, (new, old))| new != old).map(|(path, _)| path);
        info!(files = list(changed), "the credentials have changed; new connections use them");
        self.number += 1;
        (self.loaded, self.trouble) = (loaded, None);
    }

    fn complain(&mut self, error: String, now: Instant) {
        let is_known = self
            .trouble
            .as_ref()
            .is_some_and(|(known, notified)| *known == error && now < *notified + REMIND_EVERY);
        if !is_known {
            warn!(error, "the credentials cannot be read again; the last good ones stay in use");
            self.trouble = Some((error, now));
        }
    }
}

fn list<'a>(files: impl IntoIterator<Item = &'a PathBuf>) -> String {
    files.into_iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

fn read(path: &Path) -> Result<Vec<u8>, CredentialError> {
    fs::read(path).map_err(|source| CredentialError::Read { path: path.to_owned(), source })
}

fn contents(files: &[PathBuf]) -> Result<Vec<Vec<u8>>, CredentialError> {
    files.iter().map(|path| read(path)).collect()
}

/// Returns the way with the present contents of the files. kube reads a certificate and its key
/// itself. It would read a CA and a token again as well, but only once a minute.
fn load(config: &Config, files: &[PathBuf], prepare: &Prepare) -> Result<Way, CredentialError> {
    let mut config = config.clone();
    if let Some(path) = config.root_cert_file.take() {
        config.root_cert = Some(certificates(&path)?);
    }
    if let Some(path) = config.auth_info.client_certificate.as_ref().map(Path::new) {
        certificates(path)?;
    }
    if let Some(path) = config.auth_info.token_file.take().map(PathBuf::from)
        && config.auth_info.token.is_none()
    {
        config.auth_info.token = Some(token(path)?.into());
    }
    let failed = |source| CredentialError::Unusable { files: list(files), source: Box::new(source) };
    prepare(config).map_err(failed)
}

/// Returns the certificates in a file, if it is complete.
fn certificates(path: &Path) -> Result<Vec<Vec<u8>>, CredentialError> {
    let content = read(path)?;
    let found = CertificateDer::pem_slice_iter(&content).map(|found| Ok(found?.as_ref().to_vec()));
    // The reader's own message shows a marker as a list of bytes.
    let failed = |_| CredentialError::Certificate { path: path.to_owned() };
    let found = found.collect::<Result<Vec<_>, pem::Error>>().map_err(failed)?;
    if found.is_empty() { Err(CredentialError::NoCertificate { path: path.to_owned() }) } else { Ok(found) }
}

fn token(path: PathBuf) -> Result<String, CredentialError> {
    let content = read(&path)?;
    match str::from_utf8(content.trim_ascii()) {
        Ok(token) if !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic()) => {
            Ok(token.to_owned())
        }
        Ok(_) | Err(_) => Err(CredentialError::NoToken { path }),
    }
}
