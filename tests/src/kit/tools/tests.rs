use super::*;

#[test]
fn a_tool_that_is_missing_is_a_failure_that_says_how_to_get_it() {
    let missing = find("no-such-tool").expect_err("no machine has it").to_string();
    assert_eq!(missing, "no-such-tool is not installed: run `cargo xtask setup`");
}

#[test]
fn tools_are_found_as_files() -> Result<()> {
    assert!(find("sh")?.is_file());
    Ok(())
}
