use serde_json::json;

use super::*;

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn answer(id: &str, path: Option<&str>, text: &str, names: &[(&str, &str)]) -> Value {
    let users: Vec<_> =
        names.iter().map(|(name, version)| json!({"crate": {"name": name, "version": version}})).collect();
    json!({"licenses": [{"id": id, "source_path": path, "text": text, "used_by": users}]})
}

#[test]
fn a_crate_that_is_linked_and_not_named_is_an_error_and_so_is_the_reverse() {
    let table = [
        ("the same", &["a 1.0.0", "b 2.0.0"][..], &["a 1.0.0", "b 2.0.0"][..], None),
        ("a new crate", &["a 1.0.0", "b 2.0.0"], &["a 1.0.0"], Some("lacks [b 2.0.0], and names []")),
        ("another version", &["a 1.0.1"], &["a 1.0.0"], Some("lacks [a 1.0.1], and names [a 1.0.0]")),
        ("a crate that is gone", &[], &["a 1.0.0"], Some("lacks [], and names [a 1.0.0]")),
    ];
    for (what, linked, named, expected) in table {
        let error = compare(&set(linked), &set(named)).err().map(|error| error.to_string());
        assert_eq!(error.is_some(), expected.is_some(), "{what}: {error:?}");
        let error = error.unwrap_or_default();
        assert!(error.contains(expected.unwrap_or_default()), "{what}: {error}");
    }
}

#[test]
fn the_list_has_each_text_once_below_the_crates_that_it_is_of() {
    let linked = set(&["a 1.0.0", "b 2.0.0", "c 3.0.0"]);
    let mut sections = Sections::new();
    let mit = "\nCopyright A and B\r\n\r\n- Do as you like. \r\n";
    for answer in [
        answer("MIT", Some("LICENSE"), mit, &[("a", "1.0.0"), ("not-linked", "1.0.0")]),
        answer("MIT", Some("COPYING"), "Copyright A and B\n\n- Do as you like.", &[("b", "2.0.0")]),
        answer("Apache-2.0", None, "Apache", &[("c", "3.0.0"), ("b", "2.0.0")]),
        answer("GPL-3.0", Some("LICENSE"), "GPL", &[("a", "1.0.1")]),
    ] {
        gather(&answer, &linked, &mut sections).expect("texts that were found");
    }
    let list = render(&sections).expect("texts without rules");
    let expected = format!(
        "\n{RULE}\nApache-2.0\n- b 2.0.0\n- c 3.0.0\n\nApache\n\
         \n{RULE}\nMIT\n- a 1.0.0\n- b 2.0.0\n\nCopyright A and B\n\n- Do as you like.\n"
    );
    assert_eq!(list.strip_prefix(HEAD), Some(expected.as_str()));
    assert_eq!(named(&list), linked);
}

#[test]
fn a_licence_without_the_names_of_its_authors_is_an_error() {
    let of = |id, path| {
        let answer = answer(id, path, "Copyright <year> <copyright holders>", &[("a", "1.0.0")]);
        gather(&answer, &set(&["a 1.0.0"]), &mut Sections::new())
    };
    assert!(of("MIT", None).is_err());
    assert!(of("MIT", Some("LICENSE")).is_ok());
    assert!(of("Apache-2.0", None).is_ok());
}

#[test]
fn crates_of_others_are_distinguished_from_those_of_the_workspace() {
    for (line, expected) in [
        ("anyhow v1.0.104", Some("anyhow 1.0.104")),
        ("tokio-macros v2.7.2 (*)", Some("tokio-macros 2.7.2")),
        ("zstd-sys v2.1.2+zstd.1.5.7", Some("zstd-sys 2.1.2+zstd.1.5.7")),
        ("vipward-core v0.1.0 (/src/agent-core)", None),
        ("vipward-core v0.1.0 (/src/agent-core) (*)", None),
        ("", None),
    ] {
        assert_eq!(crate_of_others(line).as_deref(), expected, "{line:?}");
    }
}

#[test]
fn no_licence_is_accepted_that_lint_refuses() {
    let deny: toml::Table = include_str!("../../../deny.toml").parse().expect("valid TOML");
    let allowed = deny["licenses"]["allow"].as_array().expect("a list");
    let allowed: BTreeSet<_> = allowed.iter().filter_map(toml::Value::as_str).map(str::to_owned).collect();
    for configuration in
        [include_str!("../../../agent/about.toml"), include_str!("../../../agent-ebpf/about.toml")]
    {
        let accepted = list(configuration, "accepted").expect("a list");
        assert!(!accepted.is_empty() && accepted.is_subset(&allowed), "{accepted:?}");
    }
}
