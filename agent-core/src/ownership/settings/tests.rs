use super::*;

fn settings() -> Settings {
    Settings {
        node: "node-a".into(),
        lease: Duration::from_secs(4),
        renewal: Duration::from_secs(1),
        margin: Duration::from_millis(500),
        policy: Policy::Hold,
        hold_for: Duration::from_hours(1),
        restart_lease: Duration::from_mins(1),
        stable_for: Duration::from_mins(1),
        handover_pace: Duration::from_millis(500),
        honour_exclude_label: true,
        clock_late: Duration::from_millis(8),
        most_new: 32,
        probing: None,
        wire: None,
        seed: 1,
    }
}

#[test]
fn settings_that_cannot_work_are_refused_with_what_would() {
    type Change = fn(&mut Settings);
    let ms = Duration::from_millis;
    let table: [(&str, Change, &str); 8] = [
        ("a lease that no API server can keep", |s| s.lease = Duration::from_millis(999), "1s to 1h"),
        ("a lease that lasts for ever", |s| s.lease = Duration::from_secs(3601), "1s to 1h"),
        ("renewals without end", |s| s.renewal = Duration::from_millis(99), "every 100ms is the most"),
        ("one renewal in a lease", |s| s.renewal = Duration::from_secs(2), "1.75s or less"),
        ("no margin", |s| s.margin = Duration::ZERO, "160ms or more"),
        ("a margin that is all of the lease", |s| s.margin = Duration::from_secs(4), "0ns or less"),
        (
            "a restart that moves VIPs",
            |s| s.restart_lease = Duration::from_secs(3),
            "shorter than the lease, 4s",
        ),
        ("grace period for no time", |s| s.hold_for = Duration::from_secs(4), "4.5s or more"),
    ];
    assert_eq!(settings().check(), Ok(()));
    for (what, change, says) in table {
        let mut settings = settings();
        change(&mut settings);
        let error = settings.check().expect_err(what).to_string();
        assert!(error.contains(says), "{what}: {error}");
    }
    let mut stopping = settings();
    stopping.policy = Policy::Stop;
    stopping.hold_for = ms(0);
    assert_eq!(stopping.check(), Ok(()), "under `stop` nothing is in its grace period");
}
