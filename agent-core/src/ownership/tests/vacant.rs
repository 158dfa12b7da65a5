//! Vacant VIPs: every state of a claim whose VIP no living node holds, with every other use of the
//! address, and every result of a probe. The index of Services and the engine decide together.

use std::collections::BTreeMap;

use ipnet::IpNet;
use vipward_common::MacAddr;

use super::world::*;
use crate::{
    host::owner::Owner,
    ownership::{Entry, Event, Probed, Settings},
    records::{
        ClaimNote, ClaimRecord, ClaimState, Epoch, LeaseRecord, NodeInterface, Reservation, ServiceName,
    },
    services::{
        self, AnnotationValues, Event as Served, HostAddress, HostNetwork, Port, Protocol, ServiceRecord,
    },
};

/// A selector that selects no node.
const NOWHERE: &str = "nosuch=label";
const UNKNOWN_HOST: MacAddr = MacAddr([2, 0, 0, 0, 0, b'x']);

/// The agent of node a, which lives among b and c: its index of Services and its engine.
struct Agent {
    engine: World,
    services: services::Agent,
    /// The commands of the engine so far, as lines.
    lines: Vec<String>,
}

impl Agent {
    /// Returns an agent that has read the cluster.
    fn new() -> Self {
        let settings = Settings { probing: Some(ms(700)), ..settings("a") };
        let mut agent = Self {
            engine: World::living_with(&settings, "a", &["b", "c"]),
            services: services::Agent::alone(services::Settings::default()),
            lines: Vec::new(),
        };
        agent.notify(Served::SlicesListed);
        for node in ["a", "b", "c"] {
            agent.notify(of_lease(&lease(node, Some(session(node, 1)), &[])));
        }
        agent.notify(Served::Synced);
        agent
    }

    /// Passes an event to the index. The engine gets the demands that follow.
    fn notify(&mut self, event: Served) {
        let commands = self.services.on_event(event);
        self.serve(commands);
    }

    fn serve(&mut self, commands: Vec<services::Command>) {
        for command in commands {
            if let services::Command::Demand(vip, demand) = command {
                let lines = self.engine.notify(Event::Demand(vip, demand));
                self.lines.extend(lines);
            }
        }
    }

    /// Shows a claim, as the watch does.
    fn claim(&mut self, record: ClaimRecord) {
        let event = of_claim(&record);
        self.engine.store_record(record);
        let lines = self.engine.watch_shows(VIP);
        self.lines.extend(lines);
        self.notify(event);
    }

    fn lease(&mut self, record: LeaseRecord) {
        let event = of_lease(&record);
        let lines = self.engine.lease(record);
        self.lines.extend(lines);
        self.notify(event);
    }

    fn want(&mut self) {
        self.want_on("");
    }

    /// Has a Service want the VIP on the nodes of this selector. Node a comes first.
    fn want_on(&mut self, nodes: &str) {
        let annotations = AnnotationValues {
            addresses: Some("192.0.2.10".into()),
            preferred_nodes: Some(FIRST.into()),
            nodes: Some(nodes.into()),
            ..Default::default()
        };
        let ports = vec![Port { port: 80, protocol: Protocol::Tcp }];
        let record = ServiceRecord::new(service(), "uid".into(), ports);
        self.notify(Served::Service(Box::new(ServiceRecord { annotations: annotations.into(), ..record })));
    }

    /// Lets time pass. Each probe is answered in this way, and each request is carried out.
    fn pass(&mut self, duration: std::time::Duration, probed: Probed) {
        let until = self.engine.now + duration;
        while self.engine.now < until {
            let lines = self.engine.after(ms(250));
            self.lines.extend(lines);
            let commands = self.services.on_time(self.engine.now);
            self.serve(commands);
            while !self.engine.is_idle() {
                let lines = self.engine.answer();
                self.lines.extend(lines);
            }
            let lines = self.engine.notify(Event::Probed { vip: VIP, probed });
            self.lines.extend(lines);
            if self.engine.has_claim() {
                let event = of_claim(self.engine.claimed());
                self.notify(event);
            }
        }
    }

    fn said(&self, what: &str) -> bool {
        self.lines.iter().any(|line| line.contains(what))
    }
}

fn service() -> ServiceName {
    ServiceName { namespace: "default".into(), name: "web".into() }
}

fn of_lease(record: &LeaseRecord) -> Served {
    let (node, interfaces) = (record.node.clone(), record.interfaces.clone());
    Served::NodeInterfaces { node, interfaces, session: record.live_session() }
}

fn of_claim(record: &ClaimRecord) -> Served {
    Served::Claim {
        vip: record.vip,
        was_held: record.epoch > Epoch(0) || record.state.holder().is_some(),
        sessions: record.state.sessions(),
        force: record.force,
        services: record.note.services.clone(),
        reservation: record.reservation.clone(),
        release: record.release,
    }
}

fn record(state: ClaimState, epoch: u64) -> ClaimRecord {
    ClaimRecord {
        epoch: Epoch(epoch),
        state,
        note: ClaimNote { services: vec![service()], ..ClaimNote::default() },
        ..ClaimRecord::blank(VIP, "1".into())
    }
}

/// Returns the claim that node b has released.
fn let_go() -> ClaimRecord {
    let note =
        ClaimNote { cause: "b has let go of it: cordoned".into(), services: vec![service()], trouble: None };
    ClaimRecord { note, ..record(ClaimState::Released, 3) }
}

/// A way into a state of a claim.
type Way = fn(&mut Agent);

/// Returns the states of a claim whose VIP no living node holds, for longer than this agent takes it
/// for lately held. The way into each ends before anything else needs the address.
fn vacant() -> Vec<(&'static str, Way)> {
    fn reserve(agent: &mut Agent, epoch: u64, is_kept: bool) {
        let kept = is_kept.then_some(None);
        let reservation = Reservation { service: service(), pool: Some("lan".into()), kept };
        let reservation = Some(Box::new(reservation));
        agent.claim(ClaimRecord { reservation, ..record(ClaimState::Released, epoch) });
    }
    fn held_and_left(agent: &mut Agent, released: ClaimRecord) {
        agent.claim(record(held("b"), 3));
        agent.want();
        agent.pass(REST * 2, Probed::Free);
        agent.want_on(NOWHERE);
        agent.claim(released);
        agent.pass(ms(15_000), Probed::Free);
    }
    vec![
        ("there is none", |_| {}),
        ("reserved, and never held", |agent| reserve(agent, 0, false)),
        ("reserved, and held once", |agent| reserve(agent, 3, false)),
        ("kept for a Service that is gone", |agent| reserve(agent, 3, true)),
        ("released before this agent began", |agent| agent.claim(record(ClaimState::Released, 7))),
        ("released while this agent looked, and parked since", |agent| {
            held_and_left(agent, let_go());
        }),
        ("of an earlier epoch, from a backup", |agent| held_and_left(agent, record(ClaimState::Released, 1))),
        ("blank since an edit", |agent| held_and_left(agent, record(ClaimState::Blank, 3))),
        ("its holder ended before this agent began", |agent| {
            agent.lease(lease("b", Some(session("b", 2)), &[session("b", 1)]));
            agent.claim(record(held("b"), 3));
        }),
        ("offered, and both sides ended", |agent| {
            agent.lease(lease("b", Some(session("b", 2)), &[session("b", 1)]));
            agent.lease(lease("c", Some(session("c", 2)), &[session("c", 1)]));
            agent.claim(record(offered("b", "c"), 4));
        }),
        ("the holder was this node, in a session that ended", |agent| {
            let ended = ClaimState::Held(holder("a", 9));
            agent.claim(record(ended, 2));
        }),
        ("it names this node, which has not written that", |agent| agent.claim(record(held("a"), 1))),
        ("the Service left for another class and came back", |agent| {
            agent.claim(record(held("b"), 3));
            agent.want();
            agent.pass(REST * 2, Probed::Free);
            agent.notify(Served::ServiceGone(service()));
            agent.claim(record(ClaimState::Released, 3));
            agent.pass(ms(15_000), Probed::Free);
        }),
    ]
}

/// Returns everything else that can need the address.
fn needs() -> Vec<(&'static str, Served)> {
    let address = "192.0.2.10";
    let ip = VIP;
    let net = |text: &str| text.parse::<IpNet>().expect("a network");
    let host = |nets: &[&str]| HostNetwork {
        node: "a".into(),
        addresses: nets
            .iter()
            .map(|text| net(text))
            .map(|net| HostAddress {
                interface: "eth0".into(),
                segment: true,
                net,
                owner: if crate::base::address::is_host(&net) { Owner::Program } else { Owner::Host },
            })
            .collect(),
        next_hops: [].into(),
        name_servers: [].into(),
    };
    let elsewhere = |interface: NodeInterface| Served::NodeInterfaces {
        node: "b".into(),
        interfaces: vec![interface],
        session: Some(session("b", 1)),
    };
    let dns = ServiceRecord::new(
        ServiceName { namespace: "kube-system".into(), name: "dns".into() },
        "dns".into(),
        Vec::new(),
    );
    vec![
        ("this host has it", Served::HostNetwork(host(&["192.0.2.10/24"]))),
        ("this host has it as /32", Served::HostNetwork(host(&["192.0.2.10/32"]))),
        (
            "this host's next hop",
            Served::HostNetwork(HostNetwork { next_hops: [ip].into(), ..host(&["192.0.2.1/24"]) }),
        ),
        (
            "this host's name server",
            Served::HostNetwork(HostNetwork { name_servers: [ip].into(), ..host(&["192.0.2.1/24"]) }),
        ),
        (
            "its subnet ends there",
            Served::HostNetwork(host(&["192.0.2.12/29", "192.0.2.9/31", "192.0.2.10/30"])),
        ),
        (
            "a Node has it",
            Served::NodeAddresses {
                node: "b".into(),
                labels: BTreeMap::new(),
                addresses: vec![ip],
                pod_cidrs: Vec::new(),
            },
        ),
        (
            "Pods have it",
            Served::NodeAddresses {
                node: "b".into(),
                labels: BTreeMap::new(),
                addresses: Vec::new(),
                pod_cidrs: vec![net("192.0.2.8/29")],
            },
        ),
        (
            "another node's interface has it",
            elsewhere(NodeInterface { subnets: vec![net("192.0.2.10/24")], ..interface("b") }),
        ),
        (
            "another node's interface has it as /32",
            elsewhere(NodeInterface { bound: vec![ip], ..interface("b") }),
        ),
        ("another node's gateway", elsewhere(NodeInterface { gateways: vec![ip], ..interface("b") })),
        ("the API server", Served::ApiServers { slice: Some("kubernetes".into()), addresses: vec![ip] }),
        ("the kubeconfig's server", Served::ApiServers { slice: None, addresses: vec![ip] }),
        ("a ServiceCIDR", Served::ServiceCidr { name: "more".into(), nets: vec![net("192.0.2.8/29")] }),
        (
            "a ClusterIP",
            Served::Service(Box::new(ServiceRecord {
                load_balancer: false,
                cluster_ips: vec![address.parse().expect("an address")],
                ..dns
            })),
        ),
    ]
}

#[test]
fn a_vip_that_no_node_holds_is_probed_and_taken_only_if_the_address_is_free() {
    let in_use = Probed::InUse { mac: UNKNOWN_HOST, by_peer: false };
    for (state, way) in vacant() {
        for probed in [Probed::Free, in_use] {
            let mut agent = Agent::new();
            way(&mut agent);
            agent.lines.clear();
            let is_guarded = agent.engine.entry().is_some();
            agent.want();
            agent.pass(ms(20_000), probed);
            let first = |what| agent.lines.iter().position(|line| line.starts_with(what));
            let (guarded, asked) = (first("entry foreign"), first("probe"));
            assert!(asked.is_some(), "{state}: {:?}", agent.lines);
            let is_guarded = is_guarded || guarded.is_some() && guarded < asked;
            assert!(is_guarded, "the program reports no answers, {state}: {:?}", agent.lines);
            assert_eq!(
                agent.engine.holds(),
                probed == Probed::Free,
                "{state}, {probed:?}: {:?}",
                agent.lines
            );
            let trouble = agent.engine.has_claim().then(|| agent.engine.claimed().note.trouble.clone());
            let trouble = trouble.flatten().unwrap_or_default();
            let said = format!("{state}, {probed:?}: {trouble}; {:?}", agent.lines);
            assert_eq!(trouble.contains("is in use by"), probed == in_use, "{said}");
        }
    }
}

#[test]
fn a_vip_that_no_node_holds_is_neither_taken_nor_guarded_where_something_else_needs_the_address() {
    for (state, way) in vacant() {
        for (need, event) in needs() {
            let mut agent = Agent::new();
            way(&mut agent);
            agent.notify(event);
            agent.lines.clear();
            agent.want();
            agent.pass(ms(20_000), Probed::Free);
            assert_eq!(agent.engine.entry(), None, "{state}, {need}: {:?}", agent.lines);
            assert!(!agent.engine.holds(), "{state}, {need}");
            assert!(!agent.said("entry held"), "{state}, {need}: {:?}", agent.lines);
        }
    }
}

#[test]
fn a_claim_that_names_a_living_node_gives_it_no_address_that_something_else_had_before() {
    for (named, state) in [("b", held("b")), ("c", offered("c", "a")), ("a", held("a"))] {
        for (need, event) in needs() {
            let mut agent = Agent::new();
            agent.want();
            agent.notify(event);
            agent.lines.clear();
            agent.claim(record(state.clone(), 1));
            agent.pass(ms(20_000), Probed::Free);
            assert_eq!(agent.engine.entry(), None, "{need}, at {named}: {:?}", agent.lines);
            assert!(!agent.engine.holds(), "{need}, at {named}");
        }
    }
}

#[test]
fn a_vip_that_was_held_first_stays_guarded_for_its_holder_and_is_taken_over() {
    for (need, event) in needs() {
        let mut agent = Agent::new();
        agent.want();
        agent.claim(record(held("b"), 3));
        agent.pass(REST * 2, Probed::Free);
        agent.lines.clear();
        agent.notify(event);
        let kept = !need.contains("API server") && !need.contains("kubeconfig");
        let guarded = kept.then_some(Entry::Foreign { mac: mac("b") });
        assert_eq!(agent.engine.entry(), guarded, "{need}");
        // The Lease of b is as before: only its session is over.
        let lines = agent.engine.end("b");
        agent.lines.extend(lines);
        agent.pass(ms(5_000), Probed::Free);
        assert_eq!(agent.engine.holds(), kept, "{need}: {:?}", agent.lines);
        assert!(!agent.said("probe"), "{need}: a take-over does not wait");
    }
}

/// Returns the time after which a VIP that was held is taken without a probe no longer.
#[test]
fn a_release_that_this_agent_has_seen_is_fast_for_ten_seconds() {
    let taken_after = |wait: u64| {
        let mut agent = Agent::new();
        agent.claim(record(held("b"), 3));
        agent.want();
        agent.pass(REST * 2, Probed::Free);
        agent.want_on(NOWHERE);
        agent.claim(let_go());
        agent.pass(ms(wait), Probed::Free);
        agent.lines.clear();
        agent.want();
        agent.pass(ms(1_000), Probed::Free);
        (agent.engine.holds(), agent.said("probe"))
    };
    for (wait, probed) in [(0, false), (5_000, false), (9_500, false), (10_500, true)] {
        assert_eq!(taken_after(wait), (true, probed), "after {wait} ms");
    }
}
