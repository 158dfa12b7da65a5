use proptest::prelude::*;

use super::*;
use crate::base::samples::last_octet;

const OWN: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const NEW: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
const PEER: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);
const HELD: DesiredEntry = DesiredEntry::new(Role::Held, OWN);
const SHADOW: DesiredEntry = DesiredEntry::new(Role::Foreign, MacAddr::ZERO);

fn key(ifindex: u32, host: u8) -> VipKey {
    VipKey::new(ifindex, [192, 0, 2, host])
}

fn entry(role: Role, mac: MacAddr, slot: u32, generation: u16) -> VipEntry {
    VipEntry { mac: mac.0, generation, role, slot, until_ns: 0 }
}

fn observed<const N: usize>(entries: [(VipKey, VipEntry); N]) -> Observed {
    Observed { entries: entries.into(), own_macs: [(1, OWN)].into(), max_slots: 8, ..Observed::default() }
}

fn desired<const N: usize>(entries: [(VipKey, DesiredEntry); N]) -> Desired {
    Desired { entries: entries.into(), own_macs: [(1, OWN)].into(), ..Desired::default() }
}

fn yielded(mut observed: Observed, slot: u32, generation: u16) -> Observed {
    observed.yields.insert(slot, Yield { mac: PEER.0, generation });
    observed
}

fn only_put(actions: &[Action]) -> (VipEntry, Cause, bool) {
    match actions {
        [Action::PutEntry { entry, cause, reset_counters, .. }] => (*entry, *cause, *reset_counters),
        other => panic!("expected one put, got {other:?}"),
    }
}

#[test]
fn a_new_entry_gets_a_slot_and_a_generation_of_its_own() {
    use Cause::{Configured, Repaired};
    let at = key(1, 10);
    let guard = DesiredEntry::new(Role::Foreign, PEER);
    let absent = || observed([]);
    let beyond = observed([(at, entry(Role::Held, OWN, 8, 7))]);
    let table = [
        ("absent, to be held", absent(), HELD, 1, Configured),
        ("absent, to be guarded", absent(), guard, 1, Configured),
        ("absent, held elsewhere", absent(), SHADOW, 1, Configured),
        ("a slot whose last user yielded", yielded(absent(), 0, 7), HELD, 8, Configured),
        ("the last generation there is", yielded(absent(), 0, u16::MAX), HELD, 1, Configured),
        ("a slot that does not exist", beyond, HELD, 1, Repaired),
    ];
    for (what, observed, wanted, generation, cause) in table {
        let expected = entry(wanted.role, wanted.mac, 0, generation);
        let actions = plan(&desired([(at, wanted)]), &observed, false);
        assert_eq!(only_put(&actions), (expected, cause, true), "{what}");
    }
}

#[test]
fn an_entry_that_is_there_keeps_its_slot_and_changes_for_one_reason() {
    use Cause::{Configured, MacChanged, Yielded};
    use Role::{Foreign, Handover, Held};
    let at = key(1, 10);
    let guard = DesiredEntry::new(Foreign, PEER);
    let moved = DesiredEntry::new(Held, NEW);
    let with = |role, mac| observed([(at, entry(role, mac, 3, 7))]);
    let held = || with(Held, OWN);
    let foreign = || with(Foreign, PEER);
    let table = [
        ("foreign, to be held", foreign(), HELD, HELD, 8, Configured),
        ("the next generation is a recorded yield's", yielded(foreign(), 3, 8), HELD, HELD, 9, Configured),
        ("a new MAC keeps the generation", held(), moved, moved, 7, MacChanged),
        ("held, now elsewhere", held(), SHADOW, SHADOW, 7, Configured),
        ("held, now guarded", held(), guard, guard, 7, Configured),
        ("yielded by the program", yielded(held(), 3, 7), HELD, guard, 7, Yielded),
        ("an earlier generation's yield, and a new MAC", yielded(held(), 3, 6), moved, moved, 7, MacChanged),
        ("handed over, to be held again", with(Handover, PEER), HELD, HELD, 8, Configured),
    ];
    for (what, observed, wanted, becomes, generation, cause) in table {
        let expected = entry(becomes.role, becomes.mac, 3, generation);
        let actions = plan(&desired([(at, wanted)]), &observed, false);
        assert_eq!(only_put(&actions), (expected, cause, false), "{what}");
    }
}

#[test]
fn nothing_is_done_when_nothing_differs() {
    let at = key(1, 10);
    let settled = yielded(observed([(at, entry(Role::Foreign, PEER, 3, 7))]), 3, 7);
    let table = [
        ("held", observed([(at, entry(Role::Held, OWN, 3, 7))]), false),
        ("held, and an operator reclaims", observed([(at, entry(Role::Held, OWN, 3, 7))]), true),
        ("yielded and rewritten", settled, false),
    ];
    for (what, observed, reclaim) in table {
        assert_eq!(plan(&desired([(at, HELD)]), &observed, reclaim), [], "{what}");
    }
}

#[test]
fn a_yield_ends_when_an_operator_reclaims() {
    let at = key(1, 10);
    for (what, role) in [("rewritten", Role::Foreign), ("not rewritten yet", Role::Held)] {
        let observed = yielded(observed([(at, entry(role, PEER, 3, 7))]), 3, 7);
        let expected = (entry(Role::Held, OWN, 3, 8), Cause::Reclaimed, false);
        assert_eq!(only_put(&plan(&desired([(at, HELD)]), &observed, true)), expected, "{what}");
    }
}

#[test]
fn a_yielded_vip_is_not_taken_on_another_interface_of_this_node() {
    let (here, there) = (key(1, 10), key(2, 10));
    let observed = yielded(observed([(here, entry(Role::Held, OWN, 3, 7))]), 3, 7);
    let mut wanted = desired([(here, SHADOW), (there, HELD)]);
    wanted.own_macs.insert(2, OWN);
    let roles = |reclaim| {
        let mut roles = BTreeMap::new();
        for action in plan(&wanted, &observed, reclaim) {
            if let Action::PutEntry { key, entry, .. } = action {
                roles.insert(key, entry.role);
            }
        }
        roles
    };
    assert_eq!(roles(false), [(here, Role::Foreign), (there, Role::Foreign)].into(), "the yield is in force");
    assert_eq!(roles(true), [(here, Role::Foreign), (there, Role::Held)].into(), "reclaimed");
}

#[test]
fn held_vips_get_the_slots_with_counters_first() {
    let guard = DesiredEntry::new(Role::Foreign, PEER);
    let wanted = desired([(key(1, 1), SHADOW), (key(1, 2), guard), (key(1, 3), HELD)]);
    let slots: BTreeMap<_, _> = plan(&wanted, &observed([]), false)
        .into_iter()
        .filter_map(|action| match action {
            Action::PutEntry { key, entry, .. } => Some((last_octet(key.addr), entry.slot)),
            _ => None,
        })
        .collect();
    assert_eq!(slots, [(3, 0), (2, 1), (1, 2)].into());
}

#[test]
fn a_slot_that_is_given_on_gets_a_generation_that_its_last_entry_did_not_have() {
    let observed = observed([(key(1, 10), entry(Role::Held, OWN, 0, 7))]);
    let actions = plan(&desired([(key(1, 11), HELD)]), &observed, false);
    let expected = [
        Action::RemoveEntry { key: key(1, 10), cause: Cause::NotConfigured },
        Action::PutEntry {
            key: key(1, 11),
            entry: entry(Role::Held, OWN, 0, 8),
            reset_counters: true,
            cause: Cause::Configured,
        },
    ];
    assert_eq!(actions, expected);
}

#[test]
fn of_two_entries_with_one_slot_the_second_gets_another() {
    let observed =
        observed([(key(1, 10), entry(Role::Held, OWN, 0, 7)), (key(1, 11), entry(Role::Held, OWN, 0, 7))]);
    let wanted = desired([(key(1, 10), HELD), (key(1, 11), HELD)]);
    let expected = (entry(Role::Held, OWN, 1, 1), Cause::Repaired, true);
    assert_eq!(only_put(&plan(&wanted, &observed, false)), expected);
}

#[test]
fn what_no_slot_is_left_for_is_not_written_and_held_vips_come_first() {
    let observed = Observed { max_slots: 1, ..observed([]) };
    let wanted = desired([(key(1, 10), SHADOW), (key(1, 11), HELD)]);
    let expected = (entry(Role::Held, OWN, 0, 1), Cause::Configured, true);
    assert_eq!(only_put(&plan(&wanted, &observed, false)), expected);
}

#[test]
fn the_order_is_safe() {
    let lo = |host| ("lo".to_owned(), IpAddr::from([192, 0, 2, host]));
    let mut before =
        observed([(key(1, 10), entry(Role::Held, OWN, 0, 1)), (key(1, 11), entry(Role::Held, OWN, 1, 1))]);
    before.peers.insert((1, PEER));
    before.binds.insert(lo(10));
    let mut after = desired([(key(1, 11), SHADOW), (key(2, 11), HELD)]);
    after.own_macs = [(2, OWN)].into();
    after.peers.insert((2, PEER));
    after.binds.insert(lo(11));
    let steps: Vec<_> = plan(&after, &before, false)
        .into_iter()
        .map(|action| match action {
            Action::PutOwnMac { ifindex, .. } => format!("put own MAC {ifindex}"),
            Action::RemoveOwnMac { ifindex } => format!("remove own MAC {ifindex}"),
            Action::PutPeer { ifindex, .. } => format!("put peer {ifindex}"),
            Action::RemovePeer { ifindex, .. } => format!("remove peer {ifindex}"),
            Action::PutEntry { key, cause, .. } => {
                format!("{cause} {}.{}", key.ifindex, last_octet(key.addr))
            }
            Action::RemoveEntry { key, .. } => format!("remove {}.{}", key.ifindex, last_octet(key.addr)),
            Action::AddBind { vip, .. } => format!("bind {vip}"),
            Action::RemoveBind { vip, .. } => format!("unbind {vip}"),
        })
        .collect();
    let expected = [
        "put own MAC 2",
        "put peer 2",
        "unbind 192.0.2.10",
        "remove 1.10",
        "configured 1.11",
        "configured 2.11",
        "bind 192.0.2.11",
        "remove peer 1",
        "remove own MAC 1",
    ];
    assert_eq!(steps, expected);
}

#[test]
fn a_handover_that_yielded_to_a_third_node_is_over() {
    let at = key(1, 10);
    let observed = yielded(observed([(at, entry(Role::Handover, NEW, 3, 7))]), 3, 7);
    let desired = desired([(at, DesiredEntry::new(Role::Handover, NEW))]);
    // The program does not read the record once the yield is settled.
    let expected = (entry(Role::Foreign, PEER, 3, 7), Cause::Yielded, false);
    assert_eq!(only_put(&plan(&desired, &observed, false)), expected);
}

#[test]
fn a_yielded_vip_is_not_bound() {
    let at = key(1, 10);
    let bind = ("lo".to_owned(), IpAddr::from([192, 0, 2, 10]));
    let mut observed = yielded(observed([(at, entry(Role::Held, OWN, 3, 7))]), 3, 7);
    observed.binds.insert(bind.clone());
    let mut wanted = desired([(at, HELD)]);
    wanted.binds.insert(bind);
    let actions = plan(&wanted, &observed, false);
    let unbind = Action::RemoveBind { interface: "lo".to_owned(), vip: IpAddr::from([192, 0, 2, 10]) };
    assert_eq!(actions.first(), Some(&unbind), "{actions:?}");
    assert_eq!(actions.len(), 2, "{actions:?}");
}

#[test]
fn where_vips_are_placed_is_read_from_the_entries() {
    let before = observed([
        (key(1, 1), entry(Role::Held, OWN, 0, 1)),
        (key(2, 1), entry(Role::Foreign, MacAddr::ZERO, 1, 1)),
        (key(2, 2), entry(Role::Foreign, PEER, 2, 1)),
        (key(1, 3), entry(Role::Foreign, MacAddr::ZERO, 3, 1)),
    ]);
    let expected = [(IpAddr::from([192, 0, 2, 1]), 1), (IpAddr::from([192, 0, 2, 2]), 2)];
    assert_eq!(placed(&before.entries), expected.into());
}

/// Applies a plan to the kernel. Checks that every step is safe.
fn apply(mut kernel: Observed, actions: &[Action]) -> Observed {
    for action in actions {
        match action.clone() {
            Action::PutOwnMac { ifindex, mac } => drop(kernel.own_macs.insert(ifindex, mac)),
            Action::RemoveOwnMac { ifindex } => {
                let used = kernel.entries.keys().any(|key| key.ifindex == ifindex);
                assert!(!used, "own MAC of {ifindex} is removed while entries need it");
                assert!(kernel.own_macs.remove(&ifindex).is_some(), "own MAC of {ifindex} is not there");
            }
            Action::PutPeer { ifindex, mac } => assert!(kernel.peers.insert((ifindex, mac))),
            Action::RemovePeer { ifindex, mac } => assert!(kernel.peers.remove(&(ifindex, mac))),
            Action::PutEntry { key, entry, reset_counters, .. } => {
                let previous = kernel.entries.get(&key).copied();
                assert!(kernel.own_macs.contains_key(&key.ifindex), "no own MAC for {key:?}");
                assert!(entry.generation != 0 && entry.slot < kernel.max_slots, "{entry:?}");
                let others = kernel.entries.iter().filter(|(other, _)| **other != key);
                assert!(
                    others.clone().all(|(_, other)| other.slot != entry.slot),
                    "slot {} twice",
                    entry.slot
                );
                assert_eq!(reset_counters, previous.is_none_or(|before| before.slot != entry.slot));
                kernel.entries.insert(key, entry);
                assert!(kernel.entries.len() <= kernel.max_slots as usize, "the map is full");
            }
            Action::RemoveEntry { key, .. } => {
                assert!(kernel.entries.remove(&key).is_some(), "{key:?} is not there");
                let bound = kernel.binds.iter().any(|(_, address)| *address == key.addr);
                let left = kernel.entries.keys().any(|other| other.addr == key.addr);
                assert!(!bound || left, "{key:?} is removed while it is bound");
            }
            Action::AddBind { interface, vip } => {
                let mut entries = kernel.entries.iter().filter(|(key, _)| key.addr == vip);
                assert!(entries.any(|(_, entry)| entry.role == Role::Held), "{vip} is bound, not held");
                assert!(kernel.binds.insert((interface, vip)));
            }
            Action::RemoveBind { interface, vip } => assert!(kernel.binds.remove(&(interface, vip))),
        }
    }
    kernel
}

const SLOTS: u32 = 12;

/// Returns a small world: three interfaces and four VIPs. Each VIP is
/// held on one interface, or guarded, or absent.
fn desired_states() -> impl Strategy<Value = Desired> {
    let vip = proptest::option::of((1_u32..=3, any::<bool>(), any::<bool>()));
    let vips = proptest::collection::vec(vip, 4);
    let macs = proptest::collection::vec(prop_oneof![Just(OWN), Just(NEW)], 3);
    (vips, macs, proptest::collection::btree_set((1_u32..=3, Just(PEER)), 0..3)).prop_map(
        |(vips, macs, peers)| {
            let mut state = Desired { own_macs: (1..).zip(macs).collect(), peers, ..Desired::default() };
            for (host, vip) in (1_u8..).zip(vips) {
                let Some((home, guarded, bind)) = vip else { continue };
                for ifindex in 1..=3 {
                    let entry = match (ifindex == home, guarded) {
                        (false, _) => SHADOW,
                        (true, true) => DesiredEntry::new(Role::Foreign, PEER),
                        (true, false) => DesiredEntry::new(Role::Held, state.own_macs[&ifindex]),
                    };
                    state.entries.insert(key(ifindex, host), entry);
                }
                if bind && !guarded {
                    state.binds.insert(("lo".to_owned(), IpAddr::from([192, 0, 2, host])));
                }
            }
            state
        },
    )
}

/// Yields some of the held entries, as the program may do between two plans.
fn give_way(mut kernel: Observed, picks: &[bool]) -> Observed {
    for (entry, _) in
        kernel.entries.values().zip(picks).filter(|(entry, pick)| **pick && entry.role == Role::Held)
    {
        kernel.yields.insert(entry.slot, Yield { mac: PEER.0, generation: entry.generation });
    }
    kernel
}

/// Returns the roles that the specification demands, from the state before the plan.
fn expected_roles(desired: &Desired, before: &Observed, reclaim: bool) -> BTreeMap<VipKey, Role> {
    let in_force = |addr: IpAddr| {
        before.entries.iter().any(|(key, entry)| {
            key.addr == addr
                && desired.entries.contains_key(key)
                && before.yields.get(&entry.slot).is_some_and(|found| found.generation == entry.generation)
        })
    };
    let role = |key: &VipKey, wanted: Role| match wanted {
        Role::Held if !reclaim && in_force(key.addr) => Role::Foreign,
        role => role,
    };
    desired.entries.iter().map(|(key, entry)| (*key, role(key, entry.role))).collect()
}

proptest! {
    #[test]
    fn a_plan_leads_from_any_state_to_the_desired_one_and_the_next_plan_is_empty(
        steps in proptest::collection::vec(
            (desired_states(), proptest::collection::vec(any::<bool>(), SLOTS as usize), any::<bool>()),
            1..6,
        )
    ) {
        let mut kernel = Observed { max_slots: SLOTS, ..Observed::default() };
        for (desired, picks, reclaim) in steps {
            let before = give_way(kernel, &picks);
            let expected = expected_roles(&desired, &before, reclaim);
            kernel = apply(before.clone(), &plan(&desired, &before, reclaim));

            let roles: BTreeMap<_, _> = kernel.entries.iter().map(|(key, entry)| (*key, entry.role)).collect();
            prop_assert_eq!(&roles, &expected);
            prop_assert_eq!(&kernel.own_macs, &desired.own_macs);
            prop_assert_eq!(&kernel.peers, &desired.peers);
            for (key, entry) in &kernel.entries {
                let recorded = kernel.yields.get(&entry.slot).map(|found| found.generation);
                prop_assert!(entry.role == Role::Foreign || recorded != Some(entry.generation), "{:?} is dead", key);
                if roles[key] == desired.entries[key].role {
                    prop_assert_eq!(MacAddr(entry.mac), desired.entries[key].mac);
                }
            }
            for (_, address) in &desired.binds {
                let held = roles.iter().any(|(key, role)| key.addr == *address && *role == Role::Held);
                prop_assert_eq!(kernel.binds.contains(&("lo".to_owned(), *address)), held);
            }
            prop_assert_eq!(plan(&desired, &kernel, false), []);
        }
    }

    #[test]
    fn no_action_touches_an_entry_that_is_as_it_should_be(first in desired_states(), second in desired_states()) {
        let empty = Observed { max_slots: SLOTS, ..Observed::default() };
        let kernel = apply(empty.clone(), &plan(&first, &empty, false));
        for action in plan(&second, &kernel, false) {
            let touched = match action {
                Action::PutEntry { key, .. } | Action::RemoveEntry { key, .. } => key,
                Action::PutOwnMac { .. }
                | Action::RemoveOwnMac { .. }
                | Action::PutPeer { .. }
                | Action::RemovePeer { .. }
                | Action::AddBind { .. }
                | Action::RemoveBind { .. } => continue,
            };
            prop_assert_ne!(first.entries.get(&touched), second.entries.get(&touched), "{:?}", touched);
        }
    }
}

#[test]
fn a_vip_that_was_yielded_stays_yielded_when_its_interface_has_come_back() {
    let key = VipKey::new(9, [10, 0, 0, 10]);
    let desired = Desired {
        entries: [(key, DesiredEntry::new(Role::Held, OWN))].into(),
        binds: [("lo".to_owned(), key.addr)].into(),
        ..Desired::default()
    };
    let peer = MacAddr([2, 0, 0, 0, 9, 9]);
    let remembered = BTreeMap::from([(key.addr, peer)]);
    let observed = Observed { remembered: remembered.clone(), max_slots: 8, ..Observed::default() };
    let entry = |actions: Vec<Action>| match actions.as_slice() {
        [Action::PutEntry { entry, .. }] | [Action::PutEntry { entry, .. }, Action::AddBind { .. }] => *entry,
        other => panic!("{other:?}"),
    };
    let kept = entry(plan(&desired, &observed, false));
    assert_eq!((kept.role, MacAddr(kept.mac)), (Role::Foreign, peer));
    assert_eq!(super::yielded(&observed), remembered);
    assert_eq!(entry(plan(&desired, &observed, true)).role, Role::Held, "the operator takes it back");
}

#[test]
fn a_yielded_vip_has_no_mac_while_the_segment_is_asked_and_a_new_generation_when_it_is_taken_back() {
    let vip = key(1, 10);
    let address = vip.addr;
    let yielded = Yield { mac: PEER.0, generation: 2 };
    let mut kernel =
        Observed { yields: [(0, yielded)].into(), ..observed([(vip, entry(Role::Held, OWN, 0, 2))]) };
    let wish = desired([(vip, HELD)]);
    let put = |kernel: &Observed| match plan(&wish, kernel, false).as_slice() {
        [Action::PutEntry { entry, .. }] => *entry,
        other => panic!("{other:?}"),
    };
    assert_eq!(put(&kernel), entry(Role::Foreign, PEER, 0, 2), "a peer's");
    kernel.asked.insert(address);
    assert_eq!(put(&kernel), entry(Role::Foreign, MacAddr::ZERO, 0, 2), "asked about");

    kernel.asked.clear();
    kernel.entries.insert(vip, entry(Role::Foreign, MacAddr::ZERO, 0, 2));
    kernel.remembered.insert(address, PEER);
    kernel.taken_back.insert(address);
    assert_eq!(put(&kernel), entry(Role::Held, OWN, 0, 3), "taken back");
    let mut lapsed = wish.clone();
    assert!(begin_no_answer(&mut lapsed, &kernel, false).is_empty(), "it may begin to answer");
    assert_eq!(lapsed, wish);
    kernel.taken_back.clear();
    assert_eq!(begin_no_answer(&mut lapsed, &kernel, false), [address].into(), "no other may");

    // An agent that has not read the cluster wants what is pinned, and takes the VIP back all the same.
    kernel.taken_back.insert(address);
    let mut unknown = Desired { own_macs: [(1, OWN)].into(), ..Desired::default() };
    keep_what_is_pinned(&mut unknown, &kernel);
    change_what_was_yielded(&mut unknown, &kernel);
    assert_eq!(unknown.entries[&vip], HELD);
    kernel.taken_back.clear();
    kernel.asked.insert(address);
    change_what_was_yielded(&mut unknown, &kernel);
    assert_eq!(unknown.entries[&vip], SHADOW);
}

#[test]
fn nothing_pinned_is_taken_away_before_it_is_known_what_is_wanted() {
    let own_label = ("lo".to_owned(), IpAddr::from([192, 0, 2, 10]));
    let handover = VipEntry { until_ns: 7, ..entry(Role::Handover, PEER, 1, 3) };
    let pinned = Observed {
        own_macs: [(1, OWN), (2, OWN)].into(),
        peers: [(1, PEER), (2, PEER)].into(),
        binds: [own_label].into(),
        ..observed([(key(1, 10), entry(Role::Held, OWN, 0, 2)), (key(1, 11), handover)])
    };
    let wishes = [
        ("nothing is wanted yet", Desired::default()),
        ("only what this host has by itself", desired([])),
        ("an entry that no node may want yet", desired([(key(1, 12), HELD)])),
    ];
    for (description, mut wish) in wishes {
        assert!(!plan(&wish, &pinned, false).is_empty(), "{description}: without the rule");
        keep_what_is_pinned(&mut wish, &pinned);
        assert_eq!(plan(&wish, &pinned, false), [], "{description}");
    }
    // The plan writes what is this host's own: a new MAC of an interface, and a new interface.
    let mut wish = Desired { own_macs: [(1, NEW), (3, NEW)].into(), ..Desired::default() };
    keep_what_is_pinned(&mut wish, &pinned);
    let written = [1, 3].map(|ifindex| Action::PutOwnMac { ifindex, mac: NEW });
    assert_eq!(plan(&wish, &pinned, false), written);
}

#[test]
fn while_the_lease_deadline_has_passed_no_entry_begins_to_answer() {
    // Found role, true if it is yielded, wanted role, and resulting role.
    let (held, foreign, handover) = (Some(Role::Held), Some(Role::Foreign), Some(Role::Handover));
    let table = [
        ("no entry, to be held", None, false, held, None),
        ("foreign, to be held", foreign, false, held, foreign),
        ("foreign, to be handed over", foreign, false, handover, foreign),
        ("held", held, false, held, held),
        ("held, to be handed over", held, false, handover, handover),
        ("held, to be foreign", held, false, foreign, foreign),
        ("no entry, to be foreign", None, false, foreign, foreign),
        ("yielded, to be held", held, true, held, foreign),
        ("yielded, to be foreign", held, true, foreign, foreign),
    ];
    for (about, found, is_yielded, wanted, left) in table {
        let key = key(1, 10);
        let entries = found.map(|role| (key, entry(role, OWN, 0, 1))).into_iter().collect();
        let mut found = Observed { entries, ..Observed::default() };
        if is_yielded {
            found = yielded(found, 0, 1);
        }
        let wish = wanted.map(|role| (key, DesiredEntry::new(role, OWN)));
        let mut desired = Desired { entries: wish.into_iter().collect(), ..Desired::default() };
        let silent = begin_no_answer(&mut desired, &found, true);
        assert_eq!(desired.entries.get(&key).map(|entry| entry.role), left, "{about}");
        assert_eq!(silent.len(), usize::from(left != wanted), "{about}");

        // It is left as it is during a probe, too, and that is no failure.
        found.asked.insert(key.addr);
        desired.entries = wish.into_iter().collect();
        assert!(begin_no_answer(&mut desired, &found, true).is_empty(), "{about}");
        assert_eq!(desired.entries.get(&key).map(|entry| entry.role), left, "{about}");
    }
}
