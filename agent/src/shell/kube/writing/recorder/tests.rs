use std::{
    net::{IpAddr, Ipv4Addr},
    time::Duration,
};

use vipward_core::{records::ServiceName, reports::outbox::Reason, services::ProblemReason};

use super::*;
use crate::shell::kube::testing;

const VIP: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 10));

fn write(object: Object) -> Write {
    let message = Message::new(
        object,
        Some("u-1".into()),
        Reason::Problem(ProblemReason::PortClash),
        "no node can hold it",
    );
    Write { message, name: "web.1".to_owned(), count: None, age: Duration::ZERO }
}

#[test]
fn an_event_about_a_service_is_in_its_namespace_and_names_its_uid() {
    let service = ServiceName { namespace: "shop".into(), name: "web".into() };
    let write = write(Object::Service(service));
    let object = event(&write, &testing::kube(), Timestamp::UNIX_EPOCH);
    let typed: Event = serde_json::from_value(object).expect("it is an Event");
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
    assert_eq!(
        call(&write, &testing::kube()).request.uri().path(),
        "/apis/events.k8s.io/v1/namespaces/shop/events"
    );
}

#[test]
fn an_event_about_a_vip_is_in_the_namespace_default() {
    let write = Write { count: Some(2), ..write(Object::VirtualIp(VIP)) };
    let object = event(&write, &testing::kube(), Timestamp::UNIX_EPOCH);
    assert_eq!(object["metadata"]["namespace"], "default");
    assert_eq!(object["regarding"]["name"], "192.0.2.10");
    assert_eq!(object["regarding"]["apiVersion"], "vipward.io/v1alpha1");
    assert_eq!(
        call(&write, &testing::kube()).request.uri().path(),
        "/apis/events.k8s.io/v1/namespaces/default/events/web.1"
    );
}

/// The API's limit is in bytes, and it refuses an Event beyond the limit.
#[test]
fn a_node_name_is_cut_to_what_an_event_can_have() {
    let kube = Kube { node: "n".repeat(253).as_str().into(), ..testing::kube() };
    let object = event(&write(Object::VirtualIp(VIP)), &kube, Timestamp::UNIX_EPOCH);
    assert_eq!(object["reportingInstance"].as_str().map(str::len), Some(128));
}
