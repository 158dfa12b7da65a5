mod yielding;

use ipnet::IpNet;
use vipward_common::EventKind;

use super::{
    super::{
        fixtures::{ETH0, ETH1, PEER, SETTINGS, Site, at, entry, event_about},
        segment::{Input, Note},
    },
    *,
};
use crate::{
    base::{
        pattern::InterfaceName,
        samples::{HOLDER, key, last_octet, unknown_host},
    },
    host::{
        interfaces::Selection,
        net::{Interface, Vital},
        placement::{self, Entry, Wanted},
        plan::Action,
    },
};

/// Slots in the maps.
const MOST: u32 = 4;

/// A host with the program on one interface, the entries in its maps, and the VIPs that the source wants.
struct Node {
    host: Host,
    segment: Segment,
    site: Site,
    attached: BTreeSet<u32>,
    is_well_attached: bool,
    entries: BTreeMap<VipKey, VipEntry>,
    records: BTreeMap<u32, Yield>,
    wanted: Vec<u16>,
    wanted_entry: Entry,
    bind: Option<InterfaceName>,
    /// The failures in full rounds that are not about entries.
    failures: BTreeSet<String>,
    /// The effects of the last full round.
    effects: Vec<Effect>,
}

impl Node {
    fn new(wanted: &[u16]) -> Self {
        let mut site = Site::new();
        site.source.must_be_free = false;
        Self {
            host: Host::start(0, at(0)),
            segment: Segment::start(&SETTINGS, 1, at(0)),
            site,
            attached: [ETH0].into(),
            is_well_attached: true,
            entries: BTreeMap::new(),
            records: BTreeMap::new(),
            wanted: wanted.to_vec(),
            wanted_entry: Entry::Held,
            bind: None,
            failures: BTreeSet::new(),
            effects: Vec::new(),
        }
    }

    fn place(&self, placed: &BTreeMap<IpAddr, u32>, of: Option<&BTreeSet<IpAddr>>) -> Placement {
        let is_one = |vip: &IpAddr| of.is_none_or(|of| of.contains(vip));
        let vips: Vec<_> = self.wanted.iter().map(|host| key(*host).addr).filter(is_one).collect();
        let wanted = vips.into_iter().map(|address| Wanted {
            address,
            interface: None,
            vlan: None,
            bind: self.bind.as_ref(),
            entry: self.wanted_entry,
            is_guarded: false,
        });
        let is_there = |key: &VipKey| self.entries.contains_key(key);
        placement::place(&Selection::default(), wanted, &self.site.view, placed, &is_there, MOST)
    }

    /// Carries out a round in which the writes of `failing` fail. Returns the VIPs that were written.
    fn reconcile(&mut self, reclaim: bool, failing: &[u16]) -> (Vec<u8>, End) {
        self.host.on_read(&self.entries);
        let placed = plan::placed(&self.entries);
        let placement = self.place(&placed, None);
        let slots = Host::slots_of(&self.entries, self.wanted.len(), MOST);
        let record = |slot: u32| Some((slot, *self.records.get(&slot)?));
        let observed = Observed {
            entries: self.entries.clone(),
            yields: slots.into_iter().filter_map(record).collect(),
            own_macs: [(ETH0, HOLDER)].into(),
            max_slots: MOST,
            ..Observed::default()
        };
        let yields = self.records.len() as u64;
        let read = Read { yields, observed, placement, placed, attached: &self.attached };
        let listed = self.wanted.iter().map(|host| key(*host).addr);
        let (mut round, effects) =
            self.host.plan(&mut self.segment, read, (listed, reclaim), &self.site.context());
        self.effects = effects;
        let written = self.apply(round.actions(), failing);
        for vip in failing {
            round.failed(key(*vip).addr, failure(Left::Silent));
        }
        let now = self.site.now();
        (written, self.host.end(round, self.failures.clone(), &mut self.site.stale, now))
    }

    /// The same for some VIPs.
    fn reconcile_some(&mut self, vips: &[u16], failing: &[u16]) -> (Vec<u8>, Changes) {
        let vips: BTreeSet<IpAddr> = vips.iter().map(|host| key(*host).addr).collect();
        let is_one = |(key, _): &(&VipKey, &VipEntry)| vips.contains(&key.addr);
        let entries: BTreeMap<_, _> =
            self.entries.iter().filter(is_one).map(|(key, entry)| (*key, *entry)).collect();
        let placement = self.place(&plan::placed(&entries), Some(&vips));
        let slots = self.host.slots_of_some(&entries, placement.desired.entries.len(), MOST);
        let record = |slot: u32| Some((slot, *self.records.get(&slot)?));
        let yields = slots.into_iter().filter_map(record).collect();
        let what = (entries, placement);
        let mut round =
            self.host.plan_some(&vips, what, (&self.attached, MOST), yields, &self.site.context());
        let written = self.apply(round.actions(), failing);
        for vip in failing {
            round.failed(key(*vip).addr, failure(Left::Silent));
        }
        let now = self.site.now();
        (written, self.host.end_some(&vips, Ok(round), &mut self.site.stale, now))
    }

    fn apply(&mut self, actions: &[Action], failing: &[u16]) -> Vec<u8> {
        let mut written = Vec::new();
        for action in actions {
            if let Action::AddBind { vip, .. } = action {
                self.site.interface(ETH1).addresses.push(IpNet::from(*vip));
            }
            let Some(of) = action.key().filter(|of| !failing.iter().any(|host| key(*host) == *of)) else {
                continue;
            };
            let before = self.entries.get(&of).copied();
            if let Action::PutEntry { entry, .. } = action {
                self.entries.insert(of, *entry);
            } else {
                self.entries.remove(&of);
            }
            self.host.on_entry(before.as_ref(), self.entries.get(&of));
            written.push(last_octet(of.addr));
        }
        written
    }

    fn is_settled(&self) -> bool {
        let place = |placed: &BTreeMap<IpAddr, u32>| self.place(placed, None);
        let attached = (&self.attached, |_: &[u32]| self.is_well_attached);
        self.host.is_settled(&self.segment, place, attached, &self.site.context())
    }

    fn on(&mut self, input: Input<'_>) {
        self.segment.on(input, &self.site.context());
    }

    fn role(&self, host: u16) -> Option<(Role, MacAddr)> {
        self.entries.get(&key(host)).map(|entry| (entry.role, MacAddr(entry.mac)))
    }

    /// Adds an entry, as an earlier agent has left it.
    fn has(&mut self, host: u16, role: Role, mac: MacAddr) {
        let slot = u32::try_from(self.entries.len()).expect("invariant: few");
        self.entries.insert(key(host), VipEntry { slot, ..entry(role, mac, 7) });
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

const HELD: Option<(Role, MacAddr)> = Some((Role::Held, HOLDER));
const SILENT: Option<(Role, MacAddr)> = Some((Role::Foreign, MacAddr::ZERO));

/// Returns the interface that the VIPs are bound on.
fn eth1() -> InterfaceName {
    InterfaceName::parse("eth1").expect("a name")
}

#[test]
fn a_complete_round_is_settled_until_something_concerns_it() {
    type Change = fn(&mut Node);
    let rows: [(&str, Change, bool); 10] = [
        ("nothing changes", |_| {}, true),
        (
            "an interface comes that has no VIP",
            |node| _ = node.site.view.interfaces.insert(9, loopback()),
            true,
        ),
        ("the MAC changes", |node| node.site.interface(ETH0).mac = PEER, false),
        ("the program is detached", |node| node.attached.clear(), false),
        ("the program does not run as it should", |node| node.is_well_attached = false, false),
        ("its route moves to another interface", |node| node.site.view.routes[0].interface = ETH1, false),
        ("its route goes", |node| node.site.view.routes.clear(), false),
        ("a bound address is gone", |node| node.site.interface(ETH1).addresses.clear(), false),
        ("another VIP is wanted", |node| node.wanted.push(11), false),
        ("a caller unsettles it", |node| node.host.unsettle(), false),
    ];
    for (what, change, stays) in rows {
        let mut node = Node::new(&[10]);
        (node.attached, node.bind) = ([ETH0, ETH1].into(), Some(eth1()));
        assert!(!node.is_settled(), "before the first round");
        assert_eq!(node.reconcile(false, &[]).0, [10, 10]);
        assert!(node.is_settled());
        change(&mut node);
        assert_eq!(node.is_settled(), stays, "{what}");
    }
}

fn loopback() -> Interface {
    Interface { loopback: true, ethernet: false, ..Interface::sample(9, "lo") }
}

#[test]
fn a_vip_is_bound_where_it_is_held() {
    type Change = fn(&mut Node);
    let rows: [(&str, Change, bool); 4] = [
        ("it is held", |_| {}, true),
        ("it is guarded", |node| node.wanted_entry = Entry::Foreign { mac: PEER }, false),
        ("its interface has no program", |node| node.attached = [ETH1].into(), false),
        ("its address may be in use", |node| node.site.source.must_be_free = true, false),
    ];
    for (what, change, is_bound) in rows {
        let mut node = Node::new(&[10]);
        node.bind = Some(eth1());
        change(&mut node);
        node.reconcile(false, &[]);
        assert_eq!(!node.site.interface(ETH1).addresses.is_empty(), is_bound, "{what}");
        assert!(node.is_settled(), "{what}");
    }
}

#[test]
fn a_vip_that_waits_for_its_address_is_silent_and_settled_until_it_need_not_wait() {
    let mut node = Node::new(&[10]);
    node.site.source.must_be_free = true;
    node.reconcile(false, &[]);
    assert_eq!((node.role(10), node.is_settled()), (SILENT, true));
    node.on(Input::Written);
    node.on(Input::Program(&event_about(10, EventKind::Sighted, unknown_host(1))));
    node.site.source.must_be_free = false;
    node.reconcile(false, &[]);
    assert_eq!(node.role(10), HELD);
    assert!(matches!(*node.effects, [Effect::Report(_)]), "the conflict ends: {:?}", node.effects);
}

#[test]
fn a_vacant_vip_is_audible_where_the_kernel_has_its_address() {
    for (has_address, is_vacant) in [(false, true), (true, false), (true, true)] {
        let mut node = Node::new(&[10]);
        node.wanted_entry = Entry::Foreign { mac: MacAddr::ZERO };
        node.site.source.is_vacant = is_vacant;
        node.site.interface(ETH0).addresses.extend(has_address.then(|| IpNet::from(key(10).addr)));
        node.reconcile(false, &[]);
        let expected = if has_address && is_vacant { None } else { SILENT };
        assert_eq!((node.role(10), node.is_settled()), (expected, true), "{has_address}, {is_vacant}");
    }
}

#[test]
fn a_failed_write_is_tried_again_within_seconds_and_its_yield_stays_unsettled() {
    let mut node = Node::new(&[10, 11]);
    node.has(10, Role::Held, HOLDER);
    node.yields(10);
    let (written, end) = node.reconcile(true, &[10]);
    assert_eq!((written, end.changes.begun), (vec![11], vec![key(10).addr]));
    assert_eq!((node.host.yields_settled(), node.is_settled()), (0, false));
    assert_eq!(node.host.next_deadline(), at(5_000));

    node.site.millis = 5_000;
    assert!(node.host.begin_if_due(node.site.now()));
    let (written, end) = node.reconcile(true, &[]);
    assert_eq!((written, end.changes.over), (vec![10], vec![key(10).addr]));
    assert_eq!((node.host.yields_settled(), node.is_settled()), (1, true));
}

#[test]
fn other_failures_unsettle_and_are_problems_but_no_entry_is_stale() {
    let mut node = Node::new(&[10]);
    node.has(10, Role::Held, HOLDER);
    node.yields(10);
    node.failures = ["eth0 could not be attached".to_owned()].into();
    let (_, end) = node.reconcile(false, &[]);
    assert_eq!((end.problems, end.changes.begun), (node.failures.clone(), vec![]));
    assert_eq!((node.host.yields_settled(), node.is_settled()), (1, false), "every entry is as it should be");
}

#[test]
fn a_failed_write_stays_one_while_the_source_is_unknown() {
    let mut node = Node::new(&[10]);
    node.reconcile(false, &[10]);
    for is_known in [false, true] {
        node.site.source.is_known = is_known;
        let (_, end) = node.reconcile(false, &[]);
        let is_stale = node.site.stale.left(key(10).addr).is_some();
        assert_eq!((is_stale, end.changes.over.len()), (!is_known, usize::from(is_known)));
    }
}

#[test]
fn nothing_pinned_is_removed_before_the_source_is_known() {
    let mut node = Node::new(&[]);
    node.has(10, Role::Held, HOLDER);
    node.site.source.is_known = false;
    assert_eq!(node.reconcile(false, &[]).0, [0; 0]);
    assert_eq!(node.role(10), HELD);
    node.site.source.is_known = true;
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
        (node.site.source.is_known, node.site.source.vital) = (is_known, Some(vital(10)));
        node.reconcile(false, &[]);
        assert_eq!((node.role(10), node.role(11).is_some()), (None, !is_known), "known: {is_known}");
    }
}

#[test]
fn no_entry_begins_to_answer_while_the_lease_deadline_has_passed() {
    let mut node = Node::new(&[10, 11, 12]);
    node.has(10, Role::Held, HOLDER);
    node.has(12, Role::Held, HOLDER);
    node.yields(12);
    node.site.source.may_begin = false;
    let (written, end) = node.reconcile(false, &[]);
    assert_eq!((written, node.role(10), node.role(11)), (vec![12], HELD, None));
    assert_eq!((end.changes.begun, node.is_settled()), (vec![key(11).addr], false));
    assert_eq!(node.host.yields_settled(), 1, "the yield is written");
    assert_eq!(node.site.stale.left(key(11).addr), Some(Left::Silent));
    assert_eq!(node.reconcile_some(&[11], &[]).0, [0; 0]);

    node.site.source.may_begin = true;
    let (written, changes) = node.reconcile_some(&[11], &[]);
    assert_eq!((written, changes.over, node.role(11)), (vec![11], vec![key(11).addr], HELD));
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
    let failure = node.site.stale.failure(key(14).addr).expect("it has no entry");
    assert!(failure.error.contains("--max-vips"), "{}", failure.error);

    node.wanted.retain(|host| *host != 10);
    let (written, changes) = node.reconcile_some(&[10, 14], &[]);
    assert_eq!((written, changes.over), (vec![10, 14], vec![key(14).addr]));
    assert_eq!((slots(&node).len(), node.role(14)), (4, HELD));
}

#[test]
fn a_round_for_some_vips_uses_no_slot_of_what_was_read_before_a_full_round_failed() {
    let mut node = Node::new(&[10, 11]);
    node.has(10, Role::Held, HOLDER);
    node.host.on_read(&node.entries);
    assert_eq!(node.reconcile_some(&[11], &[]).0, [11]);
    assert_eq!((node.entries[&key(10)].slot, node.entries[&key(11)].slot), (0, 1));
}

#[test]
fn a_round_that_could_not_be_planned_leaves_every_vip_of_it_stale() {
    let mut node = Node::new(&[10]);
    let vips = BTreeSet::from([key(10).addr, key(11).addr]);
    let changes = node.host.end_some(&vips, Err("no map".to_owned()), &mut node.site.stale, at(0));
    assert_eq!(changes.begun, [key(10).addr, key(11).addr]);
    assert_eq!(node.site.stale.left(key(10).addr), Some(Left::Answering), "its entry could not be read");
    assert_eq!(node.host.next_deadline(), at(5_000));
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
    let at = |seconds: u64| at(seconds * 1_000);
    assert!(!node.host.begin_if_due(at(29)));
    assert!(node.host.begin_if_due(at(30)) && !node.host.begin_if_due(at(59)));
    node.host.verify_by(at(40));
    node.host.verify_by(at(50));
    assert_eq!(node.host.next_deadline(), at(40));
}
