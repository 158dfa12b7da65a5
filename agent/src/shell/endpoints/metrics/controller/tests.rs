use super::*;

fn page(snapshot: ControllerSnapshot) -> Vec<String> {
    let metrics = ControllerMetrics::default();
    metrics.reserved(Reserved::Conflict);
    metrics.assigned(Duration::from_millis(30));
    let page = metrics.page(Format::Prometheus, snapshot).expect("a String takes everything");
    page.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
}

fn assert_says(page: &[String], lines: &[&str]) {
    for line in lines {
        assert!(page.iter().any(|said| said == line), "{line} is not among {page:#?}");
    }
}

#[test]
fn a_candidate_says_that_it_does_not_lead_and_nothing_of_the_pools() {
    let page = page(ControllerSnapshot { name: "c1".to_owned(), ..ControllerSnapshot::default() });
    assert_says(&page, &["vipward_controller_leads 0.0", "vipward_reservations_total{result=\"ok\"} 0"]);
    assert!(!page.iter().any(|line| line.contains("_pool_") || line.contains("_lacking")), "{page:#?}");
}

#[test]
fn a_leader_counts_the_addresses_of_each_pool_and_family() {
    let counts = |total, allocated, kept| Counts { total, allocated, kept };
    let families = [(pools::Family::V4, counts(14, 3, 1)), (pools::Family::V6, counts(1 << 32, 0, 0))];
    let pools = vec![(Arc::from("lan"), families.into())];
    let page = page(ControllerSnapshot {
        name: "c1".to_owned(),
        leads: true,
        pools,
        lacking: Some(2),
        ..ControllerSnapshot::default()
    });
    assert_says(
        &page,
        &[
            "vipward_controller_leads 1.0",
            "vipward_services_lacking 2.0",
            "vipward_pool_size{pool=\"lan\",family=\"ipv4\"} 14.0",
            "vipward_pool_addresses{pool=\"lan\",family=\"ipv4\",state=\"allocated\"} 3.0",
            "vipward_pool_addresses{pool=\"lan\",family=\"ipv4\",state=\"kept\"} 1.0",
            "vipward_pool_addresses{pool=\"lan\",family=\"ipv4\",state=\"available\"} 10.0",
            "vipward_pool_size{pool=\"lan\",family=\"ipv6\"} 4294967296.0",
            "vipward_reservations_total{result=\"conflict\"} 1",
            "vipward_assignment_duration_seconds_count 1",
        ],
    );
}
