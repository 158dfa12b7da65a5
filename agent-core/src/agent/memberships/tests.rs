use vipward_common::MacAddr;

use super::{
    super::fixtures::{self, ETH0, Site, at},
    *,
};

fn key(vip: &str) -> VipKey {
    VipKey::new(ETH0, vip.parse::<IpAddr>().expect("an address"))
}

fn entry(role: Role) -> VipEntry {
    fixtures::entry(role, MacAddr::ZERO, 1)
}

/// Makes the changes that are planned. Returns true for each join.
fn changes(memberships: &mut Memberships) -> Vec<bool> {
    let mut joins = Vec::new();
    while let Some(command) = memberships.next(true) {
        joins.push(matches!(command, Command::Join(_)));
        memberships.on_done(command);
    }
    joins
}

/// The case, the VIP and its entry; whether it is probed, whether this node would take it first, and
/// whether its group is joined.
type Row = (&'static str, &'static str, Option<VipEntry>, bool, bool, bool);

#[test]
fn a_group_is_joined_for_what_is_answered_probed_or_taken_first() {
    let (held, handover, foreign) =
        (Some(entry(Role::Held)), Some(entry(Role::Handover)), Some(entry(Role::Foreign)));
    let rows: [Row; 9] = [
        ("held", "fd00::10", held, false, false, true),
        ("handed over", "fd00::10", handover, false, false, true),
        ("guarded", "fd00::10", foreign, false, false, false),
        ("guarded, and taken first", "fd00::10", foreign, false, true, true),
        ("no entry, and taken first", "fd00::10", None, false, true, false),
        ("guarded, and probed", "fd00::10", foreign, true, false, true),
        ("probed without an entry", "fd00::10", None, true, false, true),
        ("no part in it", "fd00::10", None, false, false, false),
        ("held, of IPv4", "192.0.2.10", held, true, true, false),
    ];
    for (what, vip, entry, is_probed, is_first, joins) in rows {
        let key = key(vip);
        let expected = if joins { vec![true] } else { vec![] };
        let mut one = Memberships::default();
        one.on_successor(key.addr, is_first);
        one.on_entry(&key, entry.as_ref(), is_probed, at(0));
        assert_eq!(changes(&mut one), expected, "{what}");

        let mut all = Memberships::default();
        all.on_successor(key.addr, is_first);
        let entries = entry.map(|entry| (key, entry)).into_iter().collect();
        all.on_entries(&entries, &is_probed.then_some(key).into_iter().collect());
        assert_eq!(changes(&mut all), expected, "{what}, with all entries");
    }
}

#[test]
fn a_group_is_left_when_nothing_needs_it_any_longer_and_not_before_that_is_known() {
    let mut memberships = Memberships::default();
    memberships.on_entry(&key("fd00::10"), Some(&entry(Role::Held)), false, at(0));
    changes(&mut memberships);
    memberships.on_entry(&key("fd00::10"), Some(&entry(Role::Foreign)), false, at(0));
    assert_eq!(memberships.next(false), None);
    assert_eq!(changes(&mut memberships), [false]);
}

#[test]
fn changes_are_due_at_once_readings_after_a_link_is_down_and_both_again_after_a_failure() {
    let mut memberships = Memberships::default();
    assert_eq!(memberships.next_deadline(), None);
    memberships.on_entry(&key("192.0.2.10"), Some(&entry(Role::Held)), false, at(1));
    assert_eq!(memberships.next_deadline(), None, "IPv4 has no groups");
    memberships.on_entry(&key("fd00::10"), Some(&entry(Role::Held)), false, at(1));
    assert_eq!(memberships.next_deadline(), Some(at(1)));
    memberships.put_off(at(5));
    assert_eq!(memberships.next_deadline(), Some(at(25)));
    changes(&mut memberships);
    assert_eq!(memberships.next_deadline(), None);

    memberships.on_down(at(1_000));
    assert_eq!(memberships.next_deadline(), Some(at(1_100)));
    assert!(!memberships.must_be_read(at(1_099)) && memberships.must_be_read(at(1_100)));
    memberships.on_observed(BTreeSet::new());
    assert_eq!(
        (memberships.next_deadline(), changes(&mut memberships)),
        (None, vec![true]),
        "it was forgotten"
    );

    memberships.try_again_soon(at(2_000));
    assert_eq!(memberships.next_deadline(), Some(at(7_000)));
}

#[test]
fn what_the_kernel_refuses_is_reported_in_words_with_the_number_of_the_others() {
    let mut memberships = Memberships::default();
    for vip in ["fd00::10", "fd00::11"] {
        memberships.on_entry(&key(vip), Some(&entry(Role::Held)), false, at(0));
    }
    while let Some(command) = memberships.next(true) {
        memberships.on_refused(command, "no buffer space".to_owned());
    }
    let problems: Vec<_> = memberships.problems(&Site::new().view).collect();
    assert_eq!(problems.len(), 1, "{problems:?}");
    for part in ["and 1 more", "may not reach eth0", "failed to join the group: no buffer space"] {
        assert!(problems[0].contains(part), "{part:?} in {}", problems[0]);
    }
}
