use vipward_common::{Role, Yield};

use super::{
    super::{
        fixtures::{ETH0, ETH1, PEER, SETTINGS, Site, at, entry},
        host::Read,
        segment::Segment,
    },
    *,
};
use crate::{
    base::samples::{HOLDER, key},
    host::{
        placement::{Desired, DesiredEntry, Placement},
        plan::Observed,
        stale::{Failure, Left},
    },
    records::NodeName,
};

/// Time for which a VIP may be silent.
const GRACE: u64 = 3_000;
const OWN: SeenEntry = SeenEntry { role: Role::Held, mac: HOLDER, yielded: false, fault: None };

/// An agent that should hold its one VIP here.
struct Agent {
    answers: Answers,
    site: Site,
    host: Host,
    segment: Segment,
    unattached: BTreeMap<u32, String>,
    surroundings: Surroundings,
    said: Option<HolderClaim>,
    left_behind: Vec<IpAddr>,
    entries: BTreeMap<u32, SeenEntry>,
}

impl Agent {
    /// Returns an agent that answers.
    fn new() -> Self {
        Self {
            answers: Answers::start(Duration::from_millis(GRACE), at(0)),
            site: Site::new(),
            host: Host::start(0, at(0)),
            segment: Segment::start(&SETTINGS, 1, at(0)),
            unattached: BTreeMap::new(),
            surroundings: Surroundings {
                lease_deadline: DeadlineState::Valid,
                any_yielded: false,
                interfaces: [(ETH0, (HOLDER, None))].into(),
            },
            said: Some(HolderClaim::Here { taken: true }),
            left_behind: Vec::new(),
            entries: [(ETH0, OWN)].into(),
        }
    }

    /// Begins to examine the VIPs that are marked.
    fn begin(&mut self, millis: u64) -> Examination {
        let (vip, said) = (key(10).addr, self.said.clone());
        let said = |of: Option<&BTreeSet<IpAddr>>| {
            said.filter(|_| of.is_none_or(|of| of.contains(&vip)))
                .map(|said| (vip, said))
                .into_iter()
                .collect()
        };
        let left_behind = self.left_behind.clone();
        self.answers.begin(self.surroundings.clone(), left_behind, said, &self.segment, at(millis))
    }

    fn examine(&mut self, millis: u64) -> Examined {
        let mut examination = self.begin(millis);
        while let Some(keys) = examination.next_part() {
            let entry = |key: VipKey| Some((key, *self.entries.get(&key.ifindex)?));
            let entries = keys.into_iter().filter_map(entry).collect();
            let known = Known {
                view: &self.site.view,
                host: &self.host,
                segment: &self.segment,
                stale: &self.site.stale,
                unattached: &self.unattached,
                settles_by_age: true,
            };
            self.answers.on_entries(&mut examination, &entries, (&known, at(millis)));
        }
        self.answers.end(examination, at(millis))
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
    let rows: [(&str, Change, Option<&str>); 21] = [
        ("it is answered", |_| {}, None),
        ("it is not said to be held", |it| (it.said, it.entries) = (None, BTreeMap::new()), None),
        (
            "the lease deadline has passed",
            |it| it.surroundings.lease_deadline = DeadlineState::Over,
            Some("lease deadline"),
        ),
        ("grace period", |it| it.surroundings.lease_deadline = DeadlineState::Grace, None),
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
        ("handed over", |it| _ = it.entries.insert(ETH0, SeenEntry { role: Role::Handover, ..OWN }), None),
        ("silent here, and held on another interface", |it| also(it, Some(InterfaceFault::Down), None), None),
        ("held here, and silent on another interface", |it| also(it, None, Some(InterfaceFault::Down)), None),
        (
            "guarded here, and silent on another interface",
            |it| {
                also(it, None, Some(InterfaceFault::Down));
                foreign(it, false);
            },
            Some("eth1: "),
        ),
        (
            "no entry here, and held on another interface",
            |it| {
                also(it, None, None);
                it.entries.remove(&ETH0);
            },
            None,
        ),
        ("its address may be in use", holds_back, None),
        ("its entry went after it was yielded", yielded, Some("the program yielded to 02:00:00:00:00:09")),
        ("yielded", |it| foreign(it, true), Some("the program yielded to 02:00:00:00:00:09")),
        (
            "the entry cannot be written",
            |it| stale(it, Some("eth0")),
            Some("its entry on eth0 cannot be changed: full"),
        ),
        ("no entry can be written", |it| stale(it, None), Some("full")),
        (
            "no entry, and the lease deadline has passed",
            |it| (it.entries, it.surroundings.lease_deadline) = (BTreeMap::new(), DeadlineState::Over),
            Some("lease deadline"),
        ),
        (
            "no interface in its subnet",
            |it| (it.entries, it.site.view.routes) = (BTreeMap::new(), vec![]),
            Some("no interface that the program"),
        ),
        (
            "its interface could not be attached",
            |it| {
                (it.entries, it.site.view.routes) = (BTreeMap::new(), vec![]);
                it.unattached.insert(ETH0, "refused by the driver".to_owned());
            },
            Some("refused by the driver"),
        ),
        ("guarded, although it was taken", |it| foreign(it, false), Some("the program has no entry")),
        (
            "claimed, and not taken",
            |it| (it.entries, it.said) = (BTreeMap::new(), Some(HolderClaim::Here { taken: false })),
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
    agent.entries.insert(ETH0, SeenEntry { role: Role::Foreign, mac: PEER, yielded, fault: None });
}

/// Has the agent hold the VIP on a second interface too. Each of the two may have a fault.
fn also(agent: &mut Agent, fault: Option<InterfaceFault>, other: Option<InterfaceFault>) {
    agent.entries.insert(ETH1, OWN);
    agent.surroundings.interfaces = [(ETH0, (HOLDER, fault)), (ETH1, (HOLDER, other))].into();
}

fn holds_back(agent: &mut Agent) {
    let entries = [(key(10), DesiredEntry::new(Role::Held, HOLDER))].into();
    let mut desired = Desired { entries, ..Desired::default() };
    agent.segment.hold_back(&mut desired, &Observed::default(), &agent.site.context());
    agent.entries.clear();
}

/// Has the host reconcile a yielded entry, which goes with its interface then.
fn yielded(agent: &mut Agent) {
    let entries = [(key(10), entry(Role::Held, HOLDER, 7))].into();
    let yields = [(0, Yield { mac: PEER.0, generation: 7 })].into();
    let observed = Observed { entries, yields, ..Observed::default() };
    let (placement, placed) = (Placement::default(), BTreeMap::new());
    let read = Read { yields: 1, observed, placement, placed, attached: &BTreeSet::new() };
    let listed = [key(10).addr].into_iter();
    agent.host.plan(&mut agent.segment, read, (listed, false), &agent.site.context());
    agent.entries.clear();
}

fn stale(agent: &mut Agent, interface: Option<&str>) {
    let failure =
        Failure { left: Left::Silent, interface: interface.map(ToOwned::to_owned), error: "full".to_owned() };
    agent.site.stale.on_tried(|_| true, |_| true, [(key(10).addr, failure)].into());
    agent.entries.clear();
}

#[test]
fn silence_is_reported_after_its_grace_and_its_end_once() {
    let mut agent = Agent::new();
    agent.entries.clear();
    assert!(agent.examine(0).begun.is_empty());
    assert!(agent.answers.is_silent(key(10).addr) && agent.answers.reason(key(10).addr).is_none());
    assert_eq!(agent.answers.next_deadline(), Some(at(GRACE)));
    assert_eq!(agent.examine(GRACE).begun, [key(10).addr]);
    agent.entries = Agent::new().entries;
    assert!(agent.examine(4_000).over.is_empty(), "it was not marked");
    agent.answers.examine_some([key(10).addr]);
    assert_eq!(agent.examine(5_000).over, [key(10).addr]);
}

#[test]
fn all_vips_are_examined_after_a_change_that_concerns_all() {
    let all = |agent: &mut Agent, millis| agent.examine(millis).all.len();
    let mut agent = Agent::new();
    assert_eq!((all(&mut agent, 0), all(&mut agent, 1_000)), (1, 0));
    agent.surroundings.lease_deadline = DeadlineState::Grace;
    assert_eq!((all(&mut agent, 2_000), all(&mut agent, 3_000)), (1, 0));
    agent.surroundings.any_yielded = true;
    assert_eq!((all(&mut agent, 4_000), all(&mut agent, 5_000)), (1, 0));
    agent.surroundings.interfaces = [(ETH0, (PEER, None))].into();
    assert_eq!((all(&mut agent, 6_000), all(&mut agent, 7_000)), (1, 0));
    agent.answers.examine_all();
    assert_eq!(all(&mut agent, 8_000), 1);
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
fn the_end_of_another_session_is_a_reason_of_its_own_and_found_without_a_mark() {
    let mut agent = Agent::new();
    agent.said = None;
    assert!(agent.examine(0).all.is_empty());
    (agent.said, agent.left_behind) = (Some(HolderClaim::Ended(NodeName::from("b"))), vec![key(10).addr]);
    agent.examine(1_000);
    assert_eq!(agent.examine(1_000 + GRACE).begun, [key(10).addr]);
    assert_eq!(agent.answers.reason(key(10).addr), Some(&Unanswered::SessionEnded(NodeName::from("b"))));
}

#[test]
fn another_grace_applies_to_what_falls_silent_from_now_on() {
    let mut agent = Agent::new();
    agent.answers.configure(Duration::from_millis(GRACE * 2));
    agent.entries.clear();
    assert!(agent.examine(0).begun.is_empty());
    agent.answers.configure(Duration::ZERO);
    assert_eq!(agent.answers.next_deadline(), Some(at(GRACE * 2)));
}

#[test]
fn entries_that_cannot_be_read_are_no_silence() {
    let mut agent = Agent::new();
    also(&mut agent, Some(InterfaceFault::Down), None);
    assert_eq!(agent.begin(0).next_part().map(|keys| keys.len()), Some(2));
    agent.answers.give_up(agent.site.now());
    assert!(!agent.answers.is_silent(key(10).addr));
    assert_eq!(agent.examine(1_000).all.len(), 1, "all are examined the next time");
}
