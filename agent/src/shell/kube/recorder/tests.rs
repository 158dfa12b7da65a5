use super::*;
use crate::shell::kube::testing;

fn message(regarding: Regarding) -> Message {
    Message { regarding, kind: Kind::Warning, reason: "Unplaced", note: "nobody can hold it".to_owned() }
}

#[test]
fn an_event_about_a_service_is_in_its_namespace_and_names_its_uid() {
    let name = ServiceName { namespace: "shop".into(), name: "web".into() };
    let message = message(Regarding::Service { name, uid: Some("u-1".into()) });
    let object = event(&message, "web.1", &testing::kube(), Timestamp::UNIX_EPOCH);
    let typed: k8s_openapi::api::events::v1::Event = serde_json::from_value(object).expect("it is an Event");
    assert_eq!(typed.metadata.namespace.as_deref(), Some("shop"));
    let regarding = typed.regarding.expect("an object");
    assert_eq!(
        (regarding.kind.as_deref(), regarding.name.as_deref(), regarding.uid.as_deref()),
        (Some("Service"), Some("web"), Some("u-1"))
    );
    assert_eq!(typed.type_.as_deref(), Some("Warning"));
    assert_eq!(typed.reporting_instance.as_deref(), Some("a"));
    // The API server refuses Events without these.
    assert!(typed.event_time.is_some() && typed.reporting_controller.is_some() && typed.action.is_some());
    assert_eq!(path(&message, None), "/apis/events.k8s.io/v1/namespaces/shop/events?fieldManager=vipward");
}

/// Their limits are in bytes, and an Event beyond one is refused as a whole.
#[test]
fn a_note_and_a_node_name_are_cut_to_what_an_event_can_have() {
    let rows = [
        ("ä".repeat(512), 1_024, "just fits"),
        ("ä".repeat(600), 1_024, "characters of two bytes"),
        (format!("a{}", "ä".repeat(600)), 1_023, "the last character does not fit"),
        ("a".repeat(1_025), 1_024, "one too many"),
        (String::new(), 0, "nothing"),
    ];
    for (note, expected, description) in rows {
        let message = Message { note, ..message(Regarding::VirtualIp(Ipv4Addr::new(192, 0, 2, 10))) };
        let object = event(&message, "192.0.2.10.1", &testing::kube(), Timestamp::UNIX_EPOCH);
        assert_eq!(object["note"].as_str().map(str::len), Some(expected), "{description}");
    }
    let kube = Kube { node: "n".repeat(253).as_str().into(), ..testing::kube() };
    let message = message(Regarding::VirtualIp(Ipv4Addr::new(192, 0, 2, 10)));
    let object = event(&message, "192.0.2.10.1", &kube, Timestamp::UNIX_EPOCH);
    assert_eq!(object["reportingInstance"].as_str().map(str::len), Some(128));
}

#[test]
fn an_event_about_a_vip_is_in_the_namespace_default() {
    let message = message(Regarding::VirtualIp(Ipv4Addr::new(192, 0, 2, 10)));
    let object = event(&message, "192.0.2.10.1", &testing::kube(), Timestamp::UNIX_EPOCH);
    assert_eq!(object["metadata"]["namespace"], "default");
    assert_eq!(object["regarding"]["name"], "192.0.2.10");
    assert_eq!(object["regarding"]["apiVersion"], "vipward.io/v1alpha1");
}

#[test]
fn an_event_has_one_name_on_all_nodes_and_another_when_anything_in_it_differs() {
    let name = ServiceName { namespace: "shop".into(), name: "web".into() };
    let of = |uid: &str| message(Regarding::Service { name: name.clone(), uid: Some(uid.into()) });
    let kube = testing::kube();
    let ours = identity(&of("u-1"), &kube);
    let elsewhere = Kube { node: "another".into(), ..testing::kube() };
    assert_eq!(ours, identity(&of("u-1"), &elsewhere));
    for other in [of("u-2"), Message { note: "another".to_owned(), ..of("u-1") }] {
        assert_ne!(ours, identity(&other, &kube), "{other:?}");
    }
}
