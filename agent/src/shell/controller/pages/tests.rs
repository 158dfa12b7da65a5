use super::*;

fn words(checks: &[Check]) -> String {
    report("readyz", checks, None).1
}

#[test]
fn a_candidate_is_ready_once_it_has_read_the_lease_and_a_leader_once_it_has_listed_everything() {
    let lease = Duration::from_secs(10);
    let board = Board::start("c1", lease);
    assert!(words(&board.readiness()).contains("[-]lease failed"), "nothing is known yet");
    board.lease(None);
    assert!(!words(&board.readiness()).contains("[-]"));
    board.leads(Some("services are not listed yet".to_owned()));
    assert!(words(&board.readiness()).contains("[-]lists failed: services are not listed yet"));
    board.leads(None);
    assert!(!words(&board.readiness()).contains("[-]"));
    board.lease(Some("no answer".to_owned()));
    assert!(words(&board.readiness()).contains("[-]lease failed: no answer"));
    assert!(!words(&board.liveness()).contains("[-]"), "a restart would not help");

    let silent = lease * 2 + Duration::from_secs(1);
    board.with(|said| said.round = Instant::now().checked_sub(silent).expect("the host runs longer"));
    assert!(words(&board.liveness()).contains("[-]event-loop failed: no round has begun for 21 s"));
    board.round();
    assert!(!words(&board.liveness()).contains("[-]"));
}
