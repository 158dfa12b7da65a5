//! `vipward explain`: gathers the facts about an address, or a Service and its addresses, from the API
//! server, the pins and the segment.

mod cluster;
mod host;
#[cfg(test)]
mod tests;

use std::{fmt::Write as _, net::IpAddr, path::PathBuf, sync::Arc, time::Duration};

use thiserror::Error;
use vipward_core::{
    diagnosis::explain::{Explanation, Facts, Link, Look, ServiceExplanation, ServiceFacts, Step, Verdict},
    host::net::NetView,
    records::ServiceName,
    services,
};

use self::cluster::World;
use super::{
    bpf::BpfError,
    causes::chain,
    kube::{Access, ConnectError},
    netlink::{Netlink, NetlinkError},
    tables::shown,
    terminal::Colours,
    who_has,
};

/// The number of questions to the segment, and the time that each waits for answers.
const QUESTIONS: u32 = 2;
const ANSWERS: Duration = Duration::from_millis(500);

/// The sources of facts.
#[derive(Clone, Debug)]
pub struct Options {
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

/// A Service as an operator names it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NamedService {
    /// Its namespace; by default that of the kubeconfig's context.
    pub namespace: Option<Arc<str>>,
    /// Its name.
    pub name: Arc<str>,
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

/// Gathers the facts about an address. Calls `progress` before each long step.
pub async fn gather(
    options: &Options,
    address: IpAddr,
    mut progress: impl FnMut(&str),
) -> Result<Facts, ExplainError> {
    let view = Netlink::connect()?.observe().await?;
    let world = cluster::look(options, &view, &mut progress).await?;
    about(options, &view, &world, &host::without_contact(options), address).await
}

/// Gathers the facts about a Service and its addresses. Calls `progress` before each long step.
pub async fn gather_service(
    options: &Options,
    service: &NamedService,
    mut progress: impl FnMut(&str),
) -> Result<(ServiceFacts, Vec<Facts>), ExplainError> {
    let view = Netlink::connect()?.observe().await?;
    let world = cluster::look(options, &view, &mut progress).await?;
    let namespace = match (&service.namespace, &world) {
        (Some(namespace), _) => Arc::clone(namespace),
        (None, Look::Seen(world)) => Arc::clone(&world.namespace),
        (None, Look::Not(_) | Look::Failed(_)) => "default".into(),
    };
    let service = ServiceName { namespace, name: Arc::clone(&service.name) };
    let unknown = |account| {
        let namespace = options.lease_namespace.clone();
        let leader = Look::Not("no cluster was looked at".to_owned());
        ServiceFacts { service: service.clone(), account, leader, pools_unread: None, namespace }
    };
    let facts = match &world {
        Look::Seen(world) => world.service(service, options),
        Look::Not(why) => unknown(Look::Not(why.clone())),
        Look::Failed(why) => unknown(Look::Failed(why.clone())),
    };
    let (mut addresses, without_contact) = (Vec::new(), host::without_contact(options));
    for address in facts.addresses() {
        addresses.push(about(options, &view, &world, &without_contact, address).await?);
    }
    Ok((facts, addresses))
}

async fn about(
    options: &Options,
    view: &NetView,
    world: &Look<World>,
    without_contact: &[String],
    address: IpAddr,
) -> Result<Facts, ExplainError> {
    let cluster = match world {
        Look::Seen(world) => Look::Seen(world.cluster(address, options)?),
        Look::Not(why) => Look::Not(why.clone()),
        Look::Failed(why) => Look::Failed(why.clone()),
    };
    let (config, listed) = host::config(options, address, view);
    let asked = who_has::Options {
        address,
        interface: options.interface.clone().or(listed),
        count: QUESTIONS,
        timeout: ANSWERS,
        pin_dir: options.pin_dir.clone(),
    };
    let segment = match who_has::ask(&asked, |_| {}).await {
        Ok(report) => Look::Seen(report),
        Err(error) => Look::Not(format!("the segment was not asked: {}", chain(&error))),
    };
    let pins = host::pins(options, view);
    Ok(Facts {
        address,
        cluster,
        config,
        native: host::native(&pins, address),
        pins,
        without_contact: without_contact.to_vec(),
        segment,
        own: view.macs(),
    })
}

/// Returns the explanation of a Service as text for people.
pub fn render_service(explanation: &ServiceExplanation, colours: Colours) -> String {
    let mut text = format!("{}\n\n", explanation.service);
    steps(&mut text, &explanation.steps, colours);
    for address in &explanation.addresses {
        let _ = write!(text, "\n{}\n\n", address.address);
        steps(&mut text, &address.steps, colours);
    }
    let all = explanation.addresses.iter().flat_map(|address| &address.steps);
    let all = explanation.steps.iter().chain(all);
    conclusion(&mut text, explanation.broken, explanation.remedy.as_deref(), all, colours);
    text
}

/// Returns the explanation as text for people.
pub fn render(explanation: &Explanation, colours: Colours) -> String {
    let mut text = format!("{}\n\n", explanation.address);
    steps(&mut text, &explanation.steps, colours);
    let Explanation { broken, remedy, steps, .. } = explanation;
    conclusion(&mut text, *broken, remedy.as_deref(), steps.iter(), colours);
    text
}

fn steps(text: &mut String, steps: &[Step], colours: Colours) {
    let indent = " ".repeat(" not seen  candidates  ".len());
    for step in steps {
        let verdict = format!("{:8}", step.verdict.to_string());
        let verdict = match step.verdict {
            Verdict::Good => colours.good(&verdict),
            Verdict::Doubtful => colours.doubtful(&verdict),
            Verdict::Broken => colours.bad(&verdict),
            Verdict::Unseen => verdict,
        };
        let _ = writeln!(text, " {verdict}  {:10}  {}", step.link.name(), shown(&step.says));
        for detail in &step.details {
            let _ = writeln!(text, "{indent}{}", shown(detail));
        }
        if step.verdict == Verdict::Doubtful
            && let Some(remedy) = &step.remedy
        {
            let _ = writeln!(text, "{indent}to do: {}", shown(remedy));
        }
    }
}

fn conclusion<'a>(
    text: &mut String,
    broken: Option<Link>,
    remedy: Option<&str>,
    mut steps: impl Iterator<Item = &'a Step>,
    colours: Colours,
) {
    text.push('\n');
    match broken {
        Some(link) => {
            let _ = writeln!(text, "{}", colours.bad(&format!("The first broken step: {}", link.name())));
            let _ = writeln!(text, "What to do: {}", shown(remedy.unwrap_or("see above")));
        }
        None if steps.any(|step| step.verdict != Verdict::Unseen && step.link != Link::Cluster) => {
            text.push_str("Nothing that was looked at is broken.\n");
        }
        None => text.push_str("Nothing could be looked at.\n"),
    }
}
