use super::*;

#[test]
fn a_scraper_gets_the_format_that_it_asks_for() {
    let table = [
        ("nothing", "", Format::Prometheus),
        ("a browser", "text/html,application/xhtml+xml,*/*;q=0.8", Format::Prometheus),
        ("curl", "*/*", Format::Prometheus),
        (
            "Prometheus 2.42",
            "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
             text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
            Format::OpenMetrics,
        ),
        ("plain text only", "text/plain;version=0.0.4", Format::Prometheus),
        ("plain text rather", "application/openmetrics-text;q=0.2, text/plain;q=0.9", Format::Prometheus),
        ("no OpenMetrics at all", "application/openmetrics-text;q=0", Format::Prometheus),
        ("nonsense", "application/openmetrics-text;q=much", Format::Prometheus),
    ];
    for (who, accept, expected) in table {
        assert_eq!(Format::accepted(accept), expected, "{who}");
    }
}

/// The left side is `OpenMetrics` 1.0, the right one Prometheus' text format 0.0.4.
#[test]
fn the_page_is_the_same_in_both_formats() {
    let open = "# HELP a_b Frames.\n# TYPE a_b counter\na_b_total{x=\"# TYPE y\"} 3\n# HELP c_seconds Time.\n\
                # TYPE c_seconds gauge\n# UNIT c_seconds seconds\nc_seconds 1.5\n# HELP h H\n# TYPE h histogram\n\
                h_sum 1\nh_count 1\nh_bucket{le=\"+Inf\"} 1\n# EOF\n";
    let plain = "# HELP a_b_total Frames.\n\
                 # TYPE a_b_total counter\n\
                 a_b_total{x=\"# TYPE y\"} 3\n\
                 # HELP c_seconds Time.\n\
                 # TYPE c_seconds gauge\n\
                 c_seconds 1.5\n\
                 # HELP h H\n\
                 # TYPE h histogram\n\
                 h_sum 1\n\
                 h_count 1\n\
                 h_bucket{le=\"+Inf\"} 1\n";
    assert_eq!(to_prometheus(open), plain);
}
