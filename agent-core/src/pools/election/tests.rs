use super::*;

const LEASE: Duration = Duration::from_secs(10);

fn at(seconds: u64) -> Monotonic {
    Monotonic::default() + Duration::from_secs(seconds)
}

fn ballot(version: &str, holder: &str) -> Ballot {
    Ballot { version: version.into(), holder: holder.to_owned(), duration: LEASE }
}

#[test]
fn the_first_candidate_creates_the_lease_and_renews_it() {
    let mut election = Election::start("a".to_owned(), LEASE);
    assert_eq!(election.on_read(None, at(0)), Step::Create);
    assert!(!election.leads(at(0)));
    election.on_written(at(0));
    assert!(election.leads(at(9)) && !election.leads(at(10)));
    assert_eq!(election.on_read(Some(&ballot("1", "a")), at(2)), Step::Write("1".into()));
    election.on_written(at(2));
    assert!(election.leads(at(11)));
}

#[test]
fn another_waits_until_the_lease_has_not_changed_for_its_duration() {
    let mut election = Election::start("b".to_owned(), LEASE);
    assert_eq!(election.on_read(Some(&ballot("1", "a")), at(100)), Step::Wait);
    assert_eq!(election.on_read(Some(&ballot("1", "a")), at(109)), Step::Wait);
    assert_eq!(election.on_read(Some(&ballot("2", "a")), at(110)), Step::Wait);
    assert_eq!(election.on_read(Some(&ballot("2", "a")), at(119)), Step::Wait);
    assert_eq!(election.on_read(Some(&ballot("2", "a")), at(120)), Step::Write("2".into()));
}

#[test]
fn a_lease_that_was_given_back_is_taken_at_once_and_one_that_was_taken_ends_the_term() {
    let mut election = Election::start("b".to_owned(), LEASE);
    assert_eq!(election.on_read(Some(&ballot("3", "")), at(0)), Step::Write("3".into()));
    election.on_written(at(0));
    assert_eq!(election.on_read(Some(&ballot("5", "a")), at(1)), Step::Wait);
    assert!(!election.leads(at(1)));
}
