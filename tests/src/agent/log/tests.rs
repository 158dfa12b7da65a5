use super::*;

#[test]
fn fields_are_found_where_tracing_writes_them() {
    let nested =
        r#"{"timestamp":"t","level":"WARN","fields":{"message":"conflict","vip":"192.0.2.10","times":3}}"#;
    let flat = r#"{"timestamp":"t","level":"WARN","message":"conflict","vip":"192.0.2.10","times":3}"#;
    for text in [nested, flat] {
        let line = LogLine::parse(&format!("{text}\n")).expect("it is complete");
        assert_eq!(line.level(), "WARN");
        assert_eq!(line.message(), "conflict");
        assert!(line.has("vip", "192.0.2.10") && line.has("times", 3), "{line}");
        assert!(!line.has("vip", "192.0.2.1") && !line.has("mac", ""), "{line}");
    }
}

#[test]
fn what_is_not_json_is_its_own_message() {
    let line = LogLine::parse("thread 'main' panicked\n").expect("it is complete");
    assert_eq!((line.level(), line.message()), ("", "thread 'main' panicked"));
}

#[test]
fn a_line_that_is_still_being_written_is_none_yet() {
    assert_eq!(LogLine::parse(r#"{"level":"INFO"#), None);
}
