use super::*;

/// Returns the faults of a crate with these files.
fn faults_of(files: &[(&str, &str)]) -> Vec<String> {
    let sources = files.iter().map(|(file, text)| ((*file).to_owned(), (*text).to_owned())).collect();
    faults(&sources).expect("valid Rust").into_iter().collect()
}

fn fields(count: usize) -> String {
    (0..count).map(|field| format!("f{field}: u8,\n")).collect::<Vec<_>>().concat()
}

/// Returns the imports of the crate's circles, as "importer names definer".
fn circles_of(files: &[(&str, &str)]) -> Vec<String> {
    let arrows = faults_of(files).into_iter().filter_map(|fault| {
        let (from, rest) = fault.trim().split_once(" imports ")?;
        let (names, to) = rest.split_once(" of ")?;
        Some(format!("{from} {names} {to}").replace('`', ""))
    });
    arrows.collect()
}

#[test]
fn a_circle_is_found_however_a_file_writes_the_import() {
    let table: &[(&str, &str, &[&str])] = &[
        ("by a name", "use crate::b::B;\npub struct A(B);", &["a.rs B b.rs"]),
        ("under another name", "use crate::b::B as C;\npub struct A(C);", &["a.rs B b.rs"]),
        ("by an inline path", "pub struct A(crate::b::B);", &["a.rs B b.rs"]),
        ("by a path from its parent", "pub struct A(super::b::B);", &["a.rs B b.rs"]),
        ("by an imported module", "use crate::b;\npub struct A(b::B);", &["a.rs B b.rs"]),
        ("by a glob", "use crate::b::*;\npub struct A(B);", &["a.rs B b.rs"]),
        ("by a re-export", "use crate::B;\npub struct A(B);", &["a.rs B b.rs"]),
        ("by a glob of re-exports", "use crate::*;\npub struct A(B);", &["a.rs B b.rs"]),
        ("by a re-export that it uses", "pub use crate::b::B;\npub struct A(B);", &["a.rs B b.rs"]),
        ("in a function", "pub struct A;\nfn f() { use crate::b::B; }", &["a.rs B b.rs"]),
        ("in a macro's call", "pub struct A;\nfn f() { x!(1, crate::b::B::new()) }", &["a.rs B b.rs"]),
        (
            "after a quote in a macro's call",
            "pub use crate::b::B;\npub struct A;\nx!('\"', B);",
            &["a.rs B b.rs"],
        ),
        ("after a raw string", "pub use crate::b::B;\npub struct A;\nx!(r#\"\"\"#, B);", &["a.rs B b.rs"]),
        ("after a backslash", "pub use crate::b::B;\npub struct A;\nx!(\"\\\\\", B);", &["a.rs B b.rs"]),
        ("in an attribute", "#[serde(with = \"crate::b::B\")]\npub struct A;", &["a.rs B b.rs"]),
        ("in braces", "pub struct A;\nmod c { use super::super::b::B; }", &["a.rs B b.rs"]),
        ("not at all", "pub struct A;", &[]),
        ("a re-export that it does not use", "pub use crate::b::B;\npub struct A;", &[]),
        ("a string", "pub use crate::b::B;\npub struct A;\nx!(r#\"\" B\"#);", &[]),
        ("a method", "pub struct A;\nfn f(b: u8) { b.clone() }", &[]),
        ("a module alone", "use crate::b;\npub struct A;", &[]),
        ("another crate's name", "use b::B;\npub struct A(B);", &[]),
        ("in tests", "pub struct A;\n#[cfg(test)]\nmod tests {\n    use crate::b::B;\n}", &[]),
        ("in a function for tests", "pub struct A;\n#[cfg(test)]\nfn f(b: crate::b::B) {}", &[]),
        (
            "in a method for tests",
            "pub struct A;\nimpl A {\n    #[cfg(test)]\n    fn f(b: crate::b::B) {}\n}",
            &[],
        ),
        ("in a comment", "/// [`crate::b::B`]\npub struct A;", &[]),
    ];
    for (what, a, expected) in table {
        let lib = "mod a;\nmod b;\npub use b::B;\npub use a::A;";
        let found =
            circles_of(&[("src/lib.rs", lib), ("src/a.rs", a), ("src/b.rs", "pub struct B(crate::a::A);")]);
        let found: Vec<_> = found.iter().map(|arrow| arrow.replace("src/", "")).collect();
        let back = if expected.is_empty() { None } else { Some("b.rs A a.rs") };
        assert_eq!(found, expected.iter().copied().chain(back).collect::<Vec<_>>(), "{what}");
    }
}

#[test]
fn a_parent_and_its_child_are_a_circle_if_both_use_each_others_names() {
    let child = "pub struct B(super::A);";
    let table = [
        ("a face", "mod a;\npub use a::B;", 0),
        ("the parent defines", "mod a;\npub use a::B;\npub struct A;", 0),
        ("and uses", "mod a;\npub use a::B;\npub struct A;\nfn f(b: B) {}", 2),
    ];
    for (what, parent, expected) in table {
        assert_eq!(circles_of(&[("src/lib.rs", parent), ("src/a.rs", child)]).len(), expected, "{what}");
    }
}

#[test]
fn a_macro_counts_where_it_is_defined() {
    let lib = [("src/lib.rs", "#[macro_use]\nmod a;\nmod b;")];
    let a = ("src/a.rs", "macro_rules! m { () => {}; }\nuse crate::b::B;");
    let b = ("src/b.rs", "m!();\npub struct B;");
    assert_eq!(circles_of(&[lib[0], a, b]), ["src/a.rs B src/b.rs", "src/b.rs m! src/a.rs"]);
}

#[test]
fn a_circle_of_three_is_one_fault_that_lists_its_arrows() {
    let files = [
        ("fuzz_targets/f.rs", "mod a;\nmod b;\nmod c;\nuse a::A;"),
        ("fuzz_targets/a.rs", "pub struct A(super::b::B);"),
        ("fuzz_targets/f/b.rs", "pub struct B(super::c::C, super::c::D);"),
        ("fuzz_targets/c.rs", "pub struct C(super::a::A);\npub struct D;"),
    ];
    let expected = [
        format!("3 files import each other. {}", circles::WAY_OUT),
        "  fuzz_targets/a.rs imports `B` of fuzz_targets/f/b.rs".to_owned(),
        "  fuzz_targets/c.rs imports `A` of fuzz_targets/a.rs".to_owned(),
        "  fuzz_targets/f/b.rs imports `C`, `D` of fuzz_targets/c.rs".to_owned(),
    ];
    assert_eq!(faults_of(&files), expected);
}

#[test]
fn rooms_import_only_earlier_rooms_of_the_list() {
    const UPWARDS: &str = "src/low.rs imports `T` of src/top/in_it.rs, but `top` comes later than `low` in the \
        list of src/lib.rs: move them to an earlier room";
    let house =
        |list: &str| format!("//! Things.\n//!\n//! {}\n//!\n{list}\nmod low;\nmod top;\n", order::HEADING);
    let full = "//! - [`low`]: the low\n//!   things.\n//! - `top`: the others.\n";
    let low = |text: &'static str| {
        [("src/low.rs", text), ("src/top.rs", "mod in_it;"), ("src/top/in_it.rs", "pub struct T;")]
    };
    let table = [
        ("no list", String::new(), low("use crate::top::in_it::T;"), None),
        ("in order", house(full), low(""), None),
        ("upwards", house(full), low("use crate::top::in_it::T;"), Some(UPWARDS)),
        ("by a re-export", house(full), low("pub use crate::top::in_it::T;"), Some(UPWARDS)),
        (
            "by a re-export of all",
            house(full),
            low("pub(crate) use crate::top::in_it::*;"),
            Some(
                "src/low.rs imports `*` of src/top/in_it.rs, but `top` comes later than `low` in the list of \
                 src/lib.rs: move them to an earlier room",
            ),
        ),
        (
            "from the module with the list",
            house(full) + "pub struct X;",
            low("use crate::X;"),
            Some(
                "src/low.rs imports `X` of src/lib.rs, but rooms import nothing of the module with their list: \
                 move them to an earlier room",
            ),
        ),
        (
            "another heading",
            "//! Files and rooms, Lowest first; in this order.\nmod low;\nmod top;".to_owned(),
            low(""),
            Some(
                "src/lib.rs: \"Files and rooms, Lowest first; in this order.\" heads no list: write `//! Rooms, \
                 lowest first. Each imports only rooms above it in this list.`",
            ),
        ),
        (
            "not listed",
            house("//! - `low`: it.\n"),
            low(""),
            Some("src/lib.rs: its list of rooms lacks the module `top`"),
        ),
        (
            "twice",
            house(&format!("{full}//! - `low`: again.\n")),
            low(""),
            Some("src/lib.rs: its list of rooms repeats the module `low`"),
        ),
        (
            "no module",
            house(&format!("{full}//! - `attic`: nothing.\n")),
            low(""),
            Some("src/lib.rs: its list of rooms has what is no module in it, `attic`"),
        ),
    ];
    for (what, lib, rooms, expected) in table {
        let lib = if lib.is_empty() { "mod low;\nmod top;".to_owned() } else { lib };
        let files = [&[("src/lib.rs", lib.as_str())], &rooms[..]].concat();
        assert_eq!(faults_of(&files), Vec::from_iter(expected), "{what}");
    }
}

#[test]
fn a_house_lists_its_rooms_and_some_have_few() {
    let house = "agent/src/shell.rs";
    let names: Vec<_> = ('a'..='k').map(String::from).collect();
    let mods = names.iter().map(|name| format!("mod {name};\n")).collect::<Vec<_>>().concat();
    let list = names.iter().map(|name| format!("//! - `{name}`: it.\n")).collect::<Vec<_>>().concat();
    let files: Vec<_> = names.iter().map(|name| (format!("agent/src/shell/{name}.rs"), "")).collect();
    let agent = format!("//! {}\n//! - `shell`: it.\nmod shell;", order::HEADING);
    let found = |shell: &str| {
        let shell = [("agent/src/lib.rs", agent.as_str()), (house, shell)];
        faults_of(
            &shell
                .into_iter()
                .chain(files.iter().map(|(file, text)| (file.as_str(), *text)))
                .collect::<Vec<_>>(),
        )
    };
    assert_eq!(
        found(&mods),
        [format!("agent/src/shell.rs lacks the list of its rooms below `//! {}`", order::HEADING)]
    );
    let shell = format!("//! {}\n{list}{mods}", order::HEADING);
    assert_eq!(found(&shell), ["agent/src/shell.rs has 11 rooms, more than 10: join some"]);
    for (house, _) in order::HOUSES {
        assert_eq!(faults_of(&[(house, "")]).len(), 1, "{house}");
    }
}

#[test]
fn large_folders_lines_and_structs_are_found() {
    let files = |end: &str| (0..12).map(|name| format!("src/m{name}{end}")).collect::<Vec<_>>();
    // A module's file and its folder are one entry.
    let files = [files(".rs"), files("/x.rs"), files("_b/x.rs")].concat();
    let text = |file: &str| if file.ends_with("/x.rs") { "" } else { "mod x;" };
    let crowd: Vec<_> =
        files.iter().map(|file| (file.as_str(), text(file))).chain([("src/y.rs", "")]).collect();
    assert_eq!(faults_of(&crowd), ["src has 25 entries, more than 24: make rooms in it"]);
    assert_eq!(faults_of(&crowd[..36]), Vec::<String>::new());

    let line = |length: usize| format!("// {}", "ü".repeat(length - 3));
    assert_eq!(faults_of(&[("src/lib.rs", &line(120))]), Vec::<String>::new());
    let long = format!("\n{}", line(121));
    assert_eq!(
        faults_of(&[("src/lib.rs", &long)]),
        ["src/lib.rs:2 has 121 characters, more than 120: break it"]
    );

    let large = |head: &str, count| {
        faults_of(&[("src/lib.rs", &format!("{head} struct Large {{ {} }}", fields(count)))])
    };
    assert_eq!(large("", 25), Vec::<String>::new());
    assert_eq!(large("", 26), ["src/lib.rs: `Large` has 26 fields, more than 25: group some in structs"]);
    assert_eq!(large("#[derive(Clone, serde::Serialize)]", 26), Vec::<String>::new());
    assert_eq!(large("#[cfg(test)]", 26), Vec::<String>::new());
}

#[test]
fn what_is_no_rust_is_an_error() {
    let sources = |text: &str| Sources::from([("src/lib.rs".to_owned(), text.to_owned())]);
    assert_eq!(faults(&sources("fn")).expect_err("no Rust").to_string(), "failed to parse src/lib.rs");
    let error = faults(&sources("mod a;")).expect_err("no file").to_string();
    assert_eq!(error, "src/lib.rs has `mod a`, but there is no src/lib/a.rs");
    let files = [("src/lib.rs", "// mod a;"), ("src/a.rs", "")];
    let error = faults(&files.map(|(file, text)| (file.to_owned(), text.to_owned())).into());
    let expected = "src/a.rs belongs to no crate: remove it, or write `mod a;` in its parent";
    assert_eq!(error.expect_err("an orphan").to_string(), expected);
}
