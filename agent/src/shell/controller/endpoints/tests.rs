use super::*;

fn words(checks: &[Check]) -> String {
    report("readyz", checks, None).1
}

#[test]
fn a_candidate_is_ready_once_it_has_read_the_lease_and_a_leader_once_it_has_listed_everything() {
    let lease = Duration::from_secs(10);
    let status = SharedStatus::start("c1", lease);
    assert!(words(&status.readiness()).contains("[-]lease failed"), "nothing is known yet");
    status.lease(None);
    assert!(!words(&status.readiness()).contains("[-]"));
    status.leads(Some("services are not listed yet".to_owned()));
    assert!(words(&status.readiness()).contains("[-]lists failed: services are not listed yet"));
    status.leads(None);
    assert!(!words(&status.readiness()).contains("[-]"));
    status.lease(Some("no answer".to_owned()));
    assert!(words(&status.readiness()).contains("[-]lease failed: no answer"));
    assert!(!words(&status.liveness()).contains("[-]"), "a restart would not help");

    let silent = lease * 2 + Duration::from_secs(1);
    status.with(|inner| inner.round = Instant::now().checked_sub(silent).expect("the host runs longer"));
    assert!(words(&status.liveness()).contains("[-]event-loop failed: no round has begun for 21 s"));
    status.round();
    assert!(!words(&status.liveness()).contains("[-]"));
}
