use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    thread,
};

use kube::api::{ListParams, WatchParams};

use super::*;
use crate::shell::{
    kube::{Limits, ReadError, Resource, Verb},
    logging::errors::chain,
};

fn status(code: u16) -> StatusCode {
    StatusCode::from_u16(code).expect("a status")
}

#[test]
fn a_refusal_is_in_the_words_of_the_api_server() {
    let text = r#"{"kind":"Status","code":409,"reason":"Conflict","message":"it has changed",
        "details":{"causes":[{"reason":"FieldManagerConflict","message":"conflict with \"x\""}],
        "retryAfterSeconds":3}}"#;
    let RequestError::Refused { status, retry_after } = refusal(status(409), text, None) else {
        panic!("no refusal")
    };
    assert_eq!((status.code, &*status.reason, &*status.message), (409, "Conflict", "it has changed"));
    assert_eq!(status.details.expect("details").causes[0].message, "conflict with \"x\"");
    assert_eq!(retry_after, Some(Duration::from_secs(3)));
}

#[test]
fn what_is_no_status_is_shown_as_it_is() {
    let rows = [
        ("404 page not found\n", "404 page not found", "a type that is unknown"),
        ("", "404 Not Found", "nothing"),
        (r#"{"error":"x"}"#, r#"{"error":"x"}"#, "some other JSON"),
    ];
    for (text, expected, description) in rows {
        let error = refusal(status(404), text, Some(1));
        assert!(error.is_unknown_type(), "{description}");
        assert_eq!(error.to_string(), format!("404: {expected}"), "{description}");
    }
}

#[test]
fn the_words_of_a_refusal_are_short_and_one_line() {
    let long = "x".repeat(100_000);
    let object = format!(r#"{{"kind":"Status","code":422,"message":"Invalid value: {long}"}}"#);
    for (text, description) in [(long, "a page"), (object, "a status with a value")] {
        assert!(refusal(status(422), &text, None).to_string().len() < 1_000, "{description}");
    }
    let object = r#"{"kind":"Status","code":422,"message":"a\nb \u001b[31m"}"#;
    assert_eq!(refusal(status(422), object, None).to_string(), r"422: a\nb \u{1b}[31m");
}

#[test]
fn an_object_that_is_missing_is_no_type_that_is_unknown() {
    let text = r#"{"kind":"Status","code":404,"reason":"NotFound","message":"leases \"a\" not found"}"#;
    assert!(!refusal(status(404), text, None).is_unknown_type());
}

const HOUR: Duration = Duration::from_hours(1);

fn local() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind(local()).expect("a port");
    let address = listener.local_addr().expect("an address");
    (listener, address)
}

/// Answers one request after the other with a part of an answer, and closes the connection.
fn break_off(listener: TcpListener) {
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream: TcpStream = stream.expect("a connection");
            let _ = stream.read(&mut [0; 4_096]);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{");
        }
    });
}

/// Answers one request with `body`, and closes the connection.
fn answer_once(listener: TcpListener, body: &'static str) {
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        let _ = stream.read(&mut [0; 4_096]);
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        let _ = stream.write_all(head.as_bytes());
        let _ = stream.write_all(body.as_bytes());
    });
}

/// Returns connections to `url` that give up after `connecting`.
fn connections(url: &str, connecting: Duration) -> Connections {
    let limits = Limits { lease: connecting * 2, margin: Duration::ZERO };
    let server = Server::with_config(kube::Config::new(url.parse().expect("a URL")), limits);
    Connections::open(&server).expect("no credentials are needed")
}

fn nodes() -> Call {
    Resource::Nodes.collection("").list(&ListParams::default())
}

#[tokio::test]
async fn an_api_server_that_does_not_answer_is_named_once_with_its_address() {
    let second = Duration::from_secs(1);
    let (listening, refusing) = listener();
    drop(listening);
    let (_silent, silent) = listener();
    let (breaking, broken) = listener();
    break_off(breaking);
    // The kernel drops new connections to a listener whose queue is full.
    let full = tokio::net::TcpSocket::new_v4().expect("a socket");
    full.bind(local()).expect("a port");
    let full = full.listen(0).expect("it listens");
    let crowded = full.local_addr().expect("an address");
    let _waiting: Vec<_> =
        (0..4).map(|_| TcpStream::connect_timeout(&crowded, Duration::from_millis(50))).collect();

    let refused = "Connection refused (os error 111)";
    let rows = [
        ("http", refusing, HOUR, HOUR, format!("no connection to http://{refusing}: {refused}"), "closed"),
        ("http", crowded, second / 10, HOUR, format!("no connection to http://{crowded}: timed out"), "full"),
        ("http", silent, HOUR, second / 10, format!("no answer from http://{silent} within 100ms"), "silent"),
        ("http", broken, HOUR, HOUR, format!("the request to http://{broken} failed: "), "closes"),
        ("https", broken, HOUR, HOUR, format!("no connection to https://{broken}: "), "no TLS"),
    ];
    for (scheme, address, connecting, limit, expected, description) in rows {
        let connections = connections(&format!("{scheme}://{address}"), connecting);
        let error = connections.send(nodes(), limit).await.expect_err(description);
        let said = chain(&ReadError::of(Verb::List, Resource::Leases, error));
        let expected = format!("failed to list leases.coordination.k8s.io: {expected}");
        assert!(said.starts_with(&expected), "{description}: {said}");
        assert!(!expected.ends_with(char::is_alphanumeric) || said == expected, "{description}: {said}");
        assert_eq!(said.matches(&address.to_string()).count(), 1, "{description}: {said}");
    }
}

#[tokio::test]
async fn an_object_of_a_watch_is_left_as_it_is_and_half_an_event_is_none() {
    let (listening, address) = listener();
    answer_once(
        listening,
        concat!(
            r#"{"type":"ADDED","object":{"metadata": 5}}"#,
            "\n\n",
            r#"{"object":{"kind":"Node","apiVersion":"v1","metadata":{"resourceVersion":"7"}},"type":"BOOKMARK"}"#,
            "\n",
            r#"{"type":"ERROR","object":{"kind":"Status","code":410,"message":"too old"}}"#,
            "\n",
            r#"{"type":"DELETED","obj"#,
        ),
    );
    let call = Resource::Nodes.collection("").watch(&WatchParams::default(), "5");
    let events = connections(&format!("http://{address}"), HOUR).watch(call, HOUR).await.expect("it begins");
    let all: Vec<_> = events.map(|event| event.expect("an event")).collect().await;
    let [WatchEvent::Added(object), WatchEvent::Bookmark(bookmark), WatchEvent::Error(status)] = &*all else {
        panic!("other events: {all:?}")
    };
    assert_eq!(object.get(), r#"{"metadata": 5}"#);
    assert_eq!((&*bookmark.metadata.resource_version, status.code), ("7", 410));
}
