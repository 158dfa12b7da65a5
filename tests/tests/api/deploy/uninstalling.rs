//! The commands that uninstall Vipward, from the page.

use std::fs;
use std::net::TcpListener;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;
use vipward_tests::{
    apiserver::{ApiServer, Options},
    kit::{Process, SpawnOptions},
};

use super::{documents, find, in_checkout, read, skipped};

const BASE: &str = "deploy/kubernetes/base";
/// A time longer than any of the commands takes without an agent that has to end.
const PATIENCE: Duration = Duration::from_secs(30);

/// Returns the commands of the first block under "Uninstalling", without their comments.
fn commands() -> Result<Vec<String>> {
    let page = read(&in_checkout("docs/kubernetes/README.md"))?;
    let section = page.split("\n## Uninstalling\n").nth(1).context("no section Uninstalling")?;
    let block = section.split("```sh\n").nth(1).and_then(|rest| rest.split("```").next());
    let block = block.context("no block of commands")?;
    let commands = block.lines().filter_map(|line| line.split(" #").next());
    let commands: Vec<_> = commands.map(|line| line.trim().to_owned()).collect();
    ensure!(commands.iter().any(|line| line.contains(BASE)), "the base is not deleted: {commands:#?}");
    Ok(commands)
}

/// Returns the objects of the base.
fn base() -> Result<Vec<Value>> {
    let kustomization = documents(&in_checkout(BASE).join("kustomization.yaml"))?.remove(0);
    let files = super::strings(&kustomization["resources"])?;
    let files = files.into_iter().map(|file| documents(&in_checkout(BASE).join(file)));
    Ok(files.collect::<Result<Vec<_>>>()?.concat())
}

/// A cluster with all objects of the base, after the agents have ended.
struct Installed {
    _server: ApiServer,
    home: TempDir,
}

impl Installed {
    fn new() -> Result<Self> {
        const GROUP: &str = "rbac.authorization.k8s.io";
        let server = ApiServer::start(TcpListener::bind("127.0.0.1:0")?, Options::default())?;
        for object in base()? {
            server.load_object(object)?;
        }
        server.add_user("", "operator");
        server.load_object(json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": "ClusterRole", "metadata": {"name": "operator"},
            "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}],
        }))?;
        server.load_object(json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": "operator"},
            "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": "operator"},
            "subjects": [{"apiGroup": GROUP, "kind": "User", "name": "operator"}],
        }))?;
        let home = TempDir::new()?;
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": server.url()}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": ""}}],
        });
        fs::write(home.path().join("kubeconfig"), kubeconfig.to_string())?;
        Ok(Self { _server: server, home })
    }

    /// Runs a command in the checkout. Returns its output.
    fn run(&self, line: &str) -> Result<String> {
        let mut command = Command::new("sh");
        command.args(["-ec", line]).current_dir(in_checkout(""));
        command.env("HOME", self.home.path()).env("KUBECONFIG", self.home.path().join("kubeconfig"));
        let mut process = Process::spawn(command, &SpawnOptions::default())?;
        let ended = process.wait(PATIENCE)?;
        ensure!(ended.success(), "`{line}` ended with {ended}: {}", process.transcript());
        Ok(process.stdout())
    }
}

#[test]
fn the_documented_commands_end_without_an_error_and_leave_nothing() -> Result<()> {
    if find("kubectl").is_none() {
        skipped("kubectl is not installed, so that the commands that uninstall cannot be run");
        return Ok(());
    }
    let installed = Installed::new()?;
    let left = format!("kubectl get -k {BASE} --ignore-not-found -o name");
    assert_eq!(installed.run(&left)?.lines().count(), base()?.len());
    for line in commands()? {
        installed.run(&line)?;
    }
    assert_eq!(installed.run(&left)?, "");
    Ok(())
}

/// Checks the text of the commands, without kubectl.
#[test]
fn the_documented_commands_wait_for_the_agents_and_expect_their_daemon_set_to_be_gone() -> Result<()> {
    let commands = commands()?;
    let first = commands.iter().position(|line| line.contains("delete daemonset vipward"));
    let first = first.with_context(|| format!("the agents are not ended: {commands:#?}"))?;
    for (at, line) in commands.iter().enumerate().filter(|(_, line)| line.contains(BASE)) {
        assert!(at > first, "the agents lose their permissions before they end: {commands:#?}");
        assert!(line.contains("--ignore-not-found"), "it fails at the DaemonSet, which is gone: {line}");
    }
    assert!(commands[first].contains("--cascade=foreground"), "the agents are not waited for: {commands:#?}");
    Ok(())
}
