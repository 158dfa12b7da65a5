use vipward_common::{Defence, LeaseDeadline, Policy};

use super::*;

/// The maps of this version, as the kernel reports them.
fn pinned() -> BTreeMap<&'static str, MapInfo> {
    PINNED.iter().map(|map| (map.name, MapInfo::of(map))).collect()
}

fn of<'a>(pinned: &'a mut BTreeMap<&'static str, MapInfo>, map: &str) -> &'a mut MapInfo {
    pinned.get_mut(map).expect("it is pinned")
}

fn place(offset: u16, bytes: u16) -> Place {
    Place { offset, bytes }
}

fn current() -> Description {
    Description::of(PINNED)
}

#[test]
fn maps_are_compared_by_what_this_version_knows() {
    type Change = fn(&mut Description, &mut BTreeMap<&'static str, MapInfo>);
    let rows: [(&str, Change, Option<&str>, &[&str]); 8] = [
        ("the same", |_, _| {}, None, &[]),
        (
            "a map and fields that this version does not know",
            |description, pinned| {
                description.0.insert(FieldName::of("later.number"), place(0, 8));
                description.0.insert(FieldName::of("lease_deadline.later"), place(36, 4));
                pinned.insert("later", MapInfo { kind: 77, key_bytes: 1, value_bytes: 2, entries: 3 });
            },
            None,
            &[],
        ),
        (
            "another size of the maps by VIP",
            |_, pinned| {
                for map in ["vips_v4", "vips_v6", "vip_state"] {
                    of(pinned, map).entries = 7;
                }
            },
            None,
            &[],
        ),
        (
            "another size of one of them",
            |_, pinned| of(pinned, "vips_v4").entries = 7,
            Some(
                "vips_v6 is a map of kind 1 for 65536 entries of 20 and 24 bytes in the pins, and a map of kind 1 \
                 for 7 entries of 20 and 24 bytes in this version",
            ),
            &[],
        ),
        (
            "two maps are not pinned",
            |_, pinned| pinned.retain(|map, _| !["lease_deadline", "filter"].contains(map)),
            None,
            &["lease_deadline", "filter"],
        ),
        (
            "a map that is not pinned is described otherwise",
            |description, pinned| {
                pinned.remove("filter");
                description.0.insert(FieldName::of("filter.bits"), place(8, 4));
            },
            None,
            &["filter"],
        ),
        (
            "a field is elsewhere",
            |description, _| {
                description.0.insert(FieldName::of("lease_deadline.session"), place(16, 4));
            },
            Some("lease_deadline.session is 4 bytes at 16 in the pins, and 8 bytes at 24 in this version"),
            &[],
        ),
        (
            "a field is missing",
            |description, _| {
                description.0.remove(&FieldName::of("events.oper"));
            },
            Some("events.oper is missing in the pins, and 2 bytes at 24 in this version"),
            &[],
        ),
    ];
    for (what, change, changed, missing) in rows {
        let (mut description, mut pinned) = (current(), pinned());
        change(&mut description, &mut pinned);
        let compared = description.compare(|map| pinned.get(map).copied());
        assert_eq!(compared.changed.map(|change| change.to_string()).as_deref(), changed, "{what}");
        assert_eq!(compared.missing, missing, "{what}");
        assert_eq!(compared.max_vips, pinned.get("vips_v4").map(|map| map.entries), "{what}");
    }
}

#[test]
fn a_map_of_another_kind_or_size_has_another_layout() {
    type Change = fn(&mut MapInfo);
    let rows: [(&str, Change, &str, &str); 4] = [
        (
            "lease_deadline",
            |map| map.value_bytes = 40,
            "kind 2 for 1 entries of 4 and 40",
            "kind 2 for 1 entries of 4 and 48",
        ),
        (
            "peers",
            |map| map.key_bytes = 16,
            "kind 1 for 16384 entries of 16 and 8",
            "kind 1 for 16384 entries of 12 and 8",
        ),
        (
            "offenders",
            |map| map.kind = 1,
            "kind 1 for 4096 entries of 16 and 48",
            "kind 9 for 4096 entries of 16 and 48",
        ),
        (
            "own_macs",
            |map| map.entries = 8,
            "kind 1 for 8 entries of 4 and 8",
            "kind 1 for 1024 entries of 4 and 8",
        ),
    ];
    for (map, change, found, wanted) in rows {
        let mut pinned = pinned();
        change(of(&mut pinned, map));
        let changed =
            current().compare(|map| pinned.get(map).copied()).changed.map(|change| change.to_string());
        let expected = format!(
            "{map} is a map of {found} bytes in the pins, and a map of {wanted} bytes in this version"
        );
        assert_eq!(changed, Some(expected));
    }
}

#[test]
fn what_this_version_does_not_know_is_kept_by_map() {
    let mut description = current();
    let later = ["later.key.number", "later.number", "vips_v4_more.x"].map(FieldName::of);
    for name in later.into_iter().chain([FieldName::of("lease_deadline.later")]) {
        description.0.insert(name, place(0, 8));
    }
    let unknown = description.unknown();
    assert_eq!(unknown.records().map(|(name, _)| name).collect::<Vec<_>>(), later);
    assert_eq!(unknown.maps().collect::<Vec<_>>(), ["later", "later", "vips_v4_more"]);
    assert_eq!(current().unknown(), Description::default());
}

#[test]
fn records_that_are_written_and_read_back_read_the_same_values() {
    let lease_deadline = LeaseDeadline {
        deadline_ns: 1,
        grace_until_ns: 2,
        yields_settled: 3,
        session: u64::MAX,
        notices_settled: 4,
        policy: Policy::Hold,
        defence: Defence::Match,
    };
    let found: Description = current().records().collect();
    assert_eq!(found, current());
    let map = PINNED.iter().find(|map| map.name == maps::LEASE_DEADLINE).expect("it is pinned");
    let (_, values) = found.decoders(map);
    assert_eq!(values.read(bytemuck::bytes_of(&lease_deadline)), Some(lease_deadline));
}
