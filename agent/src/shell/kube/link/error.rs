//! Reasons why a request has no good answer, with the URL of the server.

use std::{error::Error, fmt, io, string::FromUtf8Error, time::Duration};

use hyper_util::client::legacy;
use kube::core::Status;
use rustls::CertificateError;
use thiserror::Error;

use super::connect::ConnectError;
use crate::shell::{endpoints::metrics::ApiError, logging::errors::causes};

#[derive(Debug, Error)]
pub enum RequestError {
    #[error("{}: {}", status.code, status.message)]
    Refused {
        /// The HTTP status, and the API server's message. An answer of another form has no reason.
        status: Box<Status>,
        /// The time after which the API server allows another attempt.
        retry_after: Option<Duration>,
    },
    #[error("no answer from {server} within {limit:?}")]
    Deadline { server: String, limit: Duration },
    /// A connection that failed, or ended before the answer did.
    #[error("{}", failure_text(server, source))]
    Connection { server: String, source: ConnectionError },
    #[error("the answer cannot be read")]
    Unreadable(#[source] serde_json::Error),
    #[error("the answer is no UTF-8")]
    NotText(#[source] FromUtf8Error),
    #[error("the answer is longer than {limit_bytes} bytes")]
    TooLong { limit_bytes: usize },
    /// A refusal of a write, while another attempt of it may have been carried out.
    #[error("the write was refused, but another attempt of it may have been carried out")]
    InDoubt(#[source] Box<Self>),
    /// No connection can be set up any more.
    #[error(transparent)]
    Connect(#[from] ConnectError),
}

impl RequestError {
    pub fn code(&self) -> Option<u16> {
        self.status().map(|status| status.code)
    }

    pub fn is_status(&self, wanted: u16) -> bool {
        self.code() == Some(wanted)
    }

    pub fn is_unknown_type(&self) -> bool {
        // The API server answers such a request with plain text.
        self.status().is_some_and(|status| status.code == 404 && status.reason.is_empty())
    }

    pub(crate) fn status(&self) -> Option<&Status> {
        match self {
            Self::Refused { status, .. } => Some(status),
            Self::Deadline { .. }
            | Self::Connection { .. }
            | Self::Unreadable(_)
            | Self::NotText(_)
            | Self::TooLong { .. }
            | Self::InDoubt(_)
            | Self::Connect(_) => None,
        }
    }

    /// Returns true if the request was certainly not carried out.
    pub(crate) fn is_certainly_undone(&self) -> bool {
        match self {
            Self::Connection { source, .. } => source.is_connecting(),
            Self::Connect(_) => true,
            error => error.is_status(429),
        }
    }

    /// Returns true if the server answers, and will carry out the request later.
    pub(crate) fn asks_for_time(&self) -> bool {
        match self {
            Self::Refused { status, retry_after } => status.code < 500 || retry_after.is_some(),
            _ => false,
        }
    }

    /// Returns the metrics' name for this kind of error.
    pub(crate) fn kind(&self) -> ApiError {
        match self {
            Self::Refused { status, .. } => match status.code {
                404 => ApiError::Missing,
                409 => ApiError::Conflict,
                410 => ApiError::Expired,
                429 => ApiError::Busy,
                500.. => ApiError::Server,
                _ => ApiError::Refused,
            },
            Self::InDoubt(refusal) => refusal.kind(),
            Self::Deadline { .. } => ApiError::Deadline,
            Self::Connection { .. } | Self::Connect(_) => ApiError::Connection,
            Self::Unreadable(_) | Self::NotText(_) | Self::TooLong { .. } => ApiError::Unreadable,
        }
    }
}

fn failure_text(server: &str, failure: &ConnectionError) -> String {
    if failure.is_connecting() {
        format!("no connection to {server}")
    } else {
        format!("the request to {server} failed")
    }
}

/// The failure of a connection, without the client library's own text around it.
#[derive(Debug)]
pub struct ConnectionError(Box<kube::Error>);

impl ConnectionError {
    pub(crate) fn new(error: kube::Error) -> Self {
        Self(Box::new(error))
    }

    /// Returns true if the connection was never established.
    fn is_connecting(&self) -> bool {
        let mut layers = causes(&*self.0).filter_map(|cause| cause.downcast_ref::<legacy::Error>());
        layers.any(legacy::Error::is_connect)
    }
}

impl fmt::Display for ConnectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(why) = causes(&*self.0).find_map(distrust) {
            return f.write_str(&why);
        }
        let innermost = causes(&*self.0).last().filter(|_| self.is_connecting());
        if let Some(innermost) = innermost {
            return match innermost.downcast_ref::<io::Error>() {
                // The connector's own deadline is no error of the system, and has no number.
                Some(error) if error.kind() == io::ErrorKind::TimedOut && error.raw_os_error().is_none() => {
                    f.write_str("timed out")
                }
                Some(_) | None => write!(f, "{innermost}"),
            };
        }
        let is_around =
            |cause: &&(dyn Error + 'static)| cause.is::<kube::Error>() || cause.is::<legacy::Error>();
        let mut said: Vec<String> = causes(&*self.0).skip_while(is_around).map(ToString::to_string).collect();
        // Some errors of the library repeat their cause.
        said.dedup_by(|next, before| before.ends_with(next.as_str()));
        f.write_str(&said.join(": "))
    }
}

impl Error for ConnectionError {}

/// Returns the error of TLS that an error is, or is made of: an I/O error has that not as its source.
fn of_tls<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    let inner = || of_tls(error.downcast_ref::<io::Error>()?.get_ref()?);
    error.downcast_ref().or_else(inner)
}

/// Returns why the server's certificate is refused, with the remedy, if `cause` is such a refusal.
fn distrust(cause: &(dyn Error + 'static)) -> Option<String> {
    let of_tls = of_tls(cause)?;
    let rustls::Error::InvalidCertificate(why) = of_tls else { return None };
    let remedy = match why {
        CertificateError::UnknownIssuer => {
            "the certificate-authority of the kubeconfig, or of the Pod's service account, does not sign it"
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "it has other names: correct `server` or `tls-server-name` of the kubeconfig"
        }
        CertificateError::Expired
        | CertificateError::ExpiredContext { .. }
        | CertificateError::NotValidYet
        | CertificateError::NotValidYetContext { .. } => "renew it, or see the clocks of the two hosts",
        _ => "see the certificate of the server",
    };
    Some(format!("{of_tls}: {remedy}"))
}
