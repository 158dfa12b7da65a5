use super::*;

fn service(namespace: Option<&str>, name: &str) -> Subject {
    Subject::Service(NamedService { namespace: namespace.map(Into::into), name: name.into() })
}

#[test]
fn an_address_comes_first_and_a_service_may_have_a_namespace() {
    let cases = [
        ("192.0.2.10", Subject::Address(IpAddr::from([192, 0, 2, 10]))),
        ("2001-0db8-0000-0000-0000-0000-0000-0010", Subject::Address("2001:db8::10".parse().expect("valid"))),
        ("fd00-0000-0000-0000-0000-0000-0000-0010", Subject::Address("fd00::10".parse().expect("valid"))),
        ("web", service(None, "web")),
        ("apps/web", service(Some("apps"), "web")),
        ("1apps/web-2", service(Some("1apps"), "web-2")),
    ];
    for (text, expected) in cases {
        assert_eq!(subject(text), Ok(expected), "{text}");
    }
}

#[test]
fn what_is_neither_is_refused_with_an_example_of_both() {
    for text in ["", "/web", "apps/", "apps/web/x", "Web", "192.0.2", "2web", "192.0.2.0/24"] {
        let why = subject(text).expect_err(text);
        assert_eq!(
            why, "it is no address such as 192.0.2.10 or 2001:db8::10, nor a Service such as apps/web",
            "{text}"
        );
    }
    assert_eq!(
        subject("127.0.0.1"),
        Err("it is an address that every host has for itself: no host answers for it".to_owned())
    );
}
