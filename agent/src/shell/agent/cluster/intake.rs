//! Takes in readings and replies, and carries out the commands about Services.

use tracing::{info, warn};
use vipward_core::{base::time::Monotonic, ownership, services};

use super::source::Cluster;
use crate::shell::{
    agent::{error::RunError, event_loop::EventLoop, timing::now},
    kube::{Reply, Resource, Seen},
    logging::causes::chain,
};

/// Number of readings or replies that are taken in before entries are changed.
const BATCH: usize = 256;

impl Cluster {
    pub(super) fn write_statuses_due(&mut self, now: Monotonic) {
        for (service, addresses) in self.statuses.due(now) {
            let from_metallb = self.services.index().is_from_metallb(&service);
            match addresses {
                Some(addresses) => self.requests.write_ingress(service, addresses, from_metallb),
                None => self.requests.clear_ingress(service, from_metallb),
            }
        }
    }
}

impl EventLoop<Cluster> {
    /// Takes in the waiting readings, and then decides once.
    pub(super) async fn on_seen(&mut self, first: Seen) -> Result<(), RunError> {
        let mut commands = self.take_in(first)?;
        for _ in 1..BATCH {
            let Ok(seen) = self.source.seen.try_recv() else { break };
            commands.extend(self.take_in(seen)?);
        }
        self.execute(commands).await
    }

    pub(super) async fn on_replies(&mut self, first: Reply) -> Result<(), RunError> {
        let now = now()?;
        self.source.engine.set_most_new(self.source.requests.new_claims());
        let mut commands = Vec::new();
        let mut next = Some(first);
        for _ in 0..BATCH {
            match next {
                Some(Reply::Ownership(event)) => {
                    self.source.messages.answered(&event, now);
                    let mut written = None;
                    if let ownership::Event::ClaimWritten { vip, outcome: ownership::Outcome::Done(_) } =
                        &event
                    {
                        written = Some(*vip);
                    }
                    // This is the Lease of a node that this one has deposed.
                    if let ownership::Event::LeaseWritten {
                        outcome: ownership::Outcome::Done(lease), ..
                    } = &event
                    {
                        self.source.moves.on_lease(lease, now);
                    }
                    commands.extend(self.source.engine.on_event(event, now));
                    if let Some(vip) = written {
                        self.answers.examine_some([vip]);
                        self.source.show_conflict(vip, now);
                    }
                }
                Some(Reply::Shown { vip, finding, outcome }) => {
                    self.answers.examine_some([vip]);
                    commands.extend(self.source.on_shown(vip, &finding, outcome, now));
                }
                Some(Reply::Ingress { service, result }) => {
                    let source = &mut self.source;
                    source.statuses.on_result(&service, result.is_ok(), fastrand::f64(), now);
                    source.messages.bulletin.ingress(&service, &result, now);
                }
                // Only the controller reserves addresses.
                Some(Reply::Reserved { .. }) => {}
                None => break,
            }
            next = self.source.replies.try_recv().ok();
        }
        self.execute(commands).await
    }

    /// Passes a reading to the core.
    fn take_in(&mut self, mut seen: Seen) -> Result<Vec<ownership::Command>, RunError> {
        let now = now()?;
        let source = &mut self.source;
        match &mut seen {
            Seen::Synced(Resource::WireSecret) => {
                if let Some(wire) = &mut source.wire {
                    wire.note_listed();
                }
                return Ok(Vec::new());
            }
            Seen::Synced(resource) => return Ok(self.on_listed(*resource, now)),
            Seen::Unreadable { resource, error } => {
                source.unreadable.insert(*resource);
                warn!(%resource, problem = chain(&**error), "not read from the API server; trying again");
            }
            Seen::Readable { resource } => {
                source.unreadable.remove(resource);
                info!(%resource, "read from the API server again");
            }
            Seen::Lease(record) => source.moves.on_lease(record, now),
            Seen::LeaseGone(node) => source.moves.on_lease_gone(node),
            Seen::Claim(record) => {
                self.answers.examine_some([record.vip]);
                source.on_claim_seen(record.vip, self.config.conflicts.quiet, now);
            }
            Seen::ClaimGone(vip) => self.answers.examine_some([*vip]),
            Seen::WireKeys { keys, faults } => {
                let (keys, faults) = (keys.clone(), std::mem::take(faults));
                self.take_keys(&keys, &faults)?;
            }
            Seen::Node { .. }
            | Seen::NodeGone(_)
            | Seen::Namespace { .. }
            | Seen::NamespaceGone(_)
            | Seen::ServiceCidr { .. }
            | Seen::ApiServers { .. }
            | Seen::Service(_)
            | Seen::ServiceGone(_)
            | Seen::Slice(_)
            | Seen::SliceGone { .. }
            | Seen::Pool(_)
            | Seen::PoolGone(_)
            | Seen::L2Advertisement(..)
            | Seen::Advertised(_)
            | Seen::L2AdvertisementGone(_)
            | Seen::Unserved(_)
            | Seen::UnservedGone { .. } => {}
        }
        let (owned, served) = seen.into_events();
        let source = &mut self.source;
        let mut commands = owned.map(|event| source.engine.on_event(event, now)).unwrap_or_default();
        if let Some(event) = served {
            let told = source.services.on_event(event);
            commands.extend(self.serve(told, now));
        }
        Ok(commands)
    }

    /// Notes that a type has been listed. Starts the core after every type that is read then has been
    /// listed once.
    fn on_listed(&mut self, resource: Resource, now: Monotonic) -> Vec<ownership::Command> {
        let source = &mut self.source;
        source.listed.insert(resource);
        let mut told = Vec::new();
        if resource == Resource::EndpointSlices {
            told.extend(source.services.on_event(services::Event::SlicesListed));
        }
        let is_first = !source.synced && source.listed.len() == source.resources.len();
        source.synced |= is_first;
        if source.synced {
            told.extend(source.services.on_event(services::Event::Synced));
        }
        let mut commands = self.serve(told, now);
        if is_first {
            info!("the cluster has been read");
            commands.extend(self.source.engine.on_event(ownership::Event::Synced, now));
        }
        commands
    }

    /// Carries out commands about Services.
    pub(super) fn serve(
        &mut self,
        commands: Vec<services::Command>,
        now: Monotonic,
    ) -> Vec<ownership::Command> {
        let source = &mut self.source;
        let mut owned = Vec::new();
        for command in commands {
            match command {
                services::Command::ListSlices { service } => {
                    info!(%service, "a Service needs the EndpointSlices; they are read from now on");
                    source.resources.push(Resource::EndpointSlices);
                    source.reader.read(Resource::EndpointSlices);
                }
                services::Command::Demand(vip, demand) => {
                    owned.extend(source.engine.on_event(ownership::Event::Demand(vip, demand), now));
                    source.show_holder(vip);
                }
                services::Command::WriteIngress { service, addresses } => {
                    source.statuses.begin(service, Some(addresses), now);
                }
                services::Command::ClearIngress { service } => {
                    source.statuses.begin(service, None, now);
                }
                services::Command::LeaveIngress { service } => {
                    source.statuses.leave(&service);
                    source.messages.bulletin.ingress_left(&service);
                }
                services::Command::Report { service, problem } => {
                    source.on_dispute(&problem, now);
                    source.messages.bulletin.begin(service, problem, now);
                }
                services::Command::ProblemOver { service, problem } => {
                    source.on_dispute(&problem, now);
                    source.messages.bulletin.end(&service, &problem, now);
                }
            }
        }
        source.write_statuses_due(now);
        owned
    }
}
