//! Messages about annotations show the values of users in one short line.

use super::{controller::pool, *};
use crate::{
    diagnosis::explain::{ServiceFacts, explain_service},
    diagnosis::fact::Fact,
    reports::outbox::Message,
};

const MOST: usize = 1_500;

/// Values that a namespace user may write to deceive who reads a log, an Event or a terminal.
fn values() -> [(&'static str, String); 5] {
    [
        ("long", "x".repeat(200_000)),
        ("a line of its own", "a\n2026-11-27T12:00:00Z ERROR forged".to_owned()),
        ("an order to the terminal", "a\x1b[31m\x1b]0;title\x07".to_owned()),
        ("the same in eight bits", "a\u{9b}31m\r\u{85}\u{2028}".to_owned()),
        ("text from right to left", "a\u{202e}\u{2066}\u{200f}\u{61c}txt".to_owned()),
    ]
}

/// Returns what each of the parsers finds a fault in, or takes, with the value inside.
fn spoilt(value: &str) -> [String; 8] {
    [
        value.to_owned(),
        format!("192.0.2.7,{value}"),
        format!("192.0.2.7/{value}"),
        format!("({value}"),
        format!("zone={value}"),
        format!("zone in ({value})"),
        format!("{value}*"),
        format!("[{value}"),
    ]
}

/// Fails if a message is long, or has a character that no line of text has.
fn assert_legible(text: &str, about: &str) {
    let is_override = |c: char| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let is_bidi = |c: char| is_override(c) || ['\u{200e}', '\u{200f}', '\u{61c}'].contains(&c);
    let is_line_end = |c: char| matches!(c, '\u{2028}' | '\u{2029}');
    let bad = text.chars().find(|c| c.is_control() || is_bidi(*c) || is_line_end(*c));
    let length = text.chars().count();
    let begins: String = text.chars().take(MOST).collect();
    assert_eq!(bad, None, "{about}: {begins:?}");
    assert!(length <= MOST, "{about}: {length} characters: {begins}");
}

/// Returns the texts about a Service: in the log, in Events, and in `explain`.
fn texts(world: &World) -> Vec<String> {
    let mut texts = Vec::new();
    for (service, problem) in &world.problems {
        texts.push(problem.to_string());
        texts.push(Message::of_problem(service.clone(), None, problem).note().to_owned());
        let service = service.clone();
        let account = Fact::Read(world.account_of(&service));
        let (leader, namespace) = (Fact::Read(None), "vipward-system".to_owned());
        let facts = ServiceFacts { service, account, leader, pools: Fact::Read(()), namespace };
        for step in explain_service(&facts, &[]).steps {
            texts.extend([step.found].into_iter().chain(step.details).chain(step.remedy));
        }
    }
    texts
}

/// Returns a world in which a Service has this annotation, and another one the same VIP without it, if
/// a controller has given them one.
fn world(role: Role, is_given: bool, name: &str, value: &str) -> World {
    let mut world = World::of(role, Settings { metallb: true, ..Settings::default() });
    world.notify(pool("lan", &["192.0.2.100"]));
    let given =
        |record: ServiceRecord| if is_given { record.status("other", &["192.0.2.7"]) } else { record };
    world.put(given(service("default/first").ports(&[81]).created(1)));
    let mut record = given(service("default/web").created(2));
    record.annotations =
        Annotations::read(|wanted| (wanted == name).then_some(value), [name].into_iter(), Vec::new());
    world.put(record);
    world.reserve();
    world
}

#[test]
fn no_value_of_an_annotation_makes_a_message_long_or_gives_it_a_line_or_an_order_of_its_own() {
    let mut silent: BTreeSet<&str> = Annotations::NAMES.iter().copied().collect();
    for role in [Role::Alone, Role::Announcer, Role::Controller] {
        for (name, (what, value)) in Annotations::NAMES.iter().flat_map(|name| values().map(|it| (*name, it)))
        {
            for (is_given, text) in
                [true, false].into_iter().flat_map(|it| spoilt(&value).map(|text| (it, text)))
            {
                let texts = texts(&world(role, is_given, name, &text));
                for said in &texts {
                    assert_legible(said, &format!("{name} of {what}, as {role:?}"));
                }
                if texts.iter().any(|said| said.contains(name) && said.contains("xxxxxxxxxx")) {
                    silent.remove(name);
                }
            }
        }
    }
    // Any text is a key to share by.
    let kinds = ["metallb.io/allow-shared-ip", "vipward.io/share"];
    assert_eq!(silent, kinds.into(), "the others have messages");
}
