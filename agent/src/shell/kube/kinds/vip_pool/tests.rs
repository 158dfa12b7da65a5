use super::*;

fn read(spec: &str) -> PoolRecord {
    let spec: VipPoolSpec = serde_saphyr::from_str(spec).expect("a spec");
    record(&Meta { name: "lan".to_owned(), ..Meta::default() }, spec)
}

#[test]
fn three_lines_are_a_pool() {
    let record = read("addresses: [192.0.2.0/28]");
    assert_eq!(record.addresses, ["192.0.2.0/28".into()]);
    assert!(record.auto_assign && !record.use_ends);
    assert_eq!(
        (record.sharing, record.choice, record.keep.as_deref()),
        (Sharing::Key, Choice::First, Some("0s"))
    );
    assert_eq!(record.keep_at_most, None);
    let limited = read("{addresses: [192.0.2.1], keep: forever, keepAtMost: 3}");
    assert_eq!((limited.keep.as_deref(), limited.keep_at_most), (Some("forever"), Some(3)));
}

#[test]
fn selectors_are_those_of_kubectl() {
    let record = read(
        "{addresses: [192.0.2.1], serviceSelector: {matchLabels: {a: b}, matchExpressions: [\
         {key: c, operator: In, values: [d, e]}, {key: f, operator: Exists}, \
         {key: g, operator: DoesNotExist}, {key: h, operator: NotIn, values: [i]}]}}",
    );
    assert_eq!(record.service_selectors, ["a=b,c in (d,e),f,!g,h notin (i)".into()]);
}

#[test]
fn where_addresses_are_announced_is_read_and_everywhere_without_it() {
    let record = read(
        "{addresses: [192.0.2.1], announce: {nodeSelector: {matchLabels: {zone: a}}, \
         interfaces: [eth1, 'bond*'], preferredNodes: {matchExpressions: [\
         {key: rack, operator: In, values: ['1', '2']}]}}}",
    );
    assert_eq!(
        record.announce,
        AnnounceRecord {
            nodes: Some("zone=a".into()),
            interfaces: vec!["eth1".into(), "bond*".into()],
            preferred: Some("rack in (1,2)".into()),
        }
    );
    assert_eq!(read("addresses: [192.0.2.1]").announce, AnnounceRecord::default());
}
