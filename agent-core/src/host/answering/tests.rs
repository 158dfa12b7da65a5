use super::*;
use DeadlineState::{Grace, Over, Valid};
use InterfaceFault::{Blind, Bypassed, Down, Gone, NoCarrier, NotAttached, OtherMac};

const OVER: Part = Part::Silent(Silence::LeaseDeadline);

fn silent(trouble: InterfaceFault) -> Part {
    Part::Silent(Silence::Interface(trouble))
}

#[test]
fn only_an_entry_that_is_answered_now_is_held() {
    let table = [
        ("all is well", Role::Held, Valid, None, Part::Held),
        ("grace period, it is answered", Role::Held, Grace, None, Part::Held),
        ("the lease deadline has passed", Role::Held, Over, None, OVER),
        ("the lease deadline has passed, and there is no carrier", Role::Held, Over, Some(NoCarrier), OVER),
        ("no carrier", Role::Held, Valid, Some(NoCarrier), silent(NoCarrier)),
        ("no program", Role::Held, Valid, Some(NotAttached), silent(NotAttached)),
        ("no interface, grace period", Role::Held, Grace, Some(Gone), silent(Gone)),
        ("an interface that is down", Role::Held, Valid, Some(Down), silent(Down)),
        ("another MAC", Role::Held, Valid, Some(OtherMac), silent(OtherMac)),
        ("a handover", Role::Handover, Valid, None, Part::Handover),
        ("a handover has the successor's MAC", Role::Handover, Valid, Some(OtherMac), Part::Handover),
        ("a handover without carrier", Role::Handover, Valid, Some(NoCarrier), silent(NoCarrier)),
        ("blind", Role::Held, Valid, Some(Blind), silent(Blind)),
        ("a blind handover", Role::Handover, Valid, Some(Bypassed), silent(Bypassed)),
        ("a handover, and the lease deadline has passed", Role::Handover, Over, Some(OtherMac), OVER),
        ("another node's", Role::Foreign, Valid, None, Part::Foreign),
        ("another node's, whatever is wrong here", Role::Foreign, Over, Some(NoCarrier), Part::Foreign),
    ];
    for (what, role, lease_deadline, trouble, expected) in table {
        assert_eq!(Part::of(role, lease_deadline, trouble, None), expected, "{what}");
    }
}

#[test]
fn a_silent_entry_is_shown_with_its_reason() {
    let table = [
        (Part::Held, ("held", true, None)),
        (Part::Handover, ("handover", true, None)),
        (OVER, ("silent", false, Some("the lease deadline has passed"))),
        (silent(NoCarrier), ("silent", false, Some("no carrier"))),
        (Part::Foreign, ("foreign", false, None)),
    ];
    for (part, (role, answering, silent_because)) in table {
        let expected =
            serde_json::json!({"role": role, "answering": answering, "silent_because": silent_because});
        assert_eq!(serde_json::to_value(part).expect("it serialises"), expected);
        assert_eq!(part.is_ours(), role != "foreign");
    }
}
