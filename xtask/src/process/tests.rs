use super::*;

#[test]
fn a_command_is_shown_as_one_would_type_it() {
    let mut command = Command::new("apt-get");
    command.args(["install", "-y", "a package", "it's", ""]);
    assert_eq!(shown(&command), r"apt-get install -y 'a package' 'it'\''s' ''");
}

#[test]
fn a_failed_command_is_named_with_its_stderr() {
    let error = output(Command::new("sh").args(["-c", "echo sorry >&2; exit 3"])).expect_err("exit code 3");
    let message = error.to_string();
    assert!(message.contains("sh -c") && message.contains('3') && message.ends_with("sorry"), "{message}");
}

#[test]
fn a_program_that_is_missing_is_named() {
    let error = run(&mut Command::new("/nonexistent/program")).expect_err("no such program");
    assert!(error.to_string().contains("/nonexistent/program"), "{error}");
}

#[test]
fn an_unchanged_file_is_left_alone() {
    let path = env::temp_dir().join(format!("xtask-unchanged-{}", std::process::id()));
    assert!(write_if_changed(&path, b"one").expect("first write"));
    assert!(!write_if_changed(&path, b"one").expect("same content"));
    assert!(write_if_changed(&path, b"two").expect("other content"));
    assert_eq!(std::fs::read(&path).expect("written"), b"two");
    std::fs::remove_file(&path).expect("clean up");
}
