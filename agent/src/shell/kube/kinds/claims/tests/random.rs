//! Random claims, and random texts for them.

use proptest::prelude::*;

use super::*;

fn any_holder() -> impl Strategy<Value = Holder> {
    ("[a-z][a-z0-9.-]{0,20}", 1..=u64::MAX, any::<[u8; 5]>(), "[a-z][a-z0-9.]{0,14}").prop_map(
        |(node, number, [b, c, d, e, f], interface)| Holder {
            node: node.as_str().into(),
            session: session(number),
            mac: MacAddr([2, b, c, d, e, f]),
            interface: interface.into(),
        },
    )
}

fn any_state() -> impl Strategy<Value = ClaimState> {
    prop_oneof![
        any_holder().prop_map(ClaimState::Held),
        (any_holder(), "[a-z]{1,8}", 1..=u64::MAX).prop_map(|(to, node, number)| ClaimState::Offered {
            to,
            from: (node.as_str().into(), session(number))
        }),
        Just(ClaimState::Released),
        Just(ClaimState::Blank),
    ]
}

fn any_note() -> impl Strategy<Value = ClaimNote> {
    let name = ("[a-z]{1,6}", "[a-z0-9-]{1,6}")
        .prop_map(|(namespace, name)| ServiceName { namespace: namespace.into(), name: name.into() });
    (proptest::collection::vec(name, 0..4), ".{0,40}", proptest::option::of(".{0,40}"))
        .prop_map(|(services, cause, trouble)| ClaimNote { services, cause, trouble })
}

fn any_write() -> impl Strategy<Value = ClaimWrite> {
    (any::<[u8; 4]>(), 0..=i64::MAX.unsigned_abs(), any_state(), any_note()).prop_map(
        |(vip, epoch, state, note)| ClaimWrite {
            vip: vip.into(),
            expected: Expected::Absent,
            epoch: Epoch(epoch),
            state,
            note,
            can_wait: false,
        },
    )
}

proptest! {
    #[test]
    fn what_is_written_is_read_back_whatever_stood_there(first in any_write(), mut second in any_write()) {
        second.vip = first.vip;
        let mut object = created(&first, at(0));
        let (record, known) = read(&object.to_string()).expect("a claim");
        prop_assert_eq!((record.vip, record.epoch, &record.state, &record.note),
            (first.vip, first.epoch, &first.state, &first.note));

        merge(&mut object, &patch(&second, &known, at(1)));
        let (record, _) = read(&object.to_string()).expect("a claim");
        prop_assert_eq!((record.vip, record.epoch, &record.state, &record.note),
            (second.vip, second.epoch, &second.state, &second.note));
    }

    #[test]
    fn a_claim_that_is_cut_short_is_never_read_as_held(first in any_write(), part in 0.0..1.0) {
        let whole = created(&first, at(0)).to_string();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "some place in the text"
        )]
        let cut = (whole.len() as f64 * part) as usize;
        prop_assert!(whole.get(..cut).is_none_or(|text| read(text).is_err()));
    }

    #[test]
    fn any_bytes_can_be_read(text in ".{0,200}") {
        prop_assert!(read(&text).is_err());
    }

    #[test]
    fn any_spec_can_be_read(
        field in "(address|epoch|holder|session|mac|interface|released|offeredBy|since|services|cause)",
        value in ".{0,20}",
    ) {
        let mut edited = spec();
        edited[&*field] = value.into();
        let _ = read_spec(&edited);
    }
}
