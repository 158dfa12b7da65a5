use std::convert::Infallible;

use vipward_common::Role;

use super::{
    super::segment::{self, Segment},
    *,
};
use crate::{
    base::samples::{HOLDER, key},
    host::{
        net::{ConnectedRoute, Interface},
        stale::{Failure, Left},
    },
    records::NodeName,
    segment::{announce, conflict, probing},
};

/// The interface of [`key`].
const ETH0: u32 = 3;
const PEER: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);
/// Time for which a VIP may be silent.
const GRACE: u64 = 3_000;

fn at(millis: u64) -> Monotonic {
    Monotonic::from_nanos(millis * 1_000_000)
}

/// An agent whose one VIP is said to be held here.
struct Agent {
    answers: Answers,
    view: NetView,
    host: Host,
    segment: Segment,
    stale: Stale,
    unattached: BTreeMap<u32, String>,
    surroundings: Surroundings,
    said: Option<Said>,
    entry: Option<SeenEntry>,
}

impl Agent {
    /// Returns an agent that answers.
    fn new() -> Self {
        let settings = segment::Settings {
            announce: announce::Settings { refresh: Duration::from_mins(1), rate: 1_000 },
            probe: probing::Settings::DEFAULT,
            conflicts: conflict::Settings::DEFAULT,
        };
        let eth0 = Interface { mac: HOLDER, ..Interface::sample(ETH0, "eth0") };
        let prefix = "10.0.0.0/16".parse().expect("a subnet");
        let routes = vec![ConnectedRoute { prefix, interface: ETH0, metric: 0 }];
        Self {
            answers: Answers::start(Duration::from_millis(GRACE), at(0)),
            view: NetView { interfaces: [(ETH0, eth0)].into(), routes, ..NetView::default() },
            host: Host::start(0, at(0)),
            segment: Segment::start(&settings, 1, at(0)),
            stale: Stale::default(),
            unattached: BTreeMap::new(),
            surroundings: Surroundings {
                fence: FenceState::Valid,
                any_yielded: false,
                interfaces: [(ETH0, (HOLDER, None))].into(),
            },
            said: Some(Said::Here { taken: true }),
            entry: Some(SeenEntry { role: Role::Held, mac: HOLDER, yielded: false }),
        }
    }

    fn examine(&mut self, millis: u64) -> Examined {
        let known = Known {
            view: &self.view,
            host: &self.host,
            segment: &self.segment,
            stale: &self.stale,
            unattached: &self.unattached,
        };
        let (vip, said) = (key(10).addr, self.said.clone());
        let said = |of: Option<&BTreeSet<IpAddr>>| {
            said.filter(|_| of.is_none_or(|of| of.contains(&vip)))
                .map(|said| (vip, said))
                .into_iter()
                .collect()
        };
        let read = |_, _| Ok::<_, Infallible>(self.entry);
        let examined =
            self.answers.examine(self.surroundings.clone(), Vec::new(), said, read, (&known, at(millis)));
        examined.expect("invariant: reading cannot fail")
    }

    /// Returns the reason that is reported after the grace.
    fn reason(mut self) -> Option<String> {
        self.examine(0);
        self.answers.examine_all();
        self.examine(GRACE);
        self.answers.reason(key(10).addr).map(ToString::to_string)
    }
}

#[test]
fn a_silent_vip_has_the_reason_that_comes_first() {
    type Change = fn(&mut Agent);
    let rows: [(&str, Change, Option<&str>); 15] = [
        ("it is answered", |_| {}, None),
        ("it is not said to be held", |it| (it.said, it.entry) = (None, None), None),
        ("the fence is over", |it| it.surroundings.fence = FenceState::Over, Some("fence")),
        ("held over", |it| it.surroundings.fence = FenceState::HeldOver, None),
        (
            "the interface has no carrier",
            |it| it.surroundings.interfaces = [(ETH0, (HOLDER, Some(InterfaceFault::NoCarrier)))].into(),
            Some("eth0: "),
        ),
        (
            "the MAC is another",
            |it| it.surroundings.interfaces = [(ETH0, (PEER, None))].into(),
            Some("eth0: "),
        ),
        (
            "handed over",
            |it| it.entry = Some(SeenEntry { role: Role::Handover, mac: HOLDER, yielded: false }),
            None,
        ),
        ("yielded", |it| foreign(it, true), Some("the program gave way to 02:00:00:00:00:09")),
        (
            "the entry cannot be written",
            |it| stale(it, Some("eth0")),
            Some("its entry on eth0 cannot be changed: full"),
        ),
        ("no entry can be written", |it| stale(it, None), Some("full")),
        (
            "no entry, and the fence is over",
            |it| (it.entry, it.surroundings.fence) = (None, FenceState::Over),
            Some("fence"),
        ),
        (
            "no interface in its subnet",
            |it| (it.entry, it.view.routes) = (None, vec![]),
            Some("no interface that the program"),
        ),
        (
            "its interface could not be attached",
            |it| {
                (it.entry, it.view.routes) = (None, vec![]);
                it.unattached.insert(ETH0, "refused by the driver".to_owned());
            },
            Some("refused by the driver"),
        ),
        ("guarded, although it was taken", |it| foreign(it, false), Some("the program has no entry")),
        (
            "claimed, and not taken",
            |it| (it.entry, it.said) = (None, Some(Said::Here { taken: false })),
            Some("its claim names this node"),
        ),
    ];
    for (what, change, expected) in rows {
        let mut agent = Agent::new();
        change(&mut agent);
        let reason = agent.reason();
        let is_expected = match (&reason, expected) {
            (None, None) => true,
            (Some(reason), Some(part)) => reason.contains(part),
            (Some(_), None) | (None, Some(_)) => false,
        };
        assert!(is_expected, "{what}: {reason:?}, and not {expected:?}");
    }
}

fn foreign(agent: &mut Agent, yielded: bool) {
    agent.entry = Some(SeenEntry { role: Role::Foreign, mac: PEER, yielded });
}

fn stale(agent: &mut Agent, interface: Option<&str>) {
    let failure =
        Failure { left: Left::Silent, interface: interface.map(ToOwned::to_owned), error: "full".to_owned() };
    agent.stale.on_tried(|_| true, |_| true, [(key(10).addr, failure)].into());
    agent.entry = None;
}

#[test]
fn silence_is_reported_after_its_grace_and_its_end_once() {
    let mut agent = Agent::new();
    agent.entry = None;
    assert!(agent.examine(0).begun.is_empty());
    assert!(agent.answers.is_silent(key(10).addr) && agent.answers.reason(key(10).addr).is_none());
    assert_eq!(agent.answers.next_deadline(), Some(at(GRACE)));
    assert_eq!(agent.examine(GRACE).begun, [key(10).addr]);
    agent.entry = Agent::new().entry;
    assert!(agent.examine(4_000).over.is_empty(), "it was not marked");
    agent.answers.examine_some([key(10).addr]);
    assert_eq!(agent.examine(5_000).over, [key(10).addr]);
}

#[test]
fn all_vips_are_examined_after_a_change_that_concerns_all() {
    let all = |agent: &mut Agent, millis| agent.examine(millis).all.len();
    let mut agent = Agent::new();
    assert_eq!((all(&mut agent, 0), all(&mut agent, 1_000)), (1, 0));
    agent.surroundings.fence = FenceState::HeldOver;
    assert_eq!((all(&mut agent, 2_000), all(&mut agent, 3_000)), (1, 0));
    agent.answers.examine_all();
    assert_eq!(all(&mut agent, 4_000), 1);
}

#[test]
fn examinations_keep_their_pace() {
    let mut agent = Agent::new();
    agent.examine(1_000);
    assert!(!agent.answers.is_open(at(1_499)) && agent.answers.is_open(at(1_500)));
    assert_eq!(agent.answers.next_deadline(), None);
    agent.answers.examine_some([key(10).addr]);
    assert_eq!(agent.answers.next_deadline(), Some(at(1_500)));
}

#[test]
fn the_end_of_another_session_is_a_reason_of_its_own() {
    let mut agent = Agent::new();
    agent.said = Some(Said::Ended(NodeName::from("b")));
    agent.examine(0);
    agent.examine(GRACE);
    assert_eq!(agent.answers.reason(key(10).addr), Some(&Unanswered::SessionEnded(NodeName::from("b"))));
}
