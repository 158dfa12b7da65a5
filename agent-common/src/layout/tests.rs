use std::{collections::BTreeMap, string::String, vec, vec::Vec};

use proptest::prelude::*;

use super::*;
use crate::{
    Defence, LeaseDeadline, MacAddr, PINNED, PinnedMap, Policy, Role, VipEntry, VipKeyV4, VipState, Yield,
    YieldTotal, maps,
};

type Records = BTreeMap<FieldName, Place>;

/// The records of this version.
fn records() -> Records {
    let mut records = Records::new();
    for map in PINNED {
        map.visit(|name, place| assert_eq!(records.insert(name, place), None, "{name} is there twice"));
    }
    records
}

fn map(name: &str) -> &'static PinnedMap {
    PINNED.iter().find(|map| map.name == name).expect("it is pinned")
}

fn place_of(records: &Records) -> impl Fn(&FieldName) -> Option<Place> {
    |name| records.get(name).copied()
}

fn value_decoder(name: &str, records: &Records) -> Decoder {
    Decoder::new(map(name).value, map(name).value_name(), place_of(records))
}

fn key_decoder(name: &str, records: &Records) -> Decoder {
    Decoder::new(map(name).key, map(name).key_name(), place_of(records))
}

fn named(name: &str) -> FieldName {
    FieldName::of(name)
}

fn entry() -> (VipKeyV4, VipEntry) {
    let key = VipKeyV4::new(3, [192, 0, 2, 10]);
    let mac = [2, 0, 0, 0, 0, 1];
    (key, VipEntry { mac, generation: 513, role: Role::Handover, slot: 65_537, until_ns: 1 << 40 })
}

fn lease_deadline() -> LeaseDeadline {
    let (policy, session) = (Policy::Hold, 0x0102_0304_0506_0708);
    LeaseDeadline {
        deadline_ns: 11,
        grace_until_ns: 12,
        yields_settled: 13,
        session,
        notices_settled: 14,
        policy,
        defence: Defence::Match,
    }
}

#[test]
fn a_name_begins_with_its_map() {
    let name = FieldName::of("vips_v4").dot("key").dot("ifindex");
    assert_eq!((name.as_str(), name.map()), ("vips_v4.key.ifindex", "vips_v4"));
    assert_eq!(&name.text[19..], &[0; 29]);
    let garbage = FieldName { text: [0xff; 48] };
    assert_eq!((garbage.as_str(), garbage.map()), ("?", "?"));
}

#[cfg(not(feature = "next-layout"))]
#[test]
fn every_field_that_must_survive_has_a_record_with_its_place() {
    let rows = [
        ("vips_v4.key.ifindex", 0, 4),
        ("vips_v4.key.addr", 4, 4),
        ("vips_v4.mac", 0, 6),
        ("vips_v4.generation", 6, 2),
        ("vips_v4.role", 8, 4),
        ("vips_v4.slot", 12, 4),
        ("vips_v4.until_ns", 16, 8),
        ("own_macs.key.ifindex", 0, 4),
        ("own_macs.mac", 0, 6),
        ("own_macs.proof", 6, 2),
        ("vlans.key.ifindex", 0, 4),
        ("vlans.key.outer", 4, 2),
        ("vlans.key.inner", 6, 2),
        ("vlans.ifindex", 0, 4),
        ("peers.key.ifindex", 0, 4),
        ("peers.key.mac", 4, 6),
        ("peers.since_ns", 0, 8),
        ("lease_deadline.deadline_ns", 0, 8),
        ("lease_deadline.grace_until_ns", 8, 8),
        ("lease_deadline.yields_settled", 16, 8),
        ("lease_deadline.session", 24, 8),
        ("lease_deadline.notices_settled", 32, 8),
        ("lease_deadline.policy", 40, 4),
        ("lease_deadline.defence", 44, 4),
        ("vip_state.yielded.mac", 0, 6),
        ("vip_state.yielded.generation", 6, 2),
        ("vip_state.unknown_hosts.next_ns", 8, 8),
        ("vip_state.peers.swallowed", 32, 8),
        ("yields.total", 0, 8),
        ("events.source", 48, 6),
        ("counters.unrelated", 0, 8),
        ("filter.bits", 0, 8),
        ("received.frames", 0, 8),
        ("wire_self.wid", 0, 8),
        ("wire_keys.k0", 0, 8),
        ("wire_keys.k1", 8, 8),
        ("wire_keys.id", 16, 4),
        ("wire_index.key.id", 0, 8),
        ("wire_index.key.ifindex", 8, 4),
        ("wire_index.slot", 0, 4),
        ("wire_seen.answered", 0, 8),
        ("wire_seen.received", 8, 8),
        ("wire_seen.pinged", 16, 8),
        ("wire_state.ended", 0, 8),
        ("wire_state.notices", 8, 8),
        ("wire_counters.ping_answered", 0, 8),
    ];
    let records = records();
    for (name, offset, bytes) in rows {
        assert_eq!(records.get(&named(name)), Some(&Place { offset, bytes }), "{name}");
    }
    assert!(records.keys().all(|name| !name.as_str().contains("_pad")), "gaps have no record");
    assert!(records.len() < MAX_FIELDS as usize / 4, "there is room for many versions");
}

#[test]
fn what_this_version_wrote_reads_as_it_was_and_from_no_part_of_it() {
    let records = records();
    let (key, entry) = entry();
    let yielded = Yield { mac: MacAddr([2, 0, 0, 0, 0, 9]).0, generation: 7 };
    let state = VipState { yielded, ..VipState::default() };
    let keys = key_decoder(maps::VIPS_V4, &records);
    let entries = value_decoder(maps::VIPS_V4, &records);
    let lease_deadlines = value_decoder(maps::LEASE_DEADLINE, &records);
    let states = value_decoder(maps::VIP_STATE, &records);
    assert_eq!(keys.read(bytemuck::bytes_of(&key)), Some(key));
    assert_eq!(entries.read(bytemuck::bytes_of(&entry)), Some(entry));
    assert_eq!(lease_deadlines.read(bytemuck::bytes_of(&lease_deadline())), Some(lease_deadline()));
    assert_eq!(states.read(bytemuck::bytes_of(&state)), Some(state));
    let (key, entry) = (bytemuck::bytes_of(&key), bytemuck::bytes_of(&entry));
    for len in 0..key.len() {
        assert_eq!(keys.read::<VipKeyV4>(&key[..len]), None, "{len} bytes of a key");
    }
    for len in 0..entry.len() {
        assert_eq!(entries.read::<VipEntry>(&entry[..len]), None, "{len} bytes of an entry");
    }
}

/// An entry's fields in another order and size, without the end of a handover.
fn other_layout() -> (Records, impl Fn(u32, u8) -> Vec<u8>) {
    let places = [
        ("role", 0, 1),
        ("mac", 1, 6),
        ("slot", 7, 8),
        ("generation", 15, 4),
        ("colour", 19, 4),
        ("mac.of_the_day", 0, 6),
    ];
    let records = places
        .into_iter()
        .map(|(name, offset, bytes)| (FieldName::of(maps::VIPS_V4).dot(name), Place { offset, bytes }));
    let value = |generation: u32, role: u8| {
        let (_, entry) = entry();
        let slot = u64::from(entry.slot).to_ne_bytes();
        [&[role][..], &entry.mac, &slot, &generation.to_ne_bytes(), &[0xcc; 4]].concat()
    };
    (records.collect(), value)
}

#[test]
fn an_entry_of_another_layout_is_read_where_its_fields_stand_and_nothing_is_guessed() {
    let (_, entry) = entry();
    let (other, value) = other_layout();
    let read = |value: &[u8]| value_decoder(maps::VIPS_V4, &other).read::<VipEntry>(value);
    let expected = VipEntry { until_ns: 0, ..entry };
    assert_eq!(read(&value(513, 2)), Some(expected), "a field that is missing reads as 0");
    assert_eq!(read(&value(65_535, 1)), Some(VipEntry { generation: 65_535, role: Role::Held, ..expected }));
    assert_eq!(read(&value(65_536, 2)), None, "a generation that does not fit");
    assert_eq!(read(&value(513, 3)), None, "a role that this version does not know");

    let mut short = other.clone();
    short.insert(named("vips_v4.mac"), Place { offset: 1, bytes: 5 });
    assert_eq!(value_decoder(maps::VIPS_V4, &short).read::<VipEntry>(&value(513, 2)), None, "no MAC");
    let mut long = other;
    long.insert(named("vips_v4.slot"), Place { offset: 0, bytes: 9 });
    assert_eq!(value_decoder(maps::VIPS_V4, &long).read::<VipEntry>(&value(513, 2)), None, "no number");
    let none = value_decoder(maps::YIELDS, &Records::new());
    assert_eq!(none.read(&[0xff; 3]), Some(YieldTotal { total: 0 }), "no record at all");
}

#[test]
fn bytes_are_checked_to_be_a_value_of_their_map() {
    let lease_deadline = |policy: u32| {
        let mut bytes = bytemuck::bytes_of(&lease_deadline()).to_vec();
        let place = records()[&named("lease_deadline.policy")];
        bytes[usize::from(place.offset)..][..4].copy_from_slice(&policy.to_le_bytes());
        bytes
    };
    assert!(map(maps::LEASE_DEADLINE).is_value(&lease_deadline(1)));
    assert!(!map(maps::LEASE_DEADLINE).is_value(&lease_deadline(2)));
}

prop_compose! {
    fn any_records()(
        places in proptest::collection::vec((0_u16..24, 0_u16..10), records().len()),
        present in proptest::collection::vec(proptest::bool::weighted(0.9), records().len()),
        far in proptest::option::weighted(0.1, (any::<usize>(), any::<u16>(), any::<u16>())),
    ) -> Records {
        let mut found: Vec<_> = records().into_keys().zip(places).collect();
        if let Some((which, offset, bytes)) = far {
            let which = which % found.len();
            found[which].1 = (offset, bytes);
        }
        let found = found.into_iter().zip(present).filter(|(_, present)| *present);
        found.map(|((name, (offset, bytes)), _)| (name, Place { offset, bytes })).collect()
    }
}

proptest! {
    #[test]
    fn no_description_reads_out_of_bounds_or_invents_a_value(
        records in any_records(),
        value in proptest::collection::vec(any::<u8>(), 0..40),
    ) {
        for map in PINNED.iter().filter(|map| map.is_carried || map.name == maps::VIPS_V4) {
            let mut bytes = vec![0; map.value_bytes as usize];
            let decoder = Decoder::new(map.value, map.value_name(), place_of(&records));
            if decoder.translate(&value, &mut bytes).is_none() {
                continue;
            }
            Field::visit(map.value, map.value_name(), &mut |name, to, shape| {
                let number = |bytes: &[u8]| {
                    let digits = bytes.iter().rev().map(|byte| std::format!("{byte:02x}"));
                    digits.collect::<String>().trim_start_matches('0').chars().collect::<String>()
                };
                let read = &bytes[usize::from(to.offset)..][..usize::from(to.bytes)];
                match records.get(&name) {
                    None => assert!(read.iter().all(|byte| *byte == 0), "{name} was missing"),
                    Some(from) => {
                        let found = &value[usize::from(from.offset)..][..usize::from(from.bytes)];
                        match shape {
                            Shape::Number => assert_eq!(number(read), number(found), "{name}"),
                            Shape::Bytes | Shape::Parts(_) => assert_eq!(read, found, "{name}"),
                        }
                    }
                }
            });
        }
    }
}
