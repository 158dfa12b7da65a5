use vipward_common::{VipEntry, Yield};

use super::{Command::*, *};
use crate::{base::samples::at, host::placement::DesiredEntry};

const PEER: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);
const BY_PEER: Probed = Probed::InUse { mac: PEER, by_peer: true };

fn key() -> VipKey {
    VipKey::new(2, [192, 0, 2, 10])
}

fn asked() -> Yields {
    let mut yields = Yields::default();
    assert_eq!(yields.on_event(Event::Yielded { key: key(), to: PEER }, at(0)), [Ask(key())]);
    yields
}

fn probed(yields: &mut Yields, probed: Probed, millis: u64) -> Vec<Command> {
    yields.on_event(Event::Probed { key: key(), probed }, at(millis))
}

/// The case, results and their times, the time of the tick, the commands, and the questions' ends.
type Row = (&'static str, &'static [(u64, Probed)], u64, Vec<Command>, Vec<NoPeer>);

#[test]
fn a_vip_is_taken_back_when_no_peer_answers_in_time() {
    let (again, stays) = (Ask(key()), StopAsking(key()));
    let taken = vec![NoPeer { key: key(), from: PEER, take_back: true }];
    let rows: [Row; 6] = [
        ("no probe has a result", &[], 10_000, vec![], vec![]),
        ("no host answers, and there is time left", &[(700, Probed::Free)], 10_000, vec![again], vec![]),
        ("no host answers", &[(700, Probed::Free), (2_000, Probed::Free)], 2_000, vec![again], taken.clone()),
        ("the result is late", &[(5_000, Probed::Free)], 5_000, vec![], taken.clone()),
        ("a peer answers", &[(700, BY_PEER)], 2_000, vec![stays], vec![]),
        (
            "a peer takes it meanwhile",
            &[(700, Probed::Free), (1_400, BY_PEER)],
            2_000,
            vec![again, stays],
            vec![],
        ),
    ];
    for (what, results, tick, commands, ended) in rows {
        let mut yields = asked();
        let given: Vec<_> =
            results.iter().flat_map(|(millis, result)| probed(&mut yields, *result, *millis)).collect();
        assert_eq!((given, yields.on_tick(|_| true, at(tick))), (commands, ended), "{what}");
    }
}

#[test]
fn nothing_is_taken_back_that_this_node_may_not_hold() {
    let mut yields = asked();
    probed(&mut yields, Probed::Free, 2_100);
    assert_eq!(yields.next_deadline(), Some(at(2_000)));
    let ended = NoPeer { key: key(), from: PEER, take_back: false };
    assert_eq!(yields.on_tick(|_| false, at(2_100)), [ended]);
    assert_eq!((yields.next_deadline(), yields.taken_back().len()), (None, 0));
}

#[test]
fn a_decision_ends_the_question_and_what_followed_from_it() {
    let vip = key().addr;
    let mut yields = asked();
    assert_eq!(yields.on_event(Event::Decided(vip), at(100)), [StopAsking(key())]);
    assert_eq!(probed(&mut yields, Probed::Free, 2_000), []);
    assert_eq!(yields.on_tick(|_| true, at(2_000)), []);

    let mut yields = asked();
    probed(&mut yields, Probed::Free, 2_000);
    yields.on_tick(|_| true, at(2_000));
    assert!(yields.taken_back().contains(&vip));
    yields.on_event(Event::Decided(vip), at(6_000));
    assert!(yields.taken_back().is_empty());
}

#[test]
fn a_vip_that_was_taken_back_and_yields_again_is_asked_about_again() {
    let mut yields = Yields::default();
    for start in [0, 10_000] {
        assert_eq!(yields.on_event(Event::Yielded { key: key(), to: PEER }, at(start)), [Ask(key())]);
        probed(&mut yields, Probed::Free, start + 2_000);
        assert_eq!(yields.on_tick(|_| true, at(start + 2_000)).len(), 1);
    }
}

#[test]
fn the_segment_is_asked_once_about_what_this_node_held_and_may_take_back() {
    let vip = key().addr;
    let entry = |role| VipEntry { mac: [2; 6], generation: 3, role, slot: 0, until_ns: 0 };
    let yields_of = |generation| [(0, Yield { mac: PEER.0, generation })].into();
    let observed = |role| Observed {
        entries: [(key(), entry(role))].into(),
        yields: yields_of(3),
        ..Observed::default()
    };
    let new = || observed(Role::Held);
    let earlier = Observed { yields: yields_of(2), ..new() };
    let remembered = Observed { remembered: [(vip, PEER)].into(), ..new() };
    let taken_back = Observed { taken_back: [vip].into(), ..new() };
    let settled = || observed(Role::Foreign);
    let rows = [
        ("it yields now", new(), Role::Held, true, true, true),
        ("an earlier generation yielded", earlier, Role::Held, true, true, false),
        ("it may not be taken back", new(), Role::Held, true, false, false),
        ("it is remembered", remembered, Role::Held, true, true, false),
        ("it is being taken back", taken_back, Role::Held, true, true, false),
        ("a settled yield, wanted", settled(), Role::Held, true, true, true),
        ("another's", settled(), Role::Foreign, true, true, false),
        ("a settled yield, before the cluster is known", settled(), Role::Foreign, false, true, true),
        ("a handover", observed(Role::Handover), Role::Handover, false, true, false),
    ];
    for (what, observed, wanted, is_known, may, is_asked) in rows {
        let mut yields = Yields::default();
        let entries = [(key(), DesiredEntry::new(wanted, MacAddr([2; 6])))].into();
        let desired = Desired { entries, ..Desired::default() };
        let mut ask = || yields.on_observed(&observed, &desired, is_known, |_| may, at(0));
        assert_eq!(ask(), if is_asked { vec![Ask(key())] } else { vec![] }, "{what}");
        assert_eq!(ask(), [], "{what}, again");
    }
}

#[test]
fn a_question_goes_on_while_answers_may_have_been_held_back() {
    let mut yields = asked();
    assert_eq!(yields.on_event(Event::Unclear { key: key() }, at(1_500)), []);
    assert_eq!(probed(&mut yields, Probed::Free, 2_100), [Ask(key())]);
    assert_eq!(yields.on_tick(|_| true, at(2_100)), []);
    assert_eq!(probed(&mut yields, Probed::Free, 3_500), []);
    assert_eq!(yields.on_tick(|_| true, at(3_500)).len(), 1);
}
