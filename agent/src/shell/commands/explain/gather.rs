//! Gathers the facts about an address or a Service.

use std::{collections::BTreeMap, net::IpAddr, sync::Arc, time::Duration};

use vipward_common::{MacAddr, VipKey};
use vipward_core::{
    diagnosis::{
        explain::{Facts, ServiceFacts},
        fact::Fact,
        pinned::State,
        who_has::{Relation, Report, Row, Seen},
    },
    host::net::NetView,
    records::ServiceName,
    segment::confirming::Answerer,
};

use super::{
    cluster::{self, World},
    host,
    options::{ExplainError, Options},
};
use crate::{
    cli::NamedService,
    shell::{
        commands::who_has,
        endpoints::waiting,
        kernel::{
            netlink::{Netlink, neighbours},
            preflight,
            telling::Asking,
        },
        logging::errors::{fact, unread},
    },
};

/// The most unknown hosts that are asked by unicast.
const MOST_ASKED: usize = 2;
/// The number of probes of the segment, and the time that each waits for answers.
const PROBES: u32 = 2;
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
        (None, Fact::Read(world)) => Arc::clone(&world.namespace),
        (None, Fact::Unread(_)) => "default".into(),
    };
    let service = ServiceName { namespace, name: Arc::clone(&service.name) };
    let facts = match &world {
        Fact::Read(world) => world.service(service, options),
        Fact::Unread(why) => ServiceFacts {
            service,
            account: Fact::Unread(why.clone()),
            leader: Fact::Unread(why.clone()),
            pools: Fact::Unread(why.clone()),
            namespace: options.lease_namespace.clone(),
        },
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
    world: &Fact<World>,
    without_contact: &Fact<Vec<String>>,
    address: IpAddr,
) -> Result<Facts, ExplainError> {
    let cluster = match world {
        Fact::Read(world) => Fact::Read(world.cluster(address, options)?),
        Fact::Unread(why) => Fact::Unread(why.clone()),
    };
    let (config, listed) = host::config(options, address, view);
    let probing = who_has::Options {
        address,
        interface: options.interface.clone().or(listed),
        count: PROBES,
        timeout: ANSWERS,
        pin_dir: options.pin_dir.clone(),
    };
    let segment = match who_has::probe(&probing, |_| {}).await {
        Ok(report) => Fact::Read(report),
        Err(error) => Fact::Unread(unread(&error).of("the segment was not probed")),
    };
    let pins = host::pins(options, view);
    let answerers = answerers(view, &pins, &segment).await;
    Ok(Facts {
        address,
        cluster,
        config,
        native: host::native(&pins, address),
        pins,
        pin_dir: options.pin_dir.clone(),
        agent: fact(preflight::user_of(&options.pin_dir)),
        without_contact: without_contact.clone(),
        waiting: waiting(&options.pin_dir).map(|vips| vips.into_iter().find(|it| it.address == address)),
        segment,
        answerers,
        own: view.macs(),
    })
}

/// Asks the unknown hosts that answer on the segment by unicast. Leaves out those that cannot be asked.
async fn answerers(
    view: &NetView,
    pins: &Fact<Option<State>>,
    segment: &Fact<Report>,
) -> BTreeMap<String, Answerer> {
    let mut answerers = BTreeMap::new();
    let Fact::Read(report) = segment else { return answerers };
    let key = VipKey::new(report.ifindex, report.address);
    let is_vip = |address| match pins {
        Fact::Read(Some(state)) => state.contents.entries_of(address).next().is_some(),
        Fact::Read(None) | Fact::Unread(_) => false,
    };
    let used = neighbours(key.ifindex).await.unwrap_or_default();
    let is_unknown = |row: &&Row| {
        let is_known = matches!(row.relation, Relation::Holder | Relation::ThisHost);
        row.seen == Seen::Wire && row.answering && !is_known
    };
    for row in report.answers.iter().filter(is_unknown).take(MOST_ASKED) {
        let octets: Vec<u8> =
            row.mac.split(':').filter_map(|octet| u8::from_str_radix(octet, 16).ok()).collect();
        let Ok(octets) = octets.try_into() else { continue };
        let mac = MacAddr(octets);
        if let Some(asking) = Asking::of(view, key, mac, &used, is_vip)
            && (key.addr.is_ipv4() || asking.has_source())
            && let Ok(answerer) = asking.run().await
        {
            answerers.insert(row.mac.clone(), answerer);
        }
    }
    answerers
}
