use super::*;

fn counts(list: &[(&str, &str, u32)]) -> Counts {
    list.iter()
        .map(|(object, program, count)| (((*object).to_owned(), (*program).to_owned()), *count))
        .collect()
}

#[test]
fn a_program_may_take_a_tenth_more_than_listed_and_no_more() {
    let list = "# kernel object program instructions\n6.1 a.o x 100\n6.12 a.o x 200\n";
    let table = [
        ("as listed", "6.1", 100, true),
        ("a tenth more", "6.1", 110, true),
        ("more than that", "6.1", 111, false),
        ("less", "6.1", 1, true),
        ("another kernel's budget", "6.12", 111, true),
        ("a kernel without budgets", "6.18", 10_000, true),
    ];
    for (what, kernel, count, expected) in table {
        let checked = check_against(list, kernel, &counts(&[("a.o", "x", count)]));
        assert_eq!(checked.is_ok(), expected, "{what}: {checked:?}");
    }
}

#[test]
fn a_program_that_is_not_listed_is_a_fault_where_others_are() {
    let list = "6.1 a.o x 100\n";
    let new = counts(&[("a.o", "x", 100), ("a.o", "y", 7)]);
    let error = check_against(list, "6.1", &new).expect_err("y has no budget").to_string();
    assert!(error.contains("tests/verifier.txt lacks `6.1 a.o y 7`"), "{error}");
    assert!(check_against(list, "6.2", &new).is_ok());
}

#[test]
fn a_listed_program_that_is_gone_is_a_fault() {
    let error = check_against("6.1 a.o x 100\n6.1 a.o y 7\n", "6.1", &counts(&[("a.o", "x", 100)]));
    let error = error.expect_err("y is gone").to_string();
    assert!(error.contains("`6.1 a.o y`, which is not built any more"), "{error}");
}

#[test]
fn the_committed_list_has_every_kernel_of_the_virtual_machines() {
    for kernel in ["6.1", "6.12", "6.1-aarch64"] {
        let listed = parse(COUNTS, kernel).expect("a valid list");
        assert!(listed.contains_key(&("vipward.o".to_owned(), "vipward".to_owned())), "{kernel}");
    }
    assert!(parse("6.1 a.o x\n", "6.1").is_err());
}
