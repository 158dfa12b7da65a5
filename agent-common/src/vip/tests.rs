use super::*;

#[test]
fn a_role_is_read_only_from_its_number() {
    use bytemuck::checked::try_from_bytes;

    let number = |n: u32| n.to_ne_bytes();
    assert_eq!(try_from_bytes(&number(0)), Ok(&Role::Foreign));
    assert_eq!(try_from_bytes(&number(1)), Ok(&Role::Held));
    assert_eq!(try_from_bytes(&number(2)), Ok(&Role::Handover));
    assert!(try_from_bytes::<Role>(&number(3)).is_err());
}

#[test]
fn an_empty_map_value_is_foreign_and_unknown() {
    let empty: VipEntry = bytemuck::checked::pod_read_unaligned(&[0; size_of::<VipEntry>()]);
    assert_eq!((empty.role, empty.mac), (Role::Foreign, [0; 6]));
}

#[test]
fn a_yield_and_the_end_of_a_handover_make_an_entry_foreign() {
    use Role::{Foreign, Handover, Held};

    let (ours, theirs) = (MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2]));
    let entry = |role, until_ns| VipEntry { mac: ours.0, generation: 5, role, slot: 0, until_ns };
    let yielded = |generation| Yield { mac: theirs.0, generation };
    let never = Yield::default();
    let rows = [
        ("held", entry(Held, 0), never, 100, (Held, ours, false)),
        ("held, and yielded", entry(Held, 0), yielded(5), 100, (Foreign, theirs, true)),
        ("held, and an earlier one was yielded", entry(Held, 0), yielded(4), 100, (Held, ours, false)),
        ("handed over", entry(Handover, 101), never, 100, (Handover, ours, false)),
        ("handed over, at its end", entry(Handover, 100), never, 100, (Foreign, ours, false)),
        ("handed over, and yielded", entry(Handover, 101), yielded(5), 100, (Foreign, theirs, true)),
        ("foreign", entry(Foreign, 0), never, 100, (Foreign, ours, false)),
        ("foreign, and moved on", entry(Foreign, 0), yielded(5), 100, (Foreign, theirs, true)),
        (
            "an entry without a generation",
            VipEntry { generation: 0, ..entry(Held, 0) },
            never,
            100,
            (Held, ours, false),
        ),
    ];
    for (what, entry, recorded, now_ns, (role, mac, yielded)) in rows {
        assert_eq!(entry.as_seen(recorded, now_ns), SeenEntry { role, mac, yielded, fault: None }, "{what}");
    }
}

#[test]
fn only_a_held_entry_has_a_fault_and_the_end_of_a_handover_is_none() {
    let entry = |role| VipEntry { mac: [2; 6], generation: 5, role, slot: 0, until_ns: 0 };
    for fault in VipFault::ALL {
        assert_eq!(VipFault::from_number(fault as u64), Some(fault));
        let faulty = entry(Role::Held).with_fault(Some(fault));
        assert_eq!((faulty.fault(), faulty.with_fault(None)), (Some(fault), entry(Role::Held)));
        let yielded = Yield { mac: [3; 6], generation: 5 };
        assert_eq!(faulty.as_seen(Yield::default(), 9).fault, Some(fault));
        assert_eq!(faulty.as_seen(yielded, 9).fault, None, "it is another host's");
        for role in [Role::Handover, Role::Foreign] {
            let other = VipEntry { until_ns: fault as u64, ..entry(role) };
            assert_eq!((other.fault(), other.with_fault(None)), (None, other), "{role:?}");
        }
    }
    assert_eq!((VipFault::from_number(0), VipFault::from_number(u64::MAX)), (None, None));
}
