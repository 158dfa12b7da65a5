//! `vipward explain`: gathers the facts about an address from the API server, the pins and the
//! segment.

mod cluster;
mod host;
#[cfg(test)]
mod tests;

use std::{fmt::Write as _, net::IpAddr, path::PathBuf, time::Duration};

use thiserror::Error;
use vipward_core::{
    explain::{Explanation, Facts, Link, Look, Verdict},
    services,
};

use super::{
    bpf::BpfError,
    causes::chain,
    kube::{Access, ConnectError},
    netlink::{Netlink, NetlinkError},
    terminal::Colours,
    who_has,
};

/// The number of questions to the segment, and the time that each waits for answers.
const QUESTIONS: u32 = 2;
const ANSWERS: Duration = Duration::from_millis(500);

/// The address to explain, and the sources of facts.
#[derive(Clone, Debug)]
pub struct Options {
    /// The address.
    pub address: IpAddr,
    /// The interface to ask the segment through; by default the one whose subnet contains the
    /// address.
    pub interface: Option<String>,
    /// The way to the API server, if there is one.
    pub access: Access,
    /// The namespace of the Leases.
    pub lease_namespace: String,
    /// The settings that say which Services the agents serve.
    pub services: services::Settings,
    /// True if nodes with the exclude label are left out.
    pub honour_exclude_label: bool,
    /// The file of a standalone agent.
    pub config: Option<PathBuf>,
    /// The pin directory of an agent that may run here.
    pub pin_dir: PathBuf,
}

/// The reason why nothing can be explained.
#[derive(Debug, Error)]
pub enum ExplainError {
    /// The kubeconfig leads to no API server.
    #[error("failed to find the API server")]
    Connect(#[from] ConnectError),
    /// The interfaces could not be read.
    #[error("failed to read the interfaces")]
    Netlink(#[from] NetlinkError),
    /// The pinned links could not be read.
    #[error("failed to read the pinned objects")]
    Bpf(#[from] BpfError),
    /// The clock could not be read.
    #[error("failed to read the clock")]
    Clock(#[from] nix::Error),
}

/// Gathers the facts. Calls `progress` before each long step.
pub async fn gather(options: &Options, mut progress: impl FnMut(&str)) -> Result<Facts, ExplainError> {
    let view = Netlink::connect()?.observe().await?;
    let cluster = cluster::look(options, &view, &mut progress).await?;
    let (config, listed) = host::config(options, &view);
    let asked = who_has::Options {
        address: options.address,
        interface: options.interface.clone().or(listed),
        count: QUESTIONS,
        timeout: ANSWERS,
        pin_dir: options.pin_dir.clone(),
    };
    let segment = match who_has::ask(&asked, |_| {}).await {
        Ok(report) => Look::Seen(report),
        Err(error) => Look::Not(format!("the segment was not asked: {}", chain(&error))),
    };
    let pins = host::pins(options, &view);
    Ok(Facts {
        address: options.address,
        cluster,
        config,
        native: host::native(&pins, options.address),
        pins,
        segment,
        own: view.macs(),
    })
}

/// Returns the explanation as text for people.
pub fn render(explanation: &Explanation, colours: Colours) -> String {
    let mut text = format!("{}\n\n", explanation.address);
    let indent = " ".repeat(" not seen  candidates  ".len());
    for step in &explanation.steps {
        let verdict = format!("{:8}", step.verdict.to_string());
        let verdict = match step.verdict {
            Verdict::Good => colours.good(&verdict),
            Verdict::Doubtful => colours.doubtful(&verdict),
            Verdict::Broken => colours.bad(&verdict),
            Verdict::Unseen => verdict,
        };
        let _ = writeln!(text, " {verdict}  {:10}  {}", step.link.name(), step.says);
        for detail in &step.details {
            let _ = writeln!(text, "{indent}{detail}");
        }
        if step.verdict == Verdict::Doubtful
            && let Some(remedy) = &step.remedy
        {
            let _ = writeln!(text, "{indent}to do: {remedy}");
        }
    }
    text.push('\n');
    match (explanation.broken, &explanation.remedy) {
        (Some(link), remedy) => {
            let _ = writeln!(text, "{}", colours.bad(&format!("The first broken step: {}", link.name())));
            let _ = writeln!(text, "What to do: {}", remedy.as_deref().unwrap_or("see above"));
        }
        (None, _) if is_seen(explanation) => {
            let _ = writeln!(text, "Nothing that was looked at is broken.");
        }
        (None, _) => text.push_str("Nothing could be looked at.\n"),
    }
    text
}

fn is_seen(explanation: &Explanation) -> bool {
    explanation.steps.iter().any(|step| step.verdict != Verdict::Unseen && step.link != Link::Cluster)
}
