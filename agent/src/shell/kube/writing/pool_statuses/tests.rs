use vipward_core::pools::PoolRecord;

use super::*;

fn of(generation: i64, addresses: &[&str], overlap: Option<&str>) -> Status {
    let addresses = addresses.iter().map(|text| (*text).into()).collect();
    let record =
        PoolRecord { name: "lan".into(), generation: Some(generation), addresses, ..PoolRecord::default() };
    let (pool, faults) = Pool::read(record);
    let overlap = overlap.map(|name| (name.into(), "192.0.2.64/29".parse().expect("a range")));
    Status::Own(status(&pool, &PoolState { overlap, ..PoolState::default() }, &faults))
}

fn json(status: &Status) -> Value {
    let Status::Own(status) = status else { panic!("a VIPPool") };
    json!(status)
}

/// Description, addresses, an older pool with some of them, and the condition's status, reason and the
/// beginning of its message.
type Row = (&'static str, &'static [&'static str], Option<&'static str>, [&'static str; 3]);

#[test]
fn a_pool_of_which_something_cannot_be_used_is_not_ready_for_the_generation_that_was_read() {
    let table: [Row; 4] = [
        ("all is well", &["192.0.2.64/29"], None, ["True", "AllUsable", ""]),
        ("a part", &["192.0.2.64/29", "nonsense"], None, ["False", "Malformed", "addresses[1]: "]),
        ("all of it", &["nonsense"], None, ["False", "Malformed", "addresses[0]: "]),
        ("it overlaps", &["192.0.2.64/29"], Some("old"), ["False", "Overlaps", "it gives out nothing: "]),
    ];
    for (about, addresses, overlap, [is_ready, reason, begins]) in table {
        let status = json(&of(7, addresses, overlap));
        let condition = &status["conditions"][0];
        let said = [&condition["type"], &condition["status"], &condition["reason"]];
        assert_eq!(said, ["Ready", is_ready, reason], "{about}");
        let message = condition["message"].as_str().expect("a message");
        assert!(message.starts_with(begins) && message.is_empty() == begins.is_empty(), "{about}: {message}");
        assert_eq!([&status["observedGeneration"], &condition["observedGeneration"]], [7, 7], "{about}");
    }
}

#[test]
fn a_new_generation_is_shown_and_the_time_of_the_last_change_stays_with_the_status() {
    let aged = |mut status: Status| {
        if let Status::Own(status) = &mut status {
            status.conditions[0].last_transition_time = "2026-01-01T00:00:00Z".to_owned();
        }
        status
    };
    let before = aged(of(7, &["192.0.2.64/29"], None));
    assert!(says_the_same(&before, &of(7, &["192.0.2.64/29"], None)));
    let rows =
        [("only newer", of(8, &["192.0.2.64/29"], None), true), ("shut", of(8, &["nonsense"], None), false)];
    for (about, mut after, is_kept) in rows {
        assert!(!says_the_same(&before, &after), "{about}");
        keep_times(&mut after, Some(&before));
        let time = json(&after)["conditions"][0]["lastTransitionTime"].clone();
        assert_eq!(time == "2026-01-01T00:00:00Z", is_kept, "{about}");
    }
}
