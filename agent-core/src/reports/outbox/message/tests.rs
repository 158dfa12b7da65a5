use super::*;

fn service(name: &str) -> Object {
    Object::Service(ServiceName { namespace: "shop".into(), name: name.into() })
}

fn message(note: &str) -> Message {
    Message::new(service("web"), Some("u-1".into()), Reason::Problem(ProblemReason::PortClash), note)
}

/// Respects the API server's limit: it refuses an Event with a longer note.
#[test]
fn a_note_is_cut_to_what_an_event_can_have() {
    let rows = [
        ("ä".repeat(512), 1_024, "just fits"),
        ("ä".repeat(600), 1_024, "characters of two bytes"),
        (format!("a{}", "ä".repeat(600)), 1_023, "the last character does not fit"),
        ("a".repeat(1_025), 1_024, "one too many"),
        (String::new(), 0, "nothing"),
    ];
    for (note, expected, description) in rows {
        assert_eq!(message(&note).note().len(), expected, "{description}");
    }
}

#[test]
fn a_note_is_one_line_that_no_terminal_obeys() {
    assert_eq!(message("a\nb \x1b[31m \u{202e}").note(), r"a\nb \u{1b}[31m \u{202e}");
}

#[test]
fn an_event_is_named_after_its_object_and_everything_that_it_says() {
    let name = message("a").event_name();
    let (object, hash) = name.split_once('.').expect("two parts");
    assert_eq!((object, hash.len()), ("web", 16), "{name}");
    assert_eq!(name, message("a").event_name(), "the same on every node");
    let others = [
        ("another object", Message { object: service("mail"), ..message("a") }),
        ("an object that was created anew", Message { uid: Some("u-2".into()), ..message("a") }),
        ("another reason", Message { reason: Reason::Conflict, ..message("a") }),
        ("another note", message("b")),
    ];
    for (what, other) in others {
        assert_ne!(name, other.event_name(), "{what}");
    }
    let vip = "2001:db8::10".parse().expect("an address");
    let name = Message { object: Object::VirtualIp(vip), ..message("a") }.event_name();
    let (object, _) = name.split_once('.').expect("two parts");
    assert_eq!(object, "2001-0db8-0000-0000-0000-0000-0000-0010", "no object's name has colons");
}

#[test]
fn a_notice_is_news_if_it_is_about_a_vip() {
    let vip = IpAddr::from([192, 0, 2, 10]);
    let services = vec![ServiceName { namespace: "shop".into(), name: "web".into() }];
    let holds = |from: Option<&str>| Notice::Holds {
        vip,
        services: services.clone(),
        from: from.map(Into::into),
        cause: "it is wanted".to_owned(),
    };
    let why = "n1: cordoned".to_owned();
    let no_holder = Notice::NoHolder { vip, services: services.clone(), why: why.clone() };
    let cannot_move = Notice::CannotMove { vip, services: services.clone(), to: "n1".into(), why };
    let table = [
        (holds(None), Reason::Announced, "192.0.2.10 is announced from n2: it is wanted"),
        (holds(Some("n1")), Reason::Moved, "192.0.2.10 moved from n1 to n2, because it is wanted"),
        (no_holder, Reason::NoHolder, "no node can hold 192.0.2.10: n1: cordoned"),
        (cannot_move, Reason::CannotMove, "192.0.2.10 cannot be moved to n1: n1: cordoned"),
    ];
    for (notice, reason, note) in table {
        let news = News { vip, services: &services, reason, note: note.to_owned() };
        assert_eq!(News::of(&notice, &"n2".into()), Some(news));
    }
    assert_eq!(News::of(&Notice::WentBack, &"n2".into()), None);
}
