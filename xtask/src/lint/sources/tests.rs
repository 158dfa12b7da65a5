use super::*;

#[test]
fn unfinished_work_is_found_and_harmless_words_are_not() {
    let table = [
        ("a comment", format!("let a = 1; // {}: later", UNFINISHED[0]), true),
        ("with an owner", format!("{}(someone): later", UNFINISHED[1]), true),
        ("three crosses", format!("# {}", UNFINISHED[2]), true),
        ("a macro", format!("    {}\"later\")", UNFINISHED_CODE[0]), true),
        ("the other macro", format!("    {})", UNFINISHED_CODE[1]), true),
        ("part of a word", format!("{}S and my{}", UNFINISHED[0], UNFINISHED[0]), false),
        ("a lint's name", "todo = \"warn\"".to_owned(), false),
        ("nothing", "let total = 1;".to_owned(), false),
    ];
    for (what, text, expected) in table {
        assert_eq!(!leftover_lines(&text).is_empty(), expected, "{what}: {text}");
    }
    let text = format!("first\n  {} second  \n", UNFINISHED[0]);
    assert_eq!(leftover_lines(&text), [(2, format!("{} second", UNFINISHED[0]))]);
}

#[test]
fn the_debug_form_of_a_value_is_found_in_the_log_and_nowhere_else() {
    let table = [
        ("a field", "info!(?found, \"over\");", true),
        ("a renamed field", "info!(keys = ?ids, \"read\");", true),
        (
            "a field on a line of its own",
            "    warn!(\n        moves,\n        ?lasts,\n        \"over\"\n    );",
            true,
        ),
        ("in the message", "error!(\"{found:?}\");", true),
        ("words", "info!(%found, vips = of(&all)?, \"over\");", false),
        ("after the call", "info!(\"over\");\nlet a = [b?, c?];", false),
        ("in another text", "format!(\"{found:?}\");", false),
    ];
    for (what, text, expected) in table {
        assert_eq!(!debug_lines(text).is_empty(), expected, "{what}: {text}");
    }
}

#[test]
fn scripts_are_known_by_their_first_line_or_their_name() {
    let table = [
        (".ci/run", "#!/usr/bin/env bash\nset -e", Some("bash")),
        ("a", "#!/bin/bash -e\n", Some("bash")),
        ("a", "#!/bin/sh\n", Some("sh")),
        ("a.sh", "echo\n", Some("sh")),
        ("a.sh", "#!/usr/bin/python3\n", None),
        ("a.rs", "#![no_std]\n", None),
        ("a.rs", "fn main() {}\n", None),
        ("empty", "", None),
    ];
    for (file, text, expected) in table {
        assert_eq!(shell_of(file, text), expected, "{file}: {text:?}");
    }
}
