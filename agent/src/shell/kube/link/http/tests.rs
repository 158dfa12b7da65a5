use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    thread,
};

use futures::future::join_all;
use kube::api::{ListParams, WatchParams};
use serde_json::json;

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
    let connections = connections(&format!("http://{address}"), HOUR);
    let events = connections.watch(call, HOUR).await.expect("it begins");
    let all: Vec<_> = events.map(|event| event.expect("an event")).collect().await;
    let [WatchEvent::Added(object), WatchEvent::Bookmark(bookmark), WatchEvent::Error(status)] = &*all else {
        panic!("other events: {all:?}")
    };
    assert_eq!(object.get(), r#"{"metadata": 5}"#);
    assert_eq!((&*bookmark.metadata.resource_version, status.code), ("7", 410));
}

/// What two API servers do, what is stored then, and the result of the write or the code of its refusal.
type Hedged = (&'static str, Does, Does, Option<&'static str>, Result<(), Option<u16>>);

/// What an API server does with a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Does {
    /// It accepts the request, and never answers: it is dead.
    Hangs,
    Closes,
    /// Nothing listens.
    Refuses,
    Answers(u16),
    /// It answers after another server would be tried.
    AnswersLate(u16),
}

const HEDGE: Duration = Duration::from_millis(100);
/// The write, as the object shows it.
const OURS: &str = r#"{"metadata":{"name":"b"},"spec":{"holderIdentity":"us"}}"#;
const THEIRS: &str = r#"{"metadata":{"name":"b"},"spec":{"holderIdentity":"them"}}"#;

/// Serves at an address, one connection after the other. Returns the number of requests.
fn serve(address: &'static str, does: Does, stored: Option<&'static str>) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind((address, 0)).expect("a port");
    let at = listener.local_addr().expect("an address");
    let requests = Arc::new(AtomicUsize::new(0));
    if does == Does::Refuses {
        return (at, requests);
    }
    let count = Arc::clone(&requests);
    thread::spawn(move || {
        let mut hanging = Vec::new();
        for stream in listener.incoming() {
            let mut stream: TcpStream = stream.expect("a connection");
            let mut request = [0; 4_096];
            let length = stream.read(&mut request).unwrap_or_default();
            count.fetch_add(1, Ordering::Relaxed);
            let is_read = request[..length].starts_with(b"GET");
            let code = match does {
                Does::Hangs => {
                    hanging.push(stream);
                    continue;
                }
                Does::Closes | Does::Refuses => continue,
                _ if is_read => {
                    if stored.is_some() {
                        200
                    } else {
                        404
                    }
                }
                Does::Answers(code) => code,
                Does::AnswersLate(code) => {
                    thread::sleep(HEDGE * 2);
                    code
                }
            };
            let body = if code == 200 { stored.unwrap_or(OURS) } else { "" };
            let head =
                format!("HTTP/1.1 {code} x\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
            let _ = stream.write_all(format!("{head}{body}").as_bytes());
            // Bytes that were not read would reset the connection.
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let _ = stream.set_read_timeout(Some(HEDGE));
            let _ = stream.read_to_end(&mut Vec::new());
        }
    });
    (at, requests)
}

/// Returns a way to the API servers at these endpoints.
fn server(configured: SocketAddr, endpoints: Vec<SocketAddr>) -> Server {
    let limits = Limits { lease: HEDGE * 16, margin: Duration::ZERO };
    let url = format!("http://{configured}").parse().expect("a URL");
    let server = Server::with_plain_endpoints(kube::Config::new(url), limits);
    server.servers().set_endpoints(endpoints);
    server
}

/// Each order of the answers of two API servers to a hedged write. What is stored tells whether this
/// node's own write was carried out, or another's.
#[tokio::test]
async fn a_hedged_write_has_succeeded_if_either_attempt_was_carried_out_and_conflicts_if_neither_was() {
    use Does::{Answers, AnswersLate, Closes, Hangs, Refuses};

    let (ours, theirs) = (Some(OURS), Some(THEIRS));
    let rows: [Hedged; 22] = [
        ("the first answers in time", Answers(200), Hangs, ours, Ok(())),
        ("the first refuses in time", Answers(403), Answers(200), ours, Err(Some(403))),
        (
            "the first has a conflict in time: one attempt is no doubt",
            Answers(409),
            Hangs,
            ours,
            Err(Some(409)),
        ),
        ("the first is dead", Hangs, Answers(200), ours, Ok(())),
        ("the first was carried out and its answer lost", Hangs, Answers(409), ours, Ok(())),
        ("another's write was first, or came after this one", Hangs, Answers(409), theirs, Err(None)),
        ("another has deleted it, perhaps after this write", Hangs, Answers(409), None, Err(None)),
        ("it is gone, perhaps after this write", Hangs, Answers(404), None, Err(None)),
        ("the second has just started and refuses all", Hangs, Answers(403), None, Err(None)),
        ("the second has just started, and the first has done it", Hangs, Answers(401), ours, Ok(())),
        ("the first breaks off, and the second is busy", Closes, Answers(429), None, Err(None)),
        ("the first breaks off, carried out, and the second is busy", Closes, Answers(429), ours, Ok(())),
        (
            "the first refuses connections: one attempt is no doubt",
            Refuses,
            Answers(409),
            theirs,
            Err(Some(409)),
        ),
        ("the first fails, not carried out", Answers(500), Answers(200), ours, Ok(())),
        ("the first fails, carried out", Answers(503), Answers(409), ours, Ok(())),
        ("the first fails, perhaps carried out", Answers(500), Answers(409), theirs, Err(None)),
        ("the second is dead", AnswersLate(200), Hangs, ours, Ok(())),
        ("the second was carried out and its answer lost", AnswersLate(409), Hangs, ours, Ok(())),
        ("another's write was before both, or between", AnswersLate(409), Hangs, theirs, Err(None)),
        ("the first breaks off, carried out", Closes, Answers(409), ours, Ok(())),
        ("the first breaks off, not carried out", Closes, Answers(200), ours, Ok(())),
        ("both are dead", Hangs, Hangs, ours, Err(None)),
    ];
    let runs = rows.iter().flat_map(|row| [(row, false), (row, true)]);
    // All are ready before the first begins: making them takes the time of many hedges.
    let runs: Vec<_> = runs
        .map(|((what, first, second, stored, expected), creates)| {
            let (configured, _) = serve("127.0.0.1", Hangs, None);
            let (one, _) = serve("127.0.0.2", *first, *stored);
            let (two, _) = serve("127.0.0.3", *second, *stored);
            let server = server(configured, vec![one, two]);
            for endpoint in [one, two] {
                server.servers().answered(Route::Direct(endpoint), Instant::now());
            }
            let connections = Connections::hedged(&server).expect("no credentials are needed");
            let leases = Resource::Leases.collection("x");
            let fields = serde_json::from_str(OURS).expect("JSON");
            let call = if creates { leases.create(&fields) } else { leases.merge("b", &fields) };
            async move {
                let sent = connections.send(call, HEDGE * 8).await;
                let text = sent.as_ref().map_or_else(|error| chain(error), ToString::to_string);
                let got = sent.map(drop).map_err(|error| error.code());
                assert_eq!(got, *expected, "{what}, creates: {creates}: {text}");
            }
        })
        .collect();
    join_all(runs).await;
}

#[tokio::test]
async fn a_request_that_is_not_hedged_or_has_one_server_is_sent_once() {
    for (endpoints, is_hedged) in [(1, true), (2, false)] {
        let (configured, requests) = serve("127.0.0.1", Does::AnswersLate(200), Some(OURS));
        let (other, others) = serve("127.0.0.2", Does::Answers(200), Some(OURS));
        let server = server(configured, [other, configured][..endpoints].to_vec());
        let connections = Connections::new(&server, is_hedged).expect("no credentials are needed");
        let call = Resource::Leases.collection("x").merge("b", &json!({}));
        connections.send(call, HEDGE * 8).await.expect("it answers");
        let count = |requests: &AtomicUsize| requests.load(Ordering::Relaxed);
        assert_eq!((count(&requests), count(&others)), (1, 0), "{endpoints} endpoints");
    }
}

#[tokio::test]
async fn requests_and_watches_at_once_leave_a_server_whose_node_is_unresponsive() {
    let (dead, _) = serve("127.0.0.2", Does::Hangs, None);
    let (alive, _) = serve("127.0.0.3", Does::Answers(200), Some(OURS));
    let limits = Limits { lease: Duration::from_hours(1), margin: Duration::ZERO };
    let server =
        Server::with_plain_endpoints(kube::Config::new("http://127.0.0.1:1".parse().expect("a URL")), limits);
    server.servers().set_endpoints(vec![dead, alive]);
    server.servers().set_node("n2".into(), vec![dead.ip()]);
    for endpoint in [dead, alive] {
        server.servers().answered(Route::Direct(endpoint), Instant::now());
    }
    let connections = Connections::hedged(&server).expect("no credentials are needed");
    let call = Resource::Leases.collection("x").get("b");
    let sent = connections.send(call, Duration::from_secs(30));
    let (answer, ()) = tokio::join!(sent, async {
        tokio::time::sleep(HEDGE).await;
        server.servers().avoid(&"n2".into(), Instant::now());
    });
    assert_eq!(answer.expect("the other one answers"), OURS);
}

/// Returns connections to the configured API server and to two endpoints, which are proven, and the route
/// of the first attempt.
fn to_three(servers: [(SocketAddr, Arc<AtomicUsize>); 3], hedge: Duration) -> (Connections, Route) {
    let [configured, one, two] = servers.map(|(address, _)| address);
    let limits = Limits { lease: hedge * 16, margin: Duration::ZERO };
    let url = format!("http://{configured}").parse().expect("a URL");
    let server = Server::with_plain_endpoints(kube::Config::new(url), limits);
    server.servers().set_endpoints(vec![one, two]);
    let [one, two] = [one, two].map(Route::Direct);
    server.servers().answered(one, Instant::now());
    server.servers().answered(two, Instant::now());
    (Connections::hedged(&server).expect("no credentials are needed"), one)
}

#[tokio::test]
async fn after_a_connection_that_fails_a_request_goes_out_once_more_and_not_twice() {
    let servers = [
        serve("127.0.0.1", Does::Answers(200), Some(OURS)),
        serve("127.0.0.2", Does::Closes, None),
        serve("127.0.0.3", Does::AnswersLate(200), Some(OURS)),
    ];
    let counts = servers.each_ref().map(|(_, requests)| Arc::clone(requests));
    let (connections, _) = to_three(servers, HOUR);
    let call = Resource::Leases.collection("x").merge("b", &json!({}));
    connections.send(call, HOUR).await.expect("the second one answers");
    let counts = counts.map(|requests| requests.load(Ordering::Relaxed));
    assert_eq!(counts, [0, 1, 1]);
}

#[tokio::test]
async fn a_server_that_fails_quickly_does_not_overtake_one_that_answers_late() {
    let servers = [
        serve("127.0.0.1", Does::Hangs, None),
        serve("127.0.0.2", Does::AnswersLate(200), Some(OURS)),
        serve("127.0.0.3", Does::Answers(500), Some(OURS)),
    ];
    let (connections, slow) = to_three(servers, HEDGE);
    let call = Resource::Leases.collection("x").merge("b", &json!({}));
    let sent = connections.send(call, HOUR);
    let (answer, is_avoided) = tokio::join!(sent, async {
        tokio::time::sleep(HEDGE * 3 / 2).await;
        connections.server.servers().is_avoided(slow, Instant::now())
    });
    answer.expect("the slow one answers");
    assert!(!is_avoided);
}
