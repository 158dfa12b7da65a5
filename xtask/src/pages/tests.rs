use super::*;

fn pages(texts: &[(&str, &str)]) -> Pages {
    texts.iter().map(|(name, text)| ((*name).to_owned(), Page::of(text))).collect()
}

#[test]
fn a_heading_has_githubs_anchor() {
    let table = [
        ("# One word", "one-word"),
        ("## `-o json`, and what it prints!", "-o-json-and-what-it-prints"),
        ("# A/B: snake_case", "ab-snake_case"),
        ("# [A link](b.md) to *it*", "a-link-to-it"),
        ("# Größe", "größe"),
    ];
    for (heading, expected) in table {
        assert_eq!(Page::of(heading).anchors, [expected.to_owned()].into(), "{heading}");
    }
    let twice = Page::of("# A\n\n# A\n\n```\n# no heading\n```\n");
    assert_eq!(twice.anchors, ["a", "a-1"].map(str::to_owned).into());
    let tag = Page::of("| a |\n|---|\n| <a id=\"here\"></a>b |\n");
    assert_eq!(tag.anchors, ["here".to_owned()].into());
}

#[test]
fn a_link_leads_from_the_folder_of_its_page() {
    let table = [
        ("README.md", "docs/a.md", Some("docs/a.md")),
        ("docs/x/a.md", "../b.md#c", Some("docs/b.md")),
        ("docs/x/a.md", "../../README.md", Some("README.md")),
        ("docs/x/a.md", "#here", Some("docs/x/a.md")),
        ("docs/x/a.md", "../../deploy/", Some("deploy")),
        ("docs/a.md", "../../out.md", None),
        ("docs/a.md", "/docs/a.md", None),
    ];
    for (page, target, expected) in table {
        assert_eq!(path_of(page, target).as_deref(), expected, "{page}: {target}");
    }
}

#[test]
fn links_that_lead_nowhere_and_pages_that_no_door_has_are_found() {
    let table = [
        ("a heading of another page", "[x](docs/a.md#part)", vec![]),
        ("a file that is no page", "[x](deploy/x.yaml#L3)", vec![]),
        ("another site", "[x](https://example.org/none.md)", vec![]),
        ("a link in code", "`[x](none.md)`", vec![]),
        ("no such file", "\n[x](none.md)", vec!["README.md:2: there is no none.md"]),
        ("no such heading", "[x](docs/a.md#none)", vec!["README.md:1: docs/a.md has no heading #none"]),
        ("no such heading here", "[x](#none)", vec!["README.md:1: README.md has no heading #none"]),
        ("an image", "![x](none.svg)", vec!["README.md:1: there is no none.svg"]),
        ("in a table", "| a |\n|---|\n| [x](none.md) |", vec!["README.md:3: there is no none.md"]),
        ("by reference", "[x][y]\n\n[y]: none.md", vec!["README.md:1: there is no none.md"]),
    ];
    for (what, text, expected) in table {
        let pages = pages(&[("README.md", text), ("docs/a.md", "# A\n## Part\n"), (SUMMARY, "[a](a.md)")]);
        let exists = |path: &str| pages.contains_key(path) || path == "deploy/x.yaml";
        assert_eq!(faults(&pages, exists), expected, "{what}");
    }
    let pages = pages(&[("docs/a.md", ""), ("docs/b.md", ""), ("deploy/c.md", ""), (SUMMARY, "[a](a.md)")]);
    assert_eq!(faults(&pages, |path| pages.contains_key(path)), ["docs/SUMMARY.md lacks docs/b.md"]);
}

#[test]
fn prose_is_wrapped_and_tables_and_code_need_not_be() {
    let long = "é ".repeat(51);
    let table = [
        ("prose", format!("short\n{long}."), vec![2]),
        ("not too long", "é".repeat(100), vec![]),
        ("an item", format!("- {long}."), vec![1]),
        ("a table", format!("| a |\n|---|\n| {long} |\n"), vec![]),
        ("after a table", format!("| a |\n|---|\n| b |\n\n{long}."), vec![5]),
        ("code", format!("```\n{long}.\n```\n"), vec![]),
        ("code at the end", format!("```\n{long}.\n```"), vec![]),
        ("code in an item", format!("- a\n\n  ```\n  {long}.\n  ```\n"), vec![]),
    ];
    for (what, text, expected) in table {
        assert_eq!(Page::of(&text).long, expected, "{what}");
    }
}
