use clap::Parser;

use crate::cli::Cli;

fn error_of(args: &[&str]) -> String {
    match Cli::try_parse_from(["vipward", "kubernetes"].iter().chain(args)) {
        Ok(_) => "it is good".to_owned(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn probing_and_conflicts_have_the_limits_of_the_file() {
    let range = "is out of range; it must be between 1s and 30days";
    for (args, parts) in [
        (["--conflict-quiet", "1s"], &["it is good"][..]),
        (["--conflict-quiet", "30days"], &["it is good"]),
        (["--conflict-quiet", "0s"], &["'0s' for '--conflict-quiet <TIME>'", "`conflicts.quiet: 0s`", range]),
        (["--conflict-quiet", "999ms"], &["'999ms' for '--conflict-quiet <TIME>'", range]),
        (["--conflict-quiet", "31days"], &["'31days' for '--conflict-quiet <TIME>'", range]),
        (["--conflict-quiet", "soon"], &["`soon` is no duration for `conflicts.quiet`", "write it as 3s"]),
        (["--probe-repeat", "0s"], &["it is good"]),
        (["--probe-repeat", "1ms"], &["'1ms' for '--probe-repeat <TIME>'", "or 0s for no probes"]),
        (["--probe-interval", "1ms"], &["'1ms' for '--probe-interval <TIME>'", "between 10ms and 10s"]),
    ] {
        let said = error_of(&args);
        assert!(parts.iter().all(|part| said.contains(part)), "{args:?}: {parts:?} in {said}");
    }
}
