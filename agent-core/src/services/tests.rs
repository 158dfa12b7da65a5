mod account;
mod addresses;
mod announcing;
mod controller;
mod endpoints;
mod incremental;
mod lacking;
mod metallb;
mod naming;
mod order;
mod other_controllers;
mod oversights;
mod permitted;
mod ports;
mod refusal;
mod selection;
mod sharing;
mod standing;
mod status;
mod tenants;
mod words;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use ipnet::IpNet;

use super::{index::Role, *};
use crate::{
    base::{
        samples::{ip, labels},
        time::Monotonic,
    },
    host::owner::Owner,
    pools,
    records::{Demand, NodeInterface, NodeName, Reach, Reservation, Selector, ServiceName, Session, Version},
};

fn session(number: u64) -> Session {
    Session::from_number(number).expect("it is not zero")
}

/// Returns the sessions that a claim names, if node-z holds its VIP.
fn held_by_z(is_held: bool) -> Vec<(NodeName, Session)> {
    if is_held { vec![("node-z".into(), session(1))] } else { Vec::new() }
}

enum Process {
    Agent(Box<Agent>),
    Controller(Box<Controller>),
}

impl Process {
    fn start(role: Role, settings: Settings) -> Self {
        match role {
            Role::Alone => Self::Agent(Box::new(Agent::alone(settings))),
            Role::Announcer => Self::Agent(Box::new(Agent::announcer(settings))),
            Role::Controller => Self::Controller(Box::new(Controller::start(settings))),
        }
    }
}

/// Results of all commands, as their receiver sees them.
struct World {
    process: Process,
    demands: BTreeMap<IpAddr, Demand>,
    problems: Vec<(ServiceName, Problem)>,
    duties: BTreeMap<ServiceName, Command>,
    reserving: Vec<pools::ReservationWrite>,
    lists_slices: bool,
}

impl World {
    /// Returns a world before the first list, in which a node is on the segment 192.0.2.0/24 and
    /// `2001:db8::/64`. Only the slices are known.
    fn unsynced(role: Role, settings: Settings) -> Self {
        let mut world = Self::without_slices(role, settings);
        world.notify(Event::SlicesListed);
        world
    }

    fn without_slices(role: Role, settings: Settings) -> Self {
        let mut world = Self {
            process: Process::start(role, settings),
            demands: BTreeMap::new(),
            problems: Vec::new(),
            duties: BTreeMap::new(),
            reserving: Vec::new(),
            lists_slices: false,
        };
        let interfaces = vec![interface(&["192.0.2.0/24", "2001:db8::/64"])];
        world.notify(Event::NodeInterfaces { node: "node-z".into(), interfaces, session: Some(session(1)) });
        world
    }

    fn with(settings: Settings) -> Self {
        Self::of(Role::Alone, settings)
    }

    fn of(role: Role, settings: Settings) -> Self {
        let mut world = Self::unsynced(role, settings);
        world.notify(Event::Synced);
        world
    }

    fn index(&self) -> &Index {
        match &self.process {
            Process::Agent(agent) => agent.index(),
            Process::Controller(controller) => controller.index(),
        }
    }

    fn controller(&self) -> &Controller {
        match &self.process {
            Process::Controller(controller) => controller,
            Process::Agent(_) => panic!("an agent has no allocator"),
        }
    }

    fn account_of(&self, service: &ServiceName) -> Option<ServiceAccount> {
        match &self.process {
            Process::Agent(agent) => agent.index().account_of(service, None),
            Process::Controller(it) => it.index().account_of(service, Some(it.allocator())),
        }
    }

    fn new() -> Self {
        Self::with(Settings::default())
    }

    fn notify(&mut self, event: Event) -> Vec<Command> {
        match &mut self.process {
            Process::Agent(agent) => {
                let commands = agent.on_event(event);
                self.carry_out(commands)
            }
            Process::Controller(controller) => {
                let commands = controller.on_event(event);
                self.carry_out_all(commands)
            }
        }
    }

    fn pass(&mut self, now: Monotonic) -> Vec<Command> {
        match &mut self.process {
            Process::Agent(agent) => {
                let commands = agent.on_time(now);
                self.carry_out(commands)
            }
            Process::Controller(controller) => {
                let commands = controller.on_time(now);
                self.carry_out_all(commands)
            }
        }
    }

    fn decide(&mut self, event: pools::Event) -> Vec<Command> {
        match &mut self.process {
            Process::Controller(controller) => {
                let commands = controller.on_pools(event);
                self.carry_out_all(commands)
            }
            Process::Agent(_) => Vec::new(),
        }
    }

    /// Carries the controller's commands out. Returns those of its index.
    fn carry_out_all(&mut self, commands: Vec<ControllerCommand>) -> Vec<Command> {
        let mut served = Vec::new();
        for command in commands {
            match command {
                ControllerCommand::Reserve(write) => self.reserving.push(write),
                ControllerCommand::GiveUp(vip) => self.reserving.retain(|write| write.vip != vip),
                ControllerCommand::Serve(command) => served.push(command),
            }
        }
        self.carry_out(served)
    }

    /// Carries the commands out. Checks that no command is repeated.
    fn carry_out(&mut self, commands: Vec<Command>) -> Vec<Command> {
        for command in &commands {
            match command.clone() {
                Command::Demand(vip, Some(demand)) => {
                    assert_ne!(self.demands.get(&vip), Some(&demand), "{vip} is reported again");
                    self.demands.insert(vip, demand);
                }
                Command::Demand(vip, None) => {
                    self.demands.remove(&vip).expect("a demand that was reported before");
                }
                Command::WriteIngress { service, .. } | Command::ClearIngress { service } => {
                    let before = self.duties.insert(service, command.clone());
                    assert_ne!(before.as_ref(), Some(command), "a duty is reported again");
                }
                Command::LeaveIngress { service } => {
                    self.duties.remove(&service).expect("a duty that was reported before");
                }
                Command::ListSlices { .. } => {
                    assert!(!self.lists_slices, "the slices are requested again");
                    self.lists_slices = true;
                }
                Command::Report { service, problem } => {
                    let notified = (service, problem);
                    assert!(!self.problems.contains(&notified), "reported again: {notified:?}");
                    self.problems.push(notified);
                }
                Command::ProblemOver { service, problem } => {
                    let notified = (service, problem);
                    let place = self.problems.iter().position(|open| *open == notified);
                    self.problems.swap_remove(place.expect("a problem that was reported before"));
                }
            }
        }
        commands
    }

    fn put(&mut self, record: ServiceRecord) -> Vec<Command> {
        self.notify(Event::Service(Box::new(record)))
    }

    fn hold(&mut self, vip: &str, here: bool) -> Vec<Command> {
        self.notify(Event::Held { vip: ip(vip), here })
    }

    /// Shows a claim of a VIP that node-z holds, or that no node has held.
    fn claim(&mut self, vip: &str, is_held: bool, force: bool) -> Vec<Command> {
        let mut event = claim(ip(vip), (is_held, is_held), &[], None);
        if let Event::Claim { force: is_forced, .. } = &mut event {
            *is_forced = force;
        }
        self.notify(event)
    }

    fn node(&mut self, node: &str, addresses: &[&str]) {
        self.notify(node_at(node, addresses));
    }

    fn vips(&self) -> Vec<String> {
        self.demands.keys().map(IpAddr::to_string).collect()
    }

    fn demand(&self, vip: &str) -> &Demand {
        self.demands.get(&ip(vip)).unwrap_or_else(|| panic!("no demand for {vip}: {:?}", self.problems))
    }

    fn local(&self, vip: &str) -> Option<Vec<&str>> {
        match &self.demand(vip).reach {
            Reach::Anywhere => None,
            Reach::On(local) => Some(local.nodes().iter().map(NodeName::as_str).collect()),
            Reach::Unknown => panic!("the slices are not listed"),
        }
    }

    fn words(&self) -> Vec<String> {
        let mut words: Vec<_> =
            self.problems.iter().map(|(service, problem)| format!("{service}: {problem}")).collect();
        words.sort();
        words
    }
}

fn named(text: &str) -> ServiceName {
    let (namespace, name) = text.split_once('/').expect("namespace/name");
    ServiceName { namespace: namespace.into(), name: name.into() }
}

/// Returns a Service of type `LoadBalancer` with port 80 and without an address.
fn service(name: &str) -> ServiceRecord {
    ServiceRecord::new(named(name), "1".into(), vec![Port { port: 80, protocol: Protocol::Tcp }])
}

impl ServiceRecord {
    fn annotated(mut self, annotations: &[(&str, &'static str)]) -> Self {
        let value =
            |wanted: &str| annotations.iter().find(|(name, _)| *name == wanted).map(|(_, value)| *value);
        self.annotations = Annotations::read(value, annotations.iter().map(|(name, _)| *name), Vec::new());
        self
    }

    fn addressed(self, addresses: &'static str) -> Self {
        self.annotated(&[("vipward.io/addresses", addresses)])
    }

    fn status(mut self, manager: &str, addresses: &[&str]) -> Self {
        self.ingress =
            addresses.iter().map(|address| Ingress { ip: Some(ip(address)), mode: IpMode::Vip }).collect();
        self.status_manager = Some(manager.into());
        self
    }

    fn ports(mut self, ports: &[u16]) -> Self {
        self.ports = ports.iter().map(|port| Port { port: *port, protocol: Protocol::Tcp }).collect();
        self
    }

    fn created(mut self, seconds: i64) -> Self {
        self.created = seconds;
        self
    }

    fn local(mut self) -> Self {
        self.local = true;
        self
    }
}

/// Returns a slice of a Service, with the nodes that have ready endpoints, and those
/// that have terminating endpoints that still serve.
fn slice(service: &str, slice: &str, ready: &[&str], terminating: &[&str]) -> EndpointsRecord {
    let nodes = |names: &[&str]| names.iter().map(|name| NodeName::from(*name)).collect();
    EndpointsRecord {
        slice: slice.into(),
        service: named(service),
        ready: nodes(ready),
        serving_terminating: nodes(terminating),
        ready_elsewhere: false,
        is_ipv6: false,
    }
}

fn network(addresses: Vec<HostAddress>, hops: &[&str]) -> HostNetwork {
    let next_hops = hops.iter().map(|hop| ip(hop)).collect();
    HostNetwork { node: "node-a".into(), addresses, next_hops, name_servers: BTreeSet::new() }
}

/// Returns a node's interface `eth0`, as its Lease lists it.
fn interface(nets: &[&str]) -> NodeInterface {
    NodeInterface {
        name: "eth0".into(),
        mac: vipward_common::MacAddr([2, 0, 0, 0, 0, 1]),
        subnets: nets.iter().map(|net| net.parse().expect("an address with a prefix length")).collect(),
        bound: Vec::new(),
        gateways: Vec::new(),
        carrier: true,
        last_for: Vec::new(),
        unreached: Vec::new(),
    }
}

fn on_node(node: &str, interface: NodeInterface) -> Event {
    Event::NodeInterfaces { node: node.into(), interfaces: vec![interface], session: None }
}

fn node_at(node: &str, addresses: &[&str]) -> Event {
    let addresses = addresses.iter().map(|address| ip(address)).collect();
    Event::NodeAddresses { node: node.into(), labels: BTreeMap::new(), addresses, pod_cidrs: Vec::new() }
}

/// Returns the event of a claim. If `is_held`, node-z holds its VIP.
fn claim(
    vip: IpAddr,
    (was_held, is_held): (bool, bool),
    services: &[&str],
    reservation: Option<Reservation>,
) -> Event {
    Event::Claim {
        vip,
        was_held,
        sessions: held_by_z(is_held),
        force: false,
        services: services.iter().map(|name| named(name)).collect(),
        reservation: reservation.map(Box::new),
        release: false,
    }
}

fn consent(namespace: &str, listed: &[&str]) -> Event {
    let share_with = listed.iter().map(|name| Arc::from(*name)).collect();
    Event::Namespace { name: namespace.into(), labels: BTreeMap::new(), share_with }
}

fn host(segment: &str, nets: &[&str]) -> Vec<HostAddress> {
    let address = |net: &&str| {
        let net = net.parse().expect("an address with a prefix length");
        HostAddress {
            interface: segment.into(),
            segment: segment.starts_with("eth"),
            net,
            owner: if crate::base::address::is_host(&net) { Owner::Program } else { Owner::Host },
        }
    };
    nets.iter().map(address).collect()
}
