//! Logs and Events of agents and of the controller show the values of users in one short line.

use std::net::Ipv6Addr;

use anyhow::{Context, Result, ensure};
use tempfile::NamedTempFile;
use vipward_core::services::Annotations;
use vipward_tests::{
    agent::{Agent, Bpffs},
    cluster::{Cluster, ClusterOptions, N1, PATIENCE, ServiceSpec, scenario},
    kit::{Process, SpawnOptions, wait_for, wait_until},
};

/// Largest number of bytes of a line.
const LONGEST: usize = 6_000;
/// Largest number of bytes of an Event's note.
const LONGEST_NOTE: usize = 1_024;
/// The beginning of a line that no process writes.
const FORGED: &str = "2026-11-27T12:00:00.000000Z ERROR forged";
/// Annotations with values that are never wrong: any text is a key.
const ANYTHING: [&str; 2] = ["metallb.io/allow-shared-ip", "vipward.io/share"];
/// Annotations that only the controller has to find something for.
const OF_CONTROLLER: [&str; 2] = ["vipward.io/pool", "metallb.io/address-pool"];

fn options() -> ClusterOptions {
    ClusterOptions { nodes: 1, start_agents: false, with_controller: true, ..ClusterOptions::default() }
}

fn values() -> [(&'static str, String); 4] {
    [
        ("long", "x".repeat(200_000)),
        ("line", format!("a\n{FORGED}")),
        ("order", "a\x1b[31m\x1b]0;title\x07\u{9b}2J".to_owned()),
        ("bidi", "from right to left \u{202e}\u{2066}txt".to_owned()),
    ]
}

/// An agent with a text log on the first node. Fields are in the order of dropping.
struct TextAgent {
    process: Process,
    _kubeconfig: NamedTempFile,
    _bpffs: Bpffs,
}

impl TextAgent {
    fn start(cluster: &Cluster) -> Result<Self> {
        let (kubeconfig, bpffs) = (NamedTempFile::new()?, Bpffs::mount()?);
        std::fs::write(kubeconfig.path(), cluster.kubeconfig_of(N1)?)?;
        let mut command = cluster.member(N1)?.host.command(Agent::default_binary());
        command
            .args(["kubernetes", "--metallb", "--log-format", "text", "--kubeconfig"])
            .arg(kubeconfig.path());
        command.args([
            "--node-name",
            &cluster.node_name(N1),
            "--lease-namespace",
            cluster.system_namespace(),
        ]);
        command.arg("--pin-dir").arg(bpffs.pin_dir("n1"));
        let process = Process::spawn(command, &SpawnOptions::default())?;
        Ok(Self { process, _kubeconfig: kubeconfig, _bpffs: bpffs })
    }
}

/// Fails if a text has a character that a terminal obeys or that makes it other lines.
fn ensure_legible(text: &str, longest: usize) -> Result<()> {
    let is_bidi = |c: char| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let bad = text.chars().find(|c| c.is_control() || is_bidi(*c));
    ensure!(bad.is_none(), "{bad:?} in {text:?}");
    ensure!(text.len() <= longest, "{} bytes: {}…", text.len(), text.chars().take(300).collect::<String>());
    Ok(())
}

fn ensure_legible_log(who: &str, log: &str) -> Result<()> {
    ensure!(!log.is_empty(), "{who} logs something");
    for line in log.split_terminator('\n') {
        ensure_legible(line, LONGEST).with_context(|| format!("a line of {who}"))?;
        ensure!(!line.starts_with(FORGED), "a line of {who} that it has not written: {line}");
        let level = line.split_whitespace().nth(1).unwrap_or_default();
        ensure!(["INFO", "WARN", "ERROR"].contains(&level), "no line of {who}: {line:?}");
    }
    Ok(())
}

#[test]
fn no_annotation_makes_a_long_line_or_a_forged_one_or_reaches_a_terminal_by_log_or_event() -> Result<()> {
    scenario("words", options(), |cluster| {
        cluster.install_metallb()?;
        cluster.start_controller(1, &["--metallb", "--log-format", "text"])?;
        let agent = TextAgent::start(cluster)?;
        let mut services = Vec::new();
        for (number, annotation) in Annotations::NAMES.iter().enumerate() {
            for (what, value) in values() {
                let name = format!("{what}-{number}");
                let spec = ServiceSpec::without_address(&name).annotation(annotation, &value);
                cluster.create_service(&spec).with_context(|| format!("{annotation}: {what}"))?;
                services.push((*annotation, name));
            }
        }
        services.retain(|(annotation, _)| !ANYTHING.contains(annotation));
        let seen_by_agents = services.iter().filter(|(annotation, _)| !OF_CONTROLLER.contains(annotation));
        let seen_by_agents: Vec<_> = seen_by_agents.cloned().collect();
        let missing = |log: &str, services: &[(&'static str, String)]| {
            let is_named = |(annotation, name): &&(&str, String)| {
                let service = format!("/{name} ");
                log.lines().any(|line| line.contains(&service) && line.contains(annotation))
            };
            services.iter().find(|service| !is_named(service)).cloned()
        };
        for (who, services) in [("the controller", &services), ("the agent", &seen_by_agents)] {
            let mut last = None;
            let named = wait_until(PATIENCE, "a line about each Service", || {
                let log = match who {
                    "the agent" => agent.process.stderr(),
                    _ => cluster.controller(1)?.stderr(),
                };
                last = missing(&log, services);
                Ok(last.is_none())
            });
            named.with_context(|| format!("{who}: {last:?}"))?;
        }
        for (annotation, name) in &services {
            let note = cluster.wait_for_event(name, &[annotation])?.note;
            ensure_legible(&note, LONGEST_NOTE).with_context(|| format!("the Event about {name}"))?;
        }
        ensure_legible_log("the controller", &cluster.controller(1)?.stderr())?;
        ensure_legible_log("the agent", &agent.process.stderr())
    })
}

/// The API server sets no limit to the Services of a namespace, unless a quota does.
#[test]
fn the_controller_logs_the_number_of_problems_that_come_by_the_hundred() -> Result<()> {
    const SERVICES: u16 = 60;
    const ADDRESSES: u16 = 16;
    const MOST_LINES: usize = 100;
    scenario("manyword", options(), |cluster| {
        cluster.start_controller(1, &[])?;
        let address = |service, number| Ipv6Addr::new(0x2001, 0xdb8, 0xffff, 0, 0, 0, service, number).into();
        for service in 0..SERVICES {
            let addresses: Vec<_> = (1..=ADDRESSES).map(|number| address(service, number)).collect();
            cluster.create_service(&ServiceSpec::with_addresses(&format!("s{service}"), &addresses))?;
        }
        let problems = usize::from(SERVICES) * usize::from(ADDRESSES);
        let counted = wait_for(PATIENCE, "lines or numbers for all problems", || {
            let log = cluster.controller(1)?.stderr();
            let number = |line: &str| line.split_once(" lines=")?.1.split(' ').next()?.parse::<usize>().ok();
            let left_out =
                log.lines().filter(|line| line.ends_with(" of=\"a problem has begun\"")).filter_map(number);
            let own = log.lines().filter(|line| line.contains(" is not announced: ")).count();
            let all = own + left_out.sum::<usize>();
            Ok((all >= problems).then_some((own, all, log.lines().count())))
        })?;
        println!("lines of problems, problems, lines: {counted:?}");
        let (own, all, lines) = counted;
        ensure!(all == problems, "{all} instead of {problems}");
        ensure!(own < lines && lines <= MOST_LINES, "{lines} lines");
        Ok(())
    })
}
