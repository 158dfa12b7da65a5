use super::*;

const SOON: Duration = Duration::from_millis(10);

fn socket(host: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, host], 6443))
}

fn direct(host: u8) -> Route {
    Route::Direct(socket(host))
}

/// Returns the servers of a cluster with these endpoints, each on the node `nHOST`.
fn with(endpoints: &[u8]) -> Servers {
    let servers = Servers::start(true);
    servers.set_endpoints(endpoints.iter().map(|host| socket(*host)).collect());
    for host in endpoints {
        servers.set_node(node(*host), vec![socket(*host).ip()]);
    }
    servers
}

fn node(host: u8) -> NodeName {
    format!("n{host}").as_str().into()
}

/// Returns the routes that a request takes one after the other.
fn order(servers: &Servers, is_hedged: bool, turn: usize) -> Vec<Route> {
    let (mut tried, now) = (Vec::new(), Instant::now());
    while let Some(route) = servers.next(&tried, is_hedged, turn, now) {
        tried.push(route);
    }
    tried
}

#[test]
fn a_cluster_with_one_api_server_has_one_route_which_is_never_avoided() {
    let now = Instant::now();
    for (endpoints, description) in [(&[][..], "not known yet"), (&[1], "one endpoint")] {
        let servers = with(endpoints);
        servers.failed(Route::Configured(0), now, now);
        servers.avoid(&node(1), now);
        for turn in 0..3 {
            assert_eq!(order(&servers, true, turn), [Route::Configured(0)], "{description}");
        }
        let falls = servers.falls(Route::Configured(0));
        assert_eq!(
            (*falls.borrow(), servers.is_avoided(Route::Configured(0), now)),
            (0, false),
            "{description}"
        );
    }
}

#[test]
fn endpoints_take_turns_and_the_configured_address_comes_before_what_is_not_proven() {
    let (servers, now) = (with(&[1, 2]), Instant::now());
    let configured = [Route::Configured(0), Route::Configured(1)];
    assert_eq!(servers.next(&[], true, 1, now), Some(direct(2)), "the first attempt proves it");
    assert_eq!(order(&servers, true, 0), [direct(1), configured[0], configured[1], direct(2)]);
    assert_eq!(order(&servers, false, 0)[..2], configured, "a request that is not hedged proves nothing");
    servers.answered(direct(2), now);
    assert_eq!(servers.next(&[], false, 0, now), Some(direct(2)));
    assert_eq!(order(&servers, true, 0), [direct(1), direct(2), configured[0], configured[1]]);
}

#[test]
fn a_proxy_in_front_of_the_api_servers_gets_two_sets_of_connections() {
    let servers = Servers::start(false);
    servers.set_endpoints(vec![socket(1), socket(2)]);
    assert_eq!(order(&servers, true, 0), [Route::Configured(0), Route::Configured(1)]);
}

#[tokio::test]
async fn the_routes_follow_the_endpoints() {
    let servers = with(&[1, 2]);
    let mut falls = servers.falls(direct(2));
    servers.set_endpoints(vec![socket(1), socket(3)]);
    let routes = [direct(1), Route::Configured(0), Route::Configured(1), direct(3)];
    assert_eq!(order(&servers, true, 0), routes);
    assert!(falls.changed().await.is_err(), "its connections are given up");
    servers.set_endpoints(Vec::new());
    assert_eq!(order(&servers, true, 0), [Route::Configured(0)]);
}

#[test]
fn a_route_that_fails_is_avoided_for_2_seconds_then_4_until_it_answers() {
    let mut now = Instant::now();
    let servers = with(&[1, 2]);
    for seconds in [2, 4, 8] {
        servers.failed(direct(1), now, now);
        now += Duration::from_secs(seconds).saturating_sub(SOON);
        assert_eq!(servers.next(&[], true, 0, now), Some(direct(2)), "{seconds}");
        now += SOON;
        assert_eq!(servers.next(&[], true, 0, now), Some(direct(1)), "one request finds out");
        assert_eq!(servers.next(&[], true, 0, now), Some(direct(2)), "the others wait for its answer");
    }
    servers.answered(direct(1), now);
    assert_eq!(servers.next(&[], true, 0, now), Some(direct(1)));
    for _ in 0..20 {
        servers.failed(direct(1), now + SOON, now);
    }
    now += AVOIDED_AT_MOST;
    assert_eq!(servers.next(&[], true, 0, now), Some(direct(1)));
}

#[test]
fn a_route_that_has_answered_since_a_request_was_sent_has_not_failed() {
    let servers = with(&[1, 2]);
    let sent_at = Instant::now();
    let now = sent_at + SOON;
    servers.answered(direct(1), now);
    servers.failed(direct(1), sent_at, now);
    servers.overtaken(direct(1), sent_at, now);
    assert!(!servers.is_avoided(direct(1), now));
    assert_eq!(*servers.falls(direct(1)).borrow(), 0);
}

#[test]
fn a_route_that_is_overtaken_is_avoided_and_gives_its_connections_up_the_second_time() {
    let now = Instant::now();
    let servers = with(&[1, 2]);
    for falls in 0..2 {
        servers.overtaken(direct(1), now, now);
        assert!(servers.is_avoided(direct(1), now));
        assert_eq!(*servers.falls(direct(1)).borrow(), falls);
    }
    servers.failed(direct(2), now, now);
    assert_eq!(*servers.falls(direct(2)).borrow(), 1, "a request that has failed says more");
}

#[test]
fn a_node_that_is_unresponsive_takes_the_connections_to_its_api_server_with_it() {
    type Row = (&'static str, NodeName, [u64; 3], bool);

    let now = Instant::now();
    let rows: [Row; 3] = [
        ("it runs one", node(1), [1, 0, 1], true),
        ("it runs none", node(3), [0, 0, 0], false),
        ("its addresses are not known", node(9), [0, 0, 1], false),
    ];
    for (what, dead, expected, is_avoided) in rows {
        let servers = with(&[1, 2]);
        servers.set_node(node(3), vec![socket(3).ip()]);
        for route in [direct(1), direct(2), Route::Configured(0)] {
            servers.answered(route, now);
        }
        servers.avoid(&dead, now);
        let falls = [direct(1), direct(2), Route::Configured(0)].map(|route| *servers.falls(route).borrow());
        assert_eq!(falls, expected, "{what}");
        assert_eq!(servers.is_avoided(direct(1), now), is_avoided, "{what}");
        for turn in 0..2 {
            assert!(!is_avoided || servers.next(&[], true, turn, now) == Some(direct(2)), "{what}");
        }
    }
}

#[test]
fn when_all_routes_are_avoided_they_are_taken_all_the_same() {
    let now = Instant::now();
    let servers = with(&[1, 2]);
    for route in order(&servers, true, 0) {
        servers.failed(route, now, now);
    }
    assert_eq!(order(&servers, true, 0).len(), 4);
}

#[test]
fn a_node_that_is_reported_several_times_at_once_is_avoided_once() {
    let (servers, now) = (with(&[1, 2]), Instant::now());
    for times in 0..3 {
        servers.avoid(&node(1), now + SOON * times);
    }
    let fallen = || [direct(1), Route::Configured(0)].map(|route| *servers.falls(route).borrow());
    assert_eq!(fallen(), [1, 1]);
    assert!(!servers.is_avoided(direct(1), now + AVOIDED), "not for longer");
    servers.avoid(&node(1), now + AVOIDED);
    assert_eq!(fallen(), [2, 2], "another failure");
}

#[test]
fn at_most_16_endpoints_are_used() {
    let servers = with(&(1..=40).collect::<Vec<u8>>());
    assert_eq!(order(&servers, true, 0).len(), 16 + 2);
}
