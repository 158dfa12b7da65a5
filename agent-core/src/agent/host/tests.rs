use std::convert::Infallible;

use super::*;
use crate::{
    base::samples::{HOLDER, key, last_octet},
    host::{
        interfaces::Selection,
        net::{ConnectedRoute, Interface, NetView, Vital},
        placement::{self, Entry, Wanted},
        plan::Action,
    },
    segment::{announce, conflict, conflict::Right, probing},
};

/// The interface of [`key`].
const ETH0: u32 = 3;
const PEER: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);
/// Slots in the maps.
const MOST: u32 = 4;

/// The source's word on all VIPs.
struct Source {
    is_known: bool,
    may_begin: bool,
    vital: Option<Vital>,
}

impl super::super::segment::Authority for Source {
    fn right(&self, _vip: IpAddr, _mac: MacAddr, _now: Monotonic) -> Right {
        Right::NoClaims
    }

    fn may_take_back(&self, _vip: IpAddr) -> bool {
        true
    }

    fn must_be_free(&self, _vip: IpAddr) -> bool {
        false
    }

    fn is_vacant(&self, _vip: IpAddr) -> bool {
        false
    }

    fn is_known(&self) -> bool {
        self.is_known
    }

    fn may_begin_answering(&self, _now: Monotonic) -> bool {
        self.may_begin
    }

    fn must_hear(&self) -> Option<Vital> {
        self.vital.clone()
    }
}

/// A host with one interface, the entries in its maps, and the VIPs that the source wants.
struct Node {
    host: Host,
    segment: Segment,
    view: NetView,
    stale: Stale,
    source: Source,
    attached: BTreeSet<u32>,
    entries: BTreeMap<VipKey, VipEntry>,
    records: BTreeMap<u32, Yield>,
    wanted: Vec<u16>,
    millis: u64,
}

impl Node {
    fn new(wanted: &[u16]) -> Self {
        let settings = super::super::segment::Settings {
            announce: announce::Settings { refresh: Duration::from_mins(1), rate: 1_000 },
            probe: probing::Settings::DEFAULT,
            conflicts: conflict::Settings::DEFAULT,
        };
        let mut eth0 = Interface { mac: HOLDER, ..Interface::sample(ETH0, "eth0") };
        eth0.addresses.push("10.0.0.1/16".parse().expect("an address"));
        let prefix = "10.0.0.0/16".parse().expect("a subnet");
        let route = ConnectedRoute { prefix, interface: ETH0, metric: 0 };
        let view = NetView { interfaces: [(ETH0, eth0)].into(), routes: vec![route], ..NetView::default() };
        let zero = Monotonic::from_nanos(0);
        Self {
            host: Host::start(0, zero),
            segment: Segment::start(&settings, 1, zero),
            view,
            stale: Stale::default(),
            source: Source { is_known: true, may_begin: true, vital: None },
            attached: [ETH0].into(),
            entries: BTreeMap::new(),
            records: BTreeMap::new(),
            wanted: wanted.to_vec(),
            millis: 0,
        }
    }

    fn now(&self) -> Monotonic {
        Monotonic::from_nanos(self.millis * 1_000_000)
    }

    fn place(&self, placed: &BTreeMap<IpAddr, u32>, of: Option<&BTreeSet<IpAddr>>) -> Placement {
        let is_one = |vip: &IpAddr| of.is_none_or(|of| of.contains(vip));
        let vips: Vec<_> = self.wanted.iter().map(|host| key(*host).addr).filter(is_one).collect();
        let wanted = vips.into_iter().map(|address| Wanted {
            address,
            interface: None,
            vlan: None,
            bind: None,
            entry: Entry::Held,
            is_guarded: false,
        });
        let is_there = |key: &VipKey| self.entries.contains_key(key);
        placement::place(&Selection::default(), wanted, &self.view, placed, &is_there, MOST)
    }

    /// Carries out a round in which the writes of `failing` fail. Returns the VIPs that were written.
    fn reconcile(&mut self, reclaim: bool, failing: &[u16]) -> (Vec<u8>, End) {
        let placed = plan::placed(&self.entries);
        let placement = self.place(&placed, None);
        let observed = Observed {
            entries: self.entries.clone(),
            yields: self.records.clone(),
            own_macs: [(ETH0, HOLDER)].into(),
            max_slots: MOST,
            ..Observed::default()
        };
        let yields = self.records.len() as u64;
        let read = Read { yields, observed, placement, placed, attached: &self.attached };
        let context = Context {
            view: &self.view,
            peers: &[PEER],
            stale: &self.stale,
            authority: &self.source,
            now: self.now(),
        };
        let listed = self.wanted.iter().map(|host| key(*host).addr);
        let (mut round, _) = self.host.plan(&mut self.segment, read, (listed, reclaim), &context);
        let written = apply(&mut self.entries, &mut self.host, round.actions(), failing);
        for vip in failing {
            round.failed(key(*vip).addr, failure(Left::Silent));
        }
        let (is_known, now) = (self.source.is_known, self.now());
        (written, self.host.end(round, BTreeSet::new(), (&mut self.stale, is_known), now))
    }

    /// The same for some VIPs.
    fn reconcile_some(&mut self, vips: &[u16], failing: &[u16]) -> (Vec<u8>, Changes) {
        let vips: BTreeSet<IpAddr> = vips.iter().map(|host| key(*host).addr).collect();
        let is_one = |(key, _): &(&VipKey, &VipEntry)| vips.contains(&key.addr);
        let entries: BTreeMap<_, _> =
            self.entries.iter().filter(is_one).map(|(key, entry)| (*key, *entry)).collect();
        let placement = self.place(&plan::placed(&entries), Some(&vips));
        let record = |slot| Ok::<_, Infallible>(self.records.get(&slot).copied().unwrap_or_default());
        let record = (!self.records.is_empty()).then_some(record);
        let context = Context {
            view: &self.view,
            peers: &[PEER],
            stale: &self.stale,
            authority: &self.source,
            now: Monotonic::from_nanos(self.millis * 1_000_000),
        };
        let what = (entries, placement);
        let round = self.host.plan_some(&vips, what, (&self.attached, MOST), record, &context);
        let mut round = round.expect("invariant: reading cannot fail");
        let written = apply(&mut self.entries, &mut self.host, round.actions(), failing);
        for vip in failing {
            round.failed(key(*vip).addr, failure(Left::Silent));
        }
        let now = self.now();
        (written, self.host.end_some(&vips, Ok(round), &mut self.stale, now))
    }

    fn is_settled(&self) -> bool {
        let context = Context {
            view: &self.view,
            peers: &[PEER],
            stale: &self.stale,
            authority: &self.source,
            now: self.now(),
        };
        let place = |placed: &BTreeMap<IpAddr, u32>| self.place(placed, None);
        self.host.is_settled(&self.segment, place, (&self.attached, |_: &[u32]| true), &context)
    }

    fn role(&self, host: u16) -> Option<(Role, MacAddr)> {
        self.entries.get(&key(host)).map(|entry| (entry.role, MacAddr(entry.mac)))
    }

    /// Adds an entry, as an earlier agent has left it.
    fn has(&mut self, host: u16, role: Role, mac: MacAddr) {
        let slot = u32::try_from(self.entries.len()).expect("invariant: few");
        self.entries.insert(key(host), VipEntry { mac: mac.0, generation: 7, role, slot, until_ns: 0 });
    }

    /// Has the program yield a VIP to the peer.
    fn yields(&mut self, host: u16) {
        let slot = self.entries[&key(host)].slot;
        self.records.insert(slot, Yield { mac: PEER.0, generation: 7 });
    }
}

fn failure(left: Left) -> Failure {
    Failure { left, interface: Some("eth0".to_owned()), error: "no memory".to_owned() }
}

fn apply(
    entries: &mut BTreeMap<VipKey, VipEntry>,
    host: &mut Host,
    actions: &[Action],
    failing: &[u16],
) -> Vec<u8> {
    let mut written = Vec::new();
    for action in actions {
        let Some(of) = action.key().filter(|of| !failing.iter().any(|host| key(*host) == *of)) else {
            continue;
        };
        let before = entries.get(&of).copied();
        if let Action::PutEntry { entry, .. } = action {
            entries.insert(of, *entry);
        } else {
            entries.remove(&of);
        }
        host.on_entry(before.as_ref(), entries.get(&of));
        written.push(last_octet(of.addr));
    }
    written
}

const HELD: Option<(Role, MacAddr)> = Some((Role::Held, HOLDER));

#[test]
fn a_complete_round_is_settled_until_something_concerns_it() {
    type Change = fn(&mut Node);
    let rows: [(&str, Change, bool); 6] = [
        ("nothing changes", |_| {}, true),
        ("an interface comes that has no VIP", |node| _ = node.view.interfaces.insert(9, loopback()), true),
        ("the subnet moves", |node| node.view.interfaces.get_mut(&ETH0).expect("eth0").mac = PEER, false),
        ("the program is detached", |node| node.attached.clear(), false),
        ("another VIP is wanted", |node| node.wanted.push(11), false),
        ("a caller unsettles it", |node| node.host.unsettle(), false),
    ];
    for (what, change, stays) in rows {
        let mut node = Node::new(&[10]);
        assert!(!node.is_settled(), "before the first round");
        assert_eq!(node.reconcile(false, &[]).0, [10]);
        assert!(node.is_settled());
        change(&mut node);
        assert_eq!(node.is_settled(), stays, "{what}");
    }
}

fn loopback() -> Interface {
    Interface { loopback: true, ethernet: false, ..Interface::sample(9, "lo") }
}

#[test]
fn a_failed_write_is_tried_again_within_seconds_and_its_yield_stays_unsettled() {
    let mut node = Node::new(&[10, 11]);
    node.has(10, Role::Held, HOLDER);
    node.yields(10);
    let (written, end) = node.reconcile(true, &[10]);
    assert_eq!((written, end.changes.begun), (vec![11], vec![key(10).addr]));
    assert_eq!((node.host.yields_settled(), node.is_settled()), (0, false));
    assert_eq!(node.host.next_deadline(), Monotonic::from_nanos(5_000_000_000));

    node.millis = 5_000;
    assert!(node.host.is_due(node.now()));
    let (written, end) = node.reconcile(true, &[]);
    assert_eq!((written, end.changes.over), (vec![10], vec![key(10).addr]));
    assert_eq!((node.host.yields_settled(), node.is_settled()), (1, true));
}

#[test]
fn other_failures_unsettle_and_are_problems_but_no_entry_is_stale() {
    let mut node = Node::new(&[10]);
    let placed = BTreeMap::new();
    let (placement, observed) =
        (node.place(&placed, None), Observed { max_slots: MOST, ..Observed::default() });
    let read = Read { yields: 3, observed, placement, placed, attached: &node.attached };
    let context = Context {
        view: &node.view,
        peers: &[],
        stale: &node.stale,
        authority: &node.source,
        now: Monotonic::from_nanos(0),
    };
    let (round, _) = node.host.plan(&mut node.segment, read, ([].into_iter(), false), &context);
    let failures = BTreeSet::from(["eth0 could not be attached".to_owned()]);
    let end = node.host.end(round, failures.clone(), (&mut node.stale, true), Monotonic::from_nanos(0));
    assert_eq!((end.problems, end.changes.begun), (failures, vec![]));
    assert_eq!((node.host.yields_settled(), node.is_settled()), (3, false), "every entry is as it should be");
}

#[test]
fn nothing_pinned_is_removed_before_the_source_is_known() {
    let mut node = Node::new(&[]);
    node.has(10, Role::Held, HOLDER);
    node.source.is_known = false;
    assert_eq!(node.reconcile(false, &[]).0, [0; 0]);
    assert_eq!(node.role(10), HELD);
    node.source.is_known = true;
    assert_eq!(node.reconcile(false, &[]).0, [10]);
    assert_eq!(node.role(10), None);
}

#[test]
fn what_leads_to_the_api_server_is_never_guarded_while_the_node_may_be_behind() {
    let vital = |host| Vital { api_servers: [key(host).addr].into(), next_hops: BTreeSet::new() };
    for is_known in [false, true] {
        let mut node = Node::new(&[]);
        node.has(10, Role::Foreign, PEER);
        node.has(11, Role::Foreign, PEER);
        node.source = Source { is_known, may_begin: true, vital: Some(vital(10)) };
        node.reconcile(false, &[]);
        assert_eq!((node.role(10), node.role(11).is_some()), (None, !is_known), "known: {is_known}");
    }
}

#[test]
fn no_entry_begins_to_answer_while_the_fence_has_lapsed() {
    let mut node = Node::new(&[10, 11]);
    node.has(10, Role::Held, HOLDER);
    node.source.may_begin = false;
    let (written, end) = node.reconcile(false, &[]);
    assert_eq!((written, node.role(10), node.role(11)), (vec![], HELD, None));
    assert_eq!((end.changes.begun, node.is_settled()), (vec![key(11).addr], false));
    assert_eq!(node.stale.left(key(11).addr), Some(Left::Silent));
    assert_eq!(node.reconcile_some(&[11], &[]).0, [0; 0]);

    node.source.may_begin = true;
    let (written, changes) = node.reconcile_some(&[11], &[]);
    assert_eq!((written, changes.over, node.role(11)), (vec![11], vec![key(11).addr], HELD));
}

#[test]
fn a_yielded_vip_is_remembered_while_it_is_wanted_until_it_is_taken_back() {
    let mut node = Node::new(&[10, 11]);
    for host in [10, 11] {
        node.has(host, Role::Held, HOLDER);
        node.yields(host);
    }
    node.wanted = vec![10];
    node.reconcile(false, &[]);
    assert_eq!(node.host.yielded().keys().copied().collect::<Vec<_>>(), [key(10).addr], "11 is not wanted");
    assert_eq!(node.host.yields_settled(), 2);

    node.host.take_back([key(10).addr]);
    let (written, _) = node.reconcile_some(&[10], &[]);
    assert_eq!((written, node.role(10)), (vec![10], HELD));
    node.host.taken_back();
    assert!(node.host.yielded().is_empty() && node.host.taking_back().is_empty());
}

#[test]
fn a_reload_takes_every_yielded_vip_back() {
    let mut node = Node::new(&[10]);
    node.has(10, Role::Held, HOLDER);
    node.yields(10);
    node.reconcile(false, &[]);
    assert_eq!(node.host.yielded().len(), 1);
    let (written, _) = node.reconcile(true, &[]);
    assert_eq!((written, node.role(10), node.host.yielded().len()), (vec![10], HELD, 0));
}

#[test]
fn a_round_for_some_vips_uses_no_slot_of_the_others_and_says_which_vip_has_none() {
    let mut node = Node::new(&[10, 11, 12, 13]);
    assert_eq!(node.reconcile(false, &[]).0, [10, 11, 12, 13]);
    let slots = |node: &Node| node.entries.values().map(|entry| entry.slot).collect::<BTreeSet<_>>();
    assert_eq!(slots(&node).len(), 4, "the maps are full");

    node.wanted.push(14);
    let (written, changes) = node.reconcile_some(&[14], &[]);
    assert_eq!((written, changes.begun), (vec![], vec![key(14).addr]));
    let failure = node.stale.failure(key(14).addr).expect("it has no entry");
    assert!(failure.error.contains("--max-vips"), "{}", failure.error);

    node.wanted.retain(|host| *host != 10);
    let (written, changes) = node.reconcile_some(&[10, 14], &[]);
    assert_eq!((written, changes.over), (vec![10, 14], vec![key(14).addr]));
    assert_eq!((slots(&node).len(), node.role(14)), (4, HELD));
}

#[test]
fn a_round_that_could_not_be_planned_leaves_every_vip_of_it_stale() {
    let mut node = Node::new(&[10]);
    let vips = BTreeSet::from([key(10).addr, key(11).addr]);
    let changes =
        node.host.end_some(&vips, Err("no map".to_owned()), &mut node.stale, Monotonic::from_nanos(0));
    assert_eq!(changes.begun, [key(10).addr, key(11).addr]);
    assert_eq!(node.stale.left(key(10).addr), Some(Left::Answering), "its entry could not be read");
    assert_eq!(node.host.next_deadline(), Monotonic::from_nanos(5_000_000_000));
}

#[test]
fn of_two_failures_of_a_vip_the_worse_one_counts() {
    let mut unchanged = BTreeMap::new();
    for left in [Left::Silent, Left::Answering, Left::Silent] {
        round::failed(&mut unchanged, key(10).addr, failure(left));
    }
    assert_eq!(unchanged[&key(10).addr].left, Left::Answering);
}

#[test]
fn a_full_reading_is_due_every_thirty_seconds_and_sooner_when_asked_for() {
    let mut node = Node::new(&[]);
    let at = |seconds: u64| Monotonic::from_nanos(seconds * 1_000_000_000);
    assert!(!node.host.is_due(at(29)));
    assert!(node.host.is_due(at(30)) && !node.host.is_due(at(59)));
    node.host.verify_by(at(40));
    node.host.verify_by(at(50));
    assert_eq!(node.host.next_deadline(), at(40));
}
