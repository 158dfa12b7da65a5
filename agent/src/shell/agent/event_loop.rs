//! The state of the event loop: the agent, and the open objects that its effects need.

use std::sync::Arc;

use tokio::sync::mpsc;
use vipward_common::LeaseDeadline;
use vipward_core::{
    agent::{Agent, Network, Source, Start},
    config::Config,
    ownership::StopReason,
};

use super::{
    cluster::Cluster,
    error::RunError,
    inputs::Inputs,
    lines::{self, Log},
    reading::Reading,
    service::Service,
    starting::OpenEndpoints,
    timing::now,
    watching::Watch,
};
use crate::{
    cli::PlaneArgs,
    shell::{
        endpoints::{Endpoints, Question, metrics::Metrics},
        kernel::{
            bpf::{DataPlane, Loader, Opening, Options},
            host_network::name_servers,
            netlink::Exchange,
            other_pins,
            packet::Announcer as Packets,
            preflight::PinDirLock,
            statements::Statements,
        },
    },
};

/// The agent, and the open objects that its effects need.
pub(super) struct EventLoop {
    pub(super) agent: Agent,
    pub(super) plane: DataPlane,
    pub(super) inputs: Inputs,
    pub(super) packets: Packets,
    /// The kernel, for changes of memberships in groups.
    pub(super) groups: Option<Exchange>,
    pub(super) log: Log,
    /// The service manager, if it wants news.
    pub(super) service: Option<Service>,
    pub(super) outer: Outer,
    pub(super) metrics: Arc<Metrics>,
    pub(super) is_stopped: bool,
    /// The reason that a cluster's agent has to end.
    pub(super) reason: Option<StopReason>,
    pub(super) questions: mpsc::Receiver<Question>,
    pub(super) watch: Watch,
    _endpoints: Endpoints,
}

/// Where the VIPs come from.
pub(super) enum Outer {
    File(Reading),
    Cluster(Box<Cluster>),
}

impl Outer {
    pub(super) fn cluster(&mut self) -> Option<&mut Cluster> {
        match self {
            Self::File(_) => None,
            Self::Cluster(cluster) => Some(cluster),
        }
    }
}

/// The open data plane and all inputs, before there is an agent.
pub(super) struct Opened {
    pub(super) plane: DataPlane,
    inputs: Inputs,
    network: Network,
    is_fresh: bool,
    lock: PinDirLock,
}

impl Opened {
    /// Opens the data plane and all inputs. `lease_deadline` is the first of new maps.
    pub(super) async fn open(
        args: &PlaneArgs,
        loader: Loader,
        lock: PinDirLock,
        lease_deadline: LeaseDeadline,
        endpoints: &OpenEndpoints,
    ) -> Result<Self, RunError> {
        let options = Options {
            pin_dir: args.pins.pin_dir.clone(),
            max_vips: args.max_vips,
            log: args.log_claims,
            object: args.ebpf_object.clone(),
            lease_deadline,
        };
        let (mut plane, opening) = DataPlane::open(loader, &options)?;
        lines::opening(&opening, &options.pin_dir);
        endpoints.server.begin(&options.pin_dir)?;
        let inputs = Inputs::open(&mut plane, args.log_claims)?;
        let view = inputs.netlink.observe().await?;
        lines::others(&other_pins::running(&options.pin_dir, &view).certain(), &view);
        let network =
            Network { view, attachments: plane.attachments().clone(), name_servers: name_servers() };
        Ok(Self { plane, inputs, network, is_fresh: opening == Opening::Fresh, lock })
    }
}

impl EventLoop {
    /// Starts an agent. It has not begun yet.
    pub(super) fn start(
        opened: Opened,
        config: Config,
        source: Source,
        outer: Outer,
        endpoints: OpenEndpoints,
    ) -> Result<Self, RunError> {
        let Opened { plane, mut inputs, network, is_fresh, lock } = opened;
        if let Source::File(_) = source {
            inputs.statements = Some(Statements::open()?);
        }
        let maps = plane.maps();
        let start = Start {
            config,
            network,
            max_vips: maps.max_vips(),
            yields_settled: if is_fresh { 0 } else { maps.lease_deadline()?.yields_settled },
            proofs: maps.proofs()?,
            source,
            // The process id is no seed: it is 1 in every Pod.
            seed: fastrand::u64(..),
        };
        let now = now()?;
        Ok(Self {
            agent: Agent::start(start, now),
            plane,
            inputs,
            packets: Packets::open()?,
            groups: None,
            log: Log::start(now),
            service: None,
            outer,
            metrics: endpoints.metrics,
            is_stopped: false,
            reason: None,
            questions: endpoints.questions,
            watch: Watch::start(lock),
            _endpoints: endpoints.server,
        })
    }

    /// Closes everything. Returns the lock, so that no other agent starts before the pins are removed.
    pub(super) fn end(self) -> PinDirLock {
        self.watch.into_lock()
    }

    /// Ends when the effects of the present input are carried out.
    pub(super) fn stop(&mut self, reason: Option<StopReason>) {
        (self.is_stopped, self.reason) = (true, reason);
    }
}
