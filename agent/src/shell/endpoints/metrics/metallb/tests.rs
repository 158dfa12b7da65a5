use super::*;

#[test]
fn the_page_has_metallbs_names_and_a_type_that_its_format_allows() {
    let vip = IpAddr::from([192, 0, 2, 7]);
    let web = ServiceName { namespace: "default".into(), name: "web".into() };
    let snapshot = MetalLbSnapshot { announced: [(vip, vec![web])].into(), is_loaded: true, is_stale: false };
    let sent = [(vip, 3), (IpAddr::from([192, 0, 2, 8]), 5)].into();
    let page = |format, most| page(format, &snapshot, "n1", None, &sent, most);
    let plain = page(Format::Prometheus, 1);
    for line in [
        "metallb_speaker_announced{service=\"default/web\",protocol=\"layer2\",node=\"n1\",ip=\"192.0.2.7\"} 1",
        "metallb_k8s_client_config_loaded_bool 1",
        "metallb_k8s_client_config_stale_bool 0",
        "# TYPE metallb_layer2_gratuitous_sent counter",
        "metallb_layer2_gratuitous_sent{ip=\"192.0.2.7\"} 3",
    ] {
        assert!(plain.lines().any(|said| said == line), "{line} is not in {plain}");
    }
    assert!(!plain.contains("192.0.2.8"), "it is held no longer: {plain}");
    assert!(page(Format::OpenMetrics, 1).contains("# TYPE metallb_layer2_gratuitous_sent unknown"));
    assert!(!page(Format::Prometheus, 0).contains("192.0.2.7"), "more VIPs than have series");
}
