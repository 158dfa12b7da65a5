//! VIPs that the program has yielded, and the records of that.

use super::*;

#[test]
fn a_yielded_vip_is_remembered_while_it_is_wanted_until_it_is_taken_back() {
    let mut node = Node::new(&[10, 11]);
    for host in [10, 11] {
        node.has(host, Role::Held, HOLDER);
        node.yields(host);
    }
    node.wanted = vec![10];
    node.reconcile(false, &[]);
    assert_eq!(node.effects, [Effect::Note(Note::AsksAboutYield(key(10).addr))]);
    assert_eq!(node.role(10), SILENT, "the program reports each host that answers");
    assert_eq!(node.host.yielded().keys().copied().collect::<Vec<_>>(), [key(10).addr], "11 is not wanted");
    assert_eq!(node.host.yields_settled(), 2);

    (node.entries, node.records) = (BTreeMap::new(), BTreeMap::new());
    node.reconcile(false, &[]);
    assert_eq!(node.role(10), SILENT, "its entry went with its interface, and came back");

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
fn a_yield_is_asked_about_and_taken_back_before_the_source_is_known() {
    let mut node = Node::new(&[]);
    node.site.source.is_known = false;
    node.has(10, Role::Foreign, PEER);
    node.yields(10);
    node.reconcile(false, &[]);
    assert_eq!(node.role(10), SILENT, "an earlier agent has written the yield");
    node.host.take_back([key(10).addr]);
    node.reconcile(false, &[]);
    assert_eq!(node.role(10), HELD);
}

#[test]
fn a_yielded_entry_that_cannot_be_written_is_stale_before_the_source_is_known() {
    let mut node = Node::new(&[]);
    node.site.source.is_known = false;
    node.has(10, Role::Held, HOLDER);
    node.yields(10);
    // The program does not report the answer of the peer that its record names.
    for (what, failing, is_stale) in [("refused", &[10][..], true), ("written", &[], false)] {
        node.reconcile(false, failing);
        assert_eq!(node.site.stale.left(key(10).addr).is_some(), is_stale, "{what}");
    }
}

#[test]
fn the_record_of_a_former_vip_does_not_yield_a_new_one_in_its_slot() {
    for some in [false, true] {
        let mut node = Node::new(&[10, 11]);
        node.has(10, Role::Held, HOLDER);
        node.host.on_read(&node.entries);
        node.records.insert(1, Yield { mac: PEER.0, generation: 1 });
        let written = if some { node.reconcile_some(&[11], &[]).0 } else { node.reconcile(false, &[]).0 };
        let VipEntry { slot, generation, .. } = node.entries[&key(11)];
        assert_eq!((written, node.records[&slot].yielded_to(generation)), (vec![11], None), "some: {some}");
    }
}

#[test]
fn the_records_of_all_entries_and_of_as_many_more_slots_as_may_be_needed_are_read() {
    let entries = [(key(10), VipEntry { slot: 5, ..entry(Role::Held, HOLDER, 1) })].into();
    assert_eq!(Host::slots_of(&entries, 1, 9), [0, 1, 5].into());
    assert_eq!(Host::slots_of(&entries, 9, 3), [0, 1, 2, 5].into());
}
