//! Which requests meet which trouble.

use std::time::Duration;

use super::super::request::{Action, Verb};
use super::{Effect, Matching, Met, Often, Troubles};

fn action(verb: Verb, resource: &str, subresource: Option<&str>) -> Action {
    Action {
        verb,
        group: String::new(),
        version: "v1".to_owned(),
        resource: resource.to_owned(),
        subresource: subresource.map(str::to_owned),
        namespace: None,
        name: "x".to_owned(),
    }
}

#[test]
fn a_request_matches_when_all_that_is_said_is_so() {
    let get = action(Verb::Get, "services", None);
    let patch_status = action(Verb::Patch, "services", Some("status"));
    let table = [
        ("any", Matching::any(), true, true),
        ("the user", Matching::any().user("u"), true, true),
        ("another user", Matching::any().user("v"), false, false),
        ("one of two verbs", Matching::any().verb(Verb::Get).verb(Verb::List), true, false),
        ("writes", Matching::any().writes(), false, true),
        ("the resource", Matching::any().resource("services"), true, false),
        ("the subresource", Matching::any().resource("services/status"), false, true),
        ("another name", Matching::any().name("y"), false, false),
    ];
    for (description, matching, first, second) in table {
        assert_eq!(matching.matches("u", &get), first, "{description}");
        assert_eq!(matching.matches("u", &patch_status), second, "{description}");
    }
}

#[test]
fn delays_add_up_and_the_first_effect_wins_without_using_up_the_second() {
    let troubles = Troubles::default();
    let get = action(Verb::Get, "services", None);
    let delay = Effect::Delay(Duration::from_millis(1));
    troubles.begin(Matching::any(), delay, Often::Always);
    troubles.begin(Matching::any(), Effect::Drop, Often::Next(1));
    troubles.begin(Matching::any(), Effect::Hang, Often::Next(1));
    troubles.begin(Matching::any(), delay, Often::Next(2));
    let met: Vec<Met> = (0..3).map(|_| troubles.meet("u", &get)).collect();
    let expect = |milliseconds, effect| Met { delay: Duration::from_millis(milliseconds), effect };
    assert_eq!(met, [expect(2, Some(Effect::Drop)), expect(2, Some(Effect::Hang)), expect(1, None)]);
    troubles.end_all();
    assert_eq!(troubles.meet("u", &get), Met::default());
}
