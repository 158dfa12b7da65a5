use super::*;
use crate::ownership::tests::records::{at, holder};

/// A step, by its name.
type Step = (&'static str, fn(&mut Tenure));

fn handover() -> Handover {
    Handover::new(holder("b", 1), at(0), at(100))
}

#[test]
fn each_step_leads_from_each_state_to_the_right_one() {
    let (epoch, next) = (Epoch(3), Epoch(4));
    let states = [
        Tenure::Elsewhere,
        Tenure::Holding { epoch },
        Tenure::Offering { epoch, handover: handover() },
        Tenure::HandingOver(handover()),
    ];
    let [elsewhere, holding, offering, handing_over] = states.clone();
    let held = Tenure::Holding { epoch: next };
    let table: [(Step, [&Tenure; 4]); 4] = [
        (("hold", |tenure| tenure.hold(Epoch(4))), [&held, &held, &held, &held]),
        (("offer", |tenure| tenure.offer(handover())), [&handing_over, &offering, &offering, &handing_over]),
        (("stop holding", Tenure::stop_holding), [&elsewhere, &elsewhere, &handing_over, &handing_over]),
        (("stop the handover", Tenure::stop_handover), [&elsewhere, &holding, &holding, &elsewhere]),
    ];
    for ((name, step), expected) in table {
        for (state, expected) in states.iter().zip(expected) {
            let mut tenure = state.clone();
            step(&mut tenure);
            assert_eq!(tenure, *expected, "{name} from {state:?}");
        }
    }
}

#[test]
fn a_vip_is_held_until_its_offer_is_written() {
    let rows = [
        (Tenure::Elsewhere, None, false),
        (Tenure::Holding { epoch: Epoch(3) }, Some(Epoch(3)), false),
        (Tenure::Offering { epoch: Epoch(3), handover: handover() }, Some(Epoch(3)), true),
        (Tenure::HandingOver(handover()), None, true),
    ];
    for (tenure, held_in, is_handed_over) in rows {
        assert_eq!(tenure.held_in(), held_in, "{tenure:?}");
        assert_eq!(tenure.is_held(), held_in.is_some(), "{tenure:?}");
        assert_eq!(tenure.handover().is_some(), is_handed_over, "{tenure:?}");
        assert_eq!(tenure.is_open(), is_handed_over, "{tenure:?}");
    }
}

#[test]
fn only_the_first_announcement_of_the_successor_counts() {
    let mut tenure = Tenure::HandingOver(handover());
    tenure.receive(holder("c", 1).mac, at(10));
    assert!(tenure.is_open());
    tenure.receive(holder("b", 1).mac, at(20));
    tenure.receive(holder("b", 1).mac, at(30));
    assert_eq!(tenure.handover().and_then(|handover| handover.moved), Some(at(20)));
    assert!(!tenure.is_open());
}

#[test]
fn a_handover_is_over_when_the_successor_has_claimed_the_vip() {
    let mut tenure = Tenure::HandingOver(handover());
    tenure.handover_mut().expect("a handover").accepted = true;
    assert!(!tenure.is_open());
}
