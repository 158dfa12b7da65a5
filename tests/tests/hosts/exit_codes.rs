//! The exit code of each command in each situation, with what it says.

use std::{
    collections::BTreeSet,
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use anyhow::{Context, Result};
use serde_json::json;
use tempfile::TempDir;
use vipward_tests::{
    agent::{Agent, HOLDS_ONE, NODE, Node, VIP},
    apiserver::{ApiServer, FIRST, Options, SECOND, certificate_in},
    kit::output_of,
    lan::Host,
};

use super::nobody::{AS_NOBODY, copy_for_everybody};

const DONE: i32 = 0;
const FAILED: i32 = 1;
const WRONG_USE: i32 = 2;
const CONFIGURATION: i32 = 3;
const UNFIT: i32 = 4;
const NOT_ALONE: i32 = 5;
const NO_HOST: i32 = 6;
const BROKEN: i32 = 8;
/// The token of a user who may do nothing.
const GUEST: &str = "guest";

/// Where a command runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum On {
    /// The host of an agent that holds the VIP.
    Node,
    /// The same host, as a user without rights.
    NodeAsNobody,
    /// The same host, when the agent was killed.
    NodeOfTheDead,
    /// A host on which no agent has run.
    OtherHost,
    /// No kubeconfig.
    NoCluster,
    /// A kubeconfig that does not exist.
    NoFile,
    /// A kubeconfig without a context.
    NoContext,
    /// A kubeconfig of a server that does not run.
    NoServer,
    /// A kubeconfig whose CA does not sign the server's certificate.
    OtherCa,
    /// A kubeconfig of a user who may do nothing.
    Guest,
    /// A cluster without Vipward.
    Empty,
}

/// The situation, the command, its exit code, and what it says.
type Row = (On, &'static str, i32, &'static str);

/// `VIP`, `CONFIG` and `MISSING` stand for the VIP, the agent's file, and a file that does not exist.
const ROWS: &[Row] = &[
    (On::Node, "status", DONE, "192.0.2.10"),
    (On::Node, "doctor", DONE, ""),
    (On::Node, "explain VIP --config CONFIG", DONE, "No inspected step is broken"),
    (On::Node, "who-has VIP", DONE, ""),
    (On::Node, "unload", NOT_ALONE, "pid"),
    (On::Node, "agent --config CONFIG", NOT_ALONE, "pid"),
    (On::Node, "agent --check --config CONFIG", DONE, "192.0.2.10"),
    (On::Node, "agent --config MISSING", CONFIGURATION, "MISSING"),
    (On::NodeAsNobody, "status", UNFIT, "run as root"),
    (On::NodeAsNobody, "watch --plain", UNFIT, "run as root"),
    (On::NodeAsNobody, "doctor", UNFIT, ""),
    (On::NodeAsNobody, "explain VIP", UNFIT, "run it as root (sudo)"),
    (On::NodeAsNobody, "who-has VIP", UNFIT, "CAP_NET_RAW"),
    (On::NodeAsNobody, "unload", UNFIT, "denied"),
    (On::NodeAsNobody, "agent --config CONFIG", UNFIT, "CAP_BPF"),
    (On::NodeAsNobody, "kubernetes --node-name n --kubeconfig MISSING", UNFIT, "CAP_BPF"),
    (On::NodeAsNobody, "agent --check --config CONFIG", DONE, "192.0.2.10"),
    (On::NodeAsNobody, "version", DONE, "vipward "),
    (On::NodeAsNobody, "crd", DONE, "virtualips"),
    (On::NodeAsNobody, "completions bash", DONE, "complete"),
    (On::NodeOfTheDead, "status", DONE, "192.0.2.10"),
    (On::NodeOfTheDead, "doctor", DONE, "no agent uses"),
    (On::NodeOfTheDead, "explain VIP --config CONFIG", DONE, "No inspected step is broken; doubtful: "),
    (On::NodeOfTheDead, "unload", DONE, "removed"),
    (On::OtherHost, "status", FAILED, "nothing is pinned"),
    (On::OtherHost, "watch --plain", FAILED, "nothing is pinned"),
    (On::OtherHost, "explain VIP", FAILED, "No step could be inspected"),
    (On::OtherHost, "who-has VIP", FAILED, "in the subnet of no up Ethernet interface"),
    (On::OtherHost, "who-has VIP -i lo", FAILED, "no Ethernet interface"),
    (On::OtherHost, "unload", DONE, "nothing of Vipward's is pinned under"),
    (On::NoCluster, "status --cluster", CONFIGURATION, "found no kubeconfig"),
    (On::NoCluster, "pools", CONFIGURATION, "found no kubeconfig"),
    (On::NoCluster, "move VIP --to n", CONFIGURATION, "found no kubeconfig"),
    (On::NoCluster, "release VIP", CONFIGURATION, "found no kubeconfig"),
    (On::NoCluster, "wire init", CONFIGURATION, "found no kubeconfig"),
    (On::NoCluster, "wire rotate", CONFIGURATION, "found no kubeconfig"),
    (On::NoCluster, "uninstall --dry-run", CONFIGURATION, "found no kubeconfig"),
    (On::NoCluster, "explain apps/web", FAILED, "no kubeconfig"),
    (On::NoCluster, "controller", CONFIGURATION, "found no kubeconfig"),
    (On::NoFile, "status --cluster", CONFIGURATION, "missing.yaml: No such file or directory (os error 2)\n"),
    (On::NoFile, "pools", CONFIGURATION, "No such file or directory (os error 2)\n"),
    (On::NoFile, "move VIP --to n", CONFIGURATION, "No such file or directory (os error 2)\n"),
    (On::NoFile, "release VIP", CONFIGURATION, "No such file or directory (os error 2)\n"),
    (On::NoFile, "wire init", CONFIGURATION, "No such file or directory (os error 2)\n"),
    (On::NoFile, "uninstall --dry-run", CONFIGURATION, "No such file or directory (os error 2)\n"),
    (On::NoFile, "explain VIP", CONFIGURATION, "No such file or directory (os error 2)\n"),
    (On::NoContext, "status --cluster", CONFIGURATION, "current context"),
    (On::NoContext, "explain VIP", CONFIGURATION, "current context"),
    (On::NoServer, "status --cluster", FAILED, "no connection to http://127.0.0.1:1: Connection refused"),
    (On::NoServer, "pools", FAILED, "no connection to http://127.0.0.1:1"),
    (On::NoServer, "move VIP --to n", FAILED, "no connection to http://127.0.0.1:1"),
    (On::NoServer, "release VIP", FAILED, "no connection to http://127.0.0.1:1"),
    (On::NoServer, "wire init", FAILED, "no connection to http://127.0.0.1:1"),
    (On::NoServer, "uninstall --dry-run", FAILED, "no connection to http://127.0.0.1:1"),
    (On::NoServer, "explain VIP", BROKEN, "the API server cannot be read"),
    (On::OtherCa, "status --cluster", FAILED, "the certificate-authority of the kubeconfig"),
    (On::OtherCa, "pools", FAILED, "does not sign it"),
    (On::OtherCa, "move VIP --to n", FAILED, "does not sign it"),
    (On::OtherCa, "release VIP", FAILED, "does not sign it"),
    (On::OtherCa, "explain VIP", BROKEN, "does not sign it"),
    (
        On::Guest,
        "status --cluster",
        UNFIT,
        "403: virtualips.vipward.io is forbidden: User \"guest\" cannot list",
    ),
    (On::Guest, "pools", UNFIT, "cannot list resource \"vippools\""),
    (On::Guest, "move VIP --to n", UNFIT, "cannot get resource \"virtualips\""),
    (On::Guest, "release VIP", UNFIT, "cannot get resource \"virtualips\""),
    (On::Guest, "wire init", UNFIT, "cannot create resource \"secrets\""),
    (On::Guest, "explain VIP", BROKEN, "not allowed to list"),
    (On::Empty, "status --cluster", FAILED, "Vipward is not installed there"),
    (On::Empty, "pools", FAILED, "Vipward is not installed there"),
    (On::Empty, "move VIP --to n", FAILED, "Vipward is not installed there"),
    (On::Empty, "release VIP", FAILED, "Vipward is not installed there"),
    (On::Empty, "explain VIP", BROKEN, "does not know virtualips"),
];

/// The places, with what is there. The order is that of dropping.
struct Places {
    node: Node,
    other: Host,
    server: ApiServer,
    directory: TempDir,
    /// The binary, for each user.
    binary: PathBuf,
}

impl Places {
    fn new() -> Result<Self> {
        let node = Node::start("exit-codes", &format!("shutdown: keep\n{HOLDS_ONE}"))?;
        node.wait_until_answered(VIP, NODE)?;
        let directory = TempDir::new()?;
        let binary = copy_for_everybody(&Agent::default_binary(), &directory, "vipward")?;
        fs::copy(node.agent.config_path(), directory.path().join("config.yaml"))?;
        let server = ApiServer::start(TcpListener::bind("127.0.0.1:0")?, Options::default())?;
        server.set_certificate(FIRST.as_bytes())?;
        server.add_user(GUEST, GUEST);
        fs::write(directory.path().join("ca.crt"), certificate_in(SECOND))?;
        let places = Self { node, other: Host::new("other")?, server, directory, binary };
        let secure = places.server.url().replace("http:", "https:");
        let ca = places.path("ca.crt");
        for (name, cluster, token) in [
            ("no-server", json!({"server": "http://127.0.0.1:1"}), "admin"),
            ("other-ca", json!({"server": secure, "certificate-authority": ca}), "admin"),
            ("guest", json!({"server": places.server.url()}), GUEST),
            ("empty", json!({"server": places.server.url()}), "admin"),
        ] {
            let kubeconfig = json!({
                "apiVersion": "v1", "kind": "Config", "current-context": "c",
                "clusters": [{"name": "c", "cluster": cluster}],
                "users": [{"name": "u", "user": {"token": token}}],
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            });
            fs::write(places.path(name), kubeconfig.to_string())?;
        }
        fs::write(places.path("no-context"), "apiVersion: v1\nkind: Config\n")?;
        Ok(places)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Runs a command somewhere.
    fn run(&self, on: On, line: &str) -> Result<Output> {
        let mut command = match on {
            On::Node | On::NodeOfTheDead => self.node.host.command(&self.binary),
            On::NodeAsNobody => {
                let mut command = self.node.host.command("setpriv");
                command.args(AS_NOBODY).arg(&self.binary);
                command
            }
            On::OtherHost => self.other.command(&self.binary),
            On::NoCluster
            | On::NoFile
            | On::NoContext
            | On::NoServer
            | On::OtherCa
            | On::Guest
            | On::Empty => Command::new(&self.binary),
        };
        let kubeconfig = match on {
            On::Node | On::NodeAsNobody | On::NodeOfTheDead | On::OtherHost | On::NoCluster => None,
            On::NoFile => Some("missing.yaml"),
            On::NoContext => Some("no-context"),
            On::NoServer => Some("no-server"),
            On::OtherCa => Some("other-ca"),
            On::Guest => Some("guest"),
            On::Empty => Some("empty"),
        };
        let word = |word: &str| match word {
            "VIP" => VIP.to_string(),
            "CONFIG" => self.path("config.yaml").display().to_string(),
            "MISSING" => self.path("MISSING").display().to_string(),
            word => word.to_owned(),
        };
        command.args(line.split(' ').map(word)).env_remove("KUBECONFIG").env("HOME", self.path("home"));
        if let Some(kubeconfig) = kubeconfig {
            command.arg("--kubeconfig").arg(self.path(kubeconfig));
        }
        let subcommand = line.split(' ').next().unwrap_or_default();
        let looks = ["status", "watch", "doctor", "explain", "who-has", "unload", "agent", "kubernetes"];
        if looks.contains(&subcommand) {
            command.arg("--pin-dir").arg(self.pin_dir(on));
        }
        Ok(command.output()?)
    }

    fn pin_dir(&self, on: On) -> PathBuf {
        let there: &Path = &self.node.agent.options.pin_dir;
        match on {
            On::Node | On::NodeAsNobody | On::NodeOfTheDead => there.to_owned(),
            _ => self.path("pins"),
        }
    }
}

#[test]
fn each_command_ends_with_the_code_of_its_help_and_says_why() -> Result<()> {
    let mut places = Places::new()?;
    let mut wrong = Vec::new();
    for (on, line, code, words) in ROWS {
        if *on == On::NodeOfTheDead && places.node.agent.pid().is_ok() {
            places.node.agent.kill9()?;
        }
        let output = places.run(*on, line)?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let said = text(&output.stdout) + &text(&output.stderr);
        if output.status.code() != Some(*code) || !said.contains(words) {
            wrong.push(format!(
                "{on:?}: {line}: {:?}, not {code} with {words:?}:\n{said}",
                output.status.code()
            ));
        }
        // Neither a cause nor a value stands twice in an error, and none is in the form of Rust.
        for line in text(&output.stderr).lines().filter(|line| line.starts_with("error: ")) {
            let causes: Vec<&str> = line.split(": ").collect();
            let twice = causes.windows(2).any(|pair| pair[0] == pair[1]);
            if twice || ["Some(", "None", "Ok(", "Err(", " { "].iter().any(|form| line.contains(form)) {
                wrong.push(format!("{on:?}: {line}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

#[test]
fn the_table_has_each_command_and_a_wrong_option_is_wrong_use() -> Result<()> {
    let mut help = Command::new(Agent::default_binary());
    help.arg("--help");
    let help = output_of(help)?;
    let lists = help.split("\nOptions:").next().context("no options")?;
    let commands: BTreeSet<&str> = lists
        .lines()
        .filter_map(|line| line.strip_prefix("  ").filter(|line| !line.starts_with(' '))?.split(' ').next())
        .collect();
    let in_table: BTreeSet<&str> = ROWS.iter().filter_map(|(_, line, ..)| line.split(' ').next()).collect();
    assert_eq!(commands, in_table);
    for command in commands {
        let output = Command::new(Agent::default_binary()).args([command, "--no-such-option"]).output()?;
        assert_eq!(output.status.code(), Some(WRONG_USE), "{command}");
    }
    Ok(())
}

#[test]
fn no_host_that_answers_is_a_code_of_its_own() -> Result<()> {
    let node = Node::start("no-host", "vips: []\n")?;
    let mut command = node.agent.vipward("who-has")?;
    command.args(["192.0.2.77", "--count", "1"]);
    assert_eq!(command.output()?.status.code(), Some(NO_HOST));
    Ok(())
}
