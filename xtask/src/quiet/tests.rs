use std::{env, path::PathBuf};

use super::*;

#[test]
fn the_line_has_the_step_how_far_cargo_is_and_the_time() {
    let mut progress = Progress::default();
    let mut lines = Vec::new();
    assert_eq!(progress.line(Duration::ZERO), "looking for the tools … 0s");
    for (line, seconds) in [
        ("==> building the XDP program with rustc 1.96 (/usr/bin/rustc)", 2),
        ("    Building [=====>              ] 214/380: kube-core, syn", 72),
        ("   Compiling kube v1.0.0", 73),
        ("==> building the agent and the demo (about two minutes when nothing is built yet)", 3600),
    ] {
        let is_progress = progress.read(line);
        lines.push((is_progress, progress.line(Duration::from_secs(seconds))));
    }
    let expected = [
        (false, "building the XDP program with rustc 1.96 … 2s"),
        (true, "building the XDP program with rustc 1.96 214/380 … 1m12s"),
        (false, "building the XDP program with rustc 1.96 214/380 … 1m13s"),
        (false, "building the agent and the demo … 60m00s"),
    ];
    assert_eq!(lines, expected.map(|(is_progress, line)| (is_progress, line.to_owned())));
}

/// Runs a shell script. Returns its log, and the error.
fn run_script(name: &str, script: &str) -> Result<(String, Option<String>)> {
    let log: PathBuf = env::temp_dir().join(format!("vipward-quiet-{name}-{}", std::process::id()));
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    let error = run(command, &log).err().map(|error| format!("{error:#}"));
    let text = fs::read_to_string(&log)?;
    fs::remove_file(&log)?;
    Ok((text, error))
}

#[test]
fn the_log_has_both_streams_and_no_progress() -> Result<()> {
    let script =
        r"printf 'one\n'; printf '  Building [=>  ] 1/2: a\r  Building [==> ] 2/2\rtwo\n' >&2; printf three";
    let (log, error) = run_script("good", script)?;
    assert_eq!((log.as_str(), error), ("one\ntwo\nthree\n", None));
    Ok(())
}

#[test]
fn the_error_of_a_failed_command_has_the_last_lines_and_names_the_log() -> Result<()> {
    let (_, error) = run_script("bad", "seq 50; echo broken >&2; exit 3")?;
    let error = error.context("it did not fail")?;
    assert!(error.starts_with("32\n") && error.contains("broken"), "{error}");
    assert!(error.contains("vipward-quiet-bad") && error.contains("sh -c"), "{error}");
    Ok(())
}
