//! A step of an explanation: a link of the chain, the verdict on it, and what to do.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use crate::host::attaching::Mode;

/// The verdict on a step. The table shows `ok`, `doubtful`, `BROKEN` and `not seen`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// As it should be.
    Good,
    /// Not as it should be, but no reason for silence.
    Doubtful,
    /// No later step can be right.
    Broken,
    /// It was not looked at.
    Unseen,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Good => "ok",
            Self::Doubtful => "doubtful",
            Self::Broken => "BROKEN",
            Self::Unseen => "not seen",
        })
    }
}

/// The links of the chain, in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Link {
    /// The API server can be read.
    Cluster,
    /// A Service that is served wants the address.
    Service,
    /// The Service asks for addresses.
    Request,
    /// The pools give it addresses.
    Pool,
    /// Its status names them.
    Status,
    /// The address may be announced.
    Address,
    /// A node can hold it.
    Candidates,
    /// A node has claimed it.
    Claim,
    /// That node lives.
    Session,
    /// The file lists the address.
    Config,
    /// The address belongs to an interface.
    Placement,
    /// The entry of this host is as it should be.
    Entry,
    /// The program runs on the interface.
    Attached,
    /// The fence lets this host answer.
    Fence,
    /// The address is bound for local delivery.
    Bound,
    /// The segment answers as it should.
    Segment,
}

impl Link {
    /// Returns the name for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cluster => "cluster",
            Self::Service => "service",
            Self::Request => "request",
            Self::Pool => "pool",
            Self::Status => "status",
            Self::Address => "address",
            Self::Candidates => "candidates",
            Self::Claim => "claim",
            Self::Session => "session",
            Self::Config => "config",
            Self::Placement => "placement",
            Self::Entry => "entry",
            Self::Attached => "attached",
            Self::Fence => "fence",
            Self::Bound => "bound",
            Self::Segment => "segment",
        }
    }
}

/// A step of the chain.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct Step {
    /// The link of the chain.
    pub link: Link,
    /// The verdict on it.
    pub verdict: Verdict,
    /// What was found, or why it was not looked at.
    pub says: String,
    /// Details of what was found.
    pub details: Vec<String>,
    /// What to do about it, or `null` when it is `good` or `unseen`.
    pub remedy: Option<String>,
}

impl Step {
    pub(super) fn new(link: Link, verdict: Verdict, says: impl Into<String>) -> Self {
        Self { link, verdict, says: says.into(), details: Vec::new(), remedy: None }
    }

    pub(super) fn good(link: Link, says: impl Into<String>) -> Self {
        Self::new(link, Verdict::Good, says)
    }

    pub(super) fn unseen(link: Link, why: impl Into<String>) -> Self {
        Self::new(link, Verdict::Unseen, why)
    }

    pub(super) fn broken(link: Link, says: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { remedy: Some(remedy.into()), ..Self::new(link, Verdict::Broken, says) }
    }

    pub(super) fn doubtful(link: Link, says: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { remedy: Some(remedy.into()), ..Self::new(link, Verdict::Doubtful, says) }
    }

    pub(super) fn with(self, details: Vec<String>) -> Self {
        Self { details, ..self }
    }

    /// Returns the step for an API server that cannot be read.
    pub(super) fn unreadable(why: &str) -> Self {
        Self::broken(
            Link::Cluster,
            format!("the API server cannot be read: {why}"),
            "mend the way to it, or give another --kubeconfig; what is held is answered on meanwhile",
        )
    }
}

/// The mode in which the program runs on the interface with which this host answers.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct Attached {
    /// The interface.
    pub interface: String,
    /// The mode.
    pub mode: Mode,
    /// Why it is not native, or `null` when it is.
    pub because: Option<String>,
}
