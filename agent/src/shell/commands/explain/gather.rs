//! Gathers the facts about an address or a Service.

use std::{net::IpAddr, sync::Arc, time::Duration};

use vipward_core::{
    diagnosis::explain::{Facts, Look, ServiceFacts},
    host::net::NetView,
    records::ServiceName,
};

use super::{
    cluster::{self, World},
    host,
    options::{ExplainError, Options},
};
use crate::{
    cli::NamedService,
    shell::{commands::who_has, kernel::netlink::Netlink, logging::causes::chain},
};

/// The number of questions to the segment, and the time that each waits for answers.
const QUESTIONS: u32 = 2;
const ANSWERS: Duration = Duration::from_millis(500);

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
