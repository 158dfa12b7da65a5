use proptest::prelude::*;

use super::*;

fn status(code: u16) -> StatusCode {
    StatusCode::from_u16(code).expect("a status")
}

#[test]
fn a_refusal_is_in_the_words_of_the_api_server() {
    let text = r#"{"kind":"Status","code":409,"reason":"Conflict","message":"it has changed",
        "details":{"causes":[{"reason":"FieldManagerConflict","message":"conflict with \"x\""}],"retryAfterSeconds":3}}"#;
    let RequestError::Status { code, reason, message, causes, retry_after } =
        refusal(status(409), text, None)
    else {
        panic!("no refusal")
    };
    assert_eq!((code, &*reason, &*message), (409, "Conflict", "it has changed"));
    assert_eq!(causes, ["conflict with \"x\""]);
    assert_eq!(retry_after, Some(Duration::from_secs(3)));
}

#[test]
fn what_is_no_status_is_shown_as_it_is() {
    let rows = [
        ("404 page not found\n", "404 page not found", "a type that is unknown"),
        ("", "404 Not Found", "nothing"),
        (r#"{"error":"x"}"#, r#"{"error":"x"}"#, "some other JSON"),
    ];
    for (text, expected, description) in rows {
        let error = refusal(status(404), text, Some(1));
        assert!(error.is_unknown_type(), "{description}");
        assert_eq!(error.to_string(), format!("404: {expected}"), "{description}");
    }
    let long = refusal(status(502), &"x".repeat(100_000), None).to_string();
    assert!(long.len() < 1_000);
}

#[test]
fn an_object_that_is_missing_is_no_type_that_is_unknown() {
    let text = r#"{"kind":"Status","code":404,"reason":"NotFound","message":"leases \"a\" not found"}"#;
    assert!(!refusal(status(404), text, None).is_unknown_type());
}

async fn lines(text: &str) -> Vec<String> {
    let mut lines = Lines::new(Body::from(text.as_bytes().to_vec()));
    let mut all = Vec::new();
    while let Some(line) = lines.next().await.expect("a body") {
        all.push(String::from_utf8(lines.text(line).to_vec()).expect("text"));
    }
    all
}

proptest! {
    #[test]
    fn lines_are_what_is_between_line_ends_and_the_rest_is_none(text in "[a-c\n]{0,64}") {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let mut expected: Vec<&str> = text.split('\n').collect();
        expected.pop();
        prop_assert_eq!(runtime.block_on(lines(&text)), expected);
    }
}
