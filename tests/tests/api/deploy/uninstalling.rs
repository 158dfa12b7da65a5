//! Uninstalling: by `vipward uninstall`, and by the commands of the page.

use std::fs;
use std::net::TcpListener;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;
use vipward_tests::{
    agent::Agent,
    apiserver::{ApiServer, Options},
    kit::{Process, SpawnOptions},
};

use super::{NAMESPACE, documents, find, in_checkout, read, skipped};

const BASE: &str = "deploy/kubernetes/base";
/// A time longer than any of the commands takes without an agent that has to end.
const PATIENCE: Duration = Duration::from_secs(30);

/// Returns the commands of the block by hand under "Uninstalling", without their comments.
fn commands() -> Result<Vec<String>> {
    let page = read(&in_checkout("docs/kubernetes/README.md"))?;
    let section = page.split("\n## Uninstalling\n").nth(1).context("no section Uninstalling")?;
    let blocks = section.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    let block = blocks.into_iter().find(|block| block.contains("kubectl delete -k"));
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
    server: ApiServer,
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
        Ok(Self { server, home })
    }

    /// Runs `vipward uninstall`. Returns what it prints, and whether it succeeds.
    fn uninstall(&self, arguments: &[&str]) -> Result<(bool, String)> {
        let mut command = Command::new(Agent::default_binary());
        command.arg("uninstall").args(arguments).env("KUBECONFIG", self.home.path().join("kubeconfig"));
        let mut process = Process::spawn(command, &SpawnOptions::default())?;
        let ended = process.wait(PATIENCE)?;
        Ok((ended.success(), process.transcript()))
    }

    /// Returns the objects that there are, but for the operator's and Kubernetes' own.
    fn objects(&self) -> Result<Vec<String>> {
        const TYPES: &str = "namespaces,daemonsets,deployments,poddisruptionbudgets,clusterroles,\
            clusterrolebindings,roles,rolebindings,serviceaccounts,secrets,leases,\
            flowschemas,customresourcedefinitions,\
            validatingadmissionpolicies,validatingadmissionpolicybindings";
        let found = self.run(&format!("kubectl get --all-namespaces -o name {TYPES}"))?;
        let is_left =
            |line: &&str| !["/operator", "/default", "/kube-system"].iter().any(|it| line.ends_with(it));
        Ok(found.lines().filter(is_left).map(str::to_owned).collect())
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

/// Returns a claim that a node holds and that is reserved.
fn claim(metadata: &Value) -> Value {
    let mut claim = json!({
        "apiVersion": "vipward.io/v1alpha1", "kind": "VirtualIP", "metadata": {"name": "192.0.2.10"},
        "spec": {
            "address": "192.0.2.10", "epoch": 1, "holder": "a", "session": "0000000000000001",
            "mac": "02:00:00:00:01:01", "interface": "eth0",
            "reservation": {"service": "default/web", "pool": "lan"},
        },
    });
    json_patch::merge(&mut claim["metadata"], metadata);
    claim
}

fn without_kubectl() -> bool {
    let is_missing = find("kubectl").is_none();
    if is_missing {
        skipped("kubectl is not installed, so that what `vipward uninstall` leaves cannot be listed");
    }
    is_missing
}

#[test]
fn the_command_leaves_nothing_may_be_repeated_and_says_first_what_it_does() -> Result<()> {
    if without_kubectl() {
        return Ok(());
    }
    let installed = Installed::new()?;
    let labels = json!({"app.kubernetes.io/managed-by": "vipward"});
    let record = json!({"name": NAMESPACE, "namespace": NAMESPACE, "labels": labels});
    for (kind, version, name) in
        [("Secret", "v1", "vipward-wire"), ("Lease", "coordination.k8s.io/v1", "node-a")]
    {
        let mut metadata = record.clone();
        metadata["name"] = name.into();
        installed.server.load_object(json!({"apiVersion": version, "kind": kind, "metadata": metadata}))?;
    }
    // Agents would delete it. A build before gave it a finalizer.
    installed.server.load_object(claim(&json!({"finalizers": ["vipward.io/claim"]})))?;
    let before = installed.objects()?;
    for (arguments, succeeds, says) in [
        (&["--dry-run"][..], true, "free 1 reserved addresses"),
        (&[], false, "nothing was changed: without a terminal to ask at, it needs --yes"),
    ] {
        let (success, transcript) = installed.uninstall(arguments)?;
        assert_eq!(success, succeeds, "{arguments:?}: {transcript}");
        assert!(transcript.contains(says), "{arguments:?}: {transcript}");
        assert!(transcript.contains("clusterroles/vipward-controller"), "{arguments:?}: {transcript}");
        assert_eq!(installed.objects()?, before, "{arguments:?}");
    }

    let (success, transcript) = installed.uninstall(&["--yes"])?;
    assert!(!success && transcript.contains("192.0.2.10 (by a)"), "{transcript}");
    let stopped = installed.objects()?;
    assert_eq!(stopped.len(), before.len() - 2, "controller and agents alone are gone: {stopped:?}");
    let reserved = installed.run("kubectl get vip 192.0.2.10 -o jsonpath={.spec.reservation}")?;
    assert_eq!(reserved, "", "the reservation went before the agents");

    for again in ["while a VIP is claimed", "when nothing is there"] {
        let (success, transcript) = installed.uninstall(&["--yes", "--force"])?;
        assert!(success, "{again}: {transcript}");
        assert_eq!(installed.objects()?, Vec::<String>::new(), "{again}: {transcript}");
    }
    Ok(())
}

#[test]
fn a_namespace_that_others_share_stays_and_helms_records_go() -> Result<()> {
    if without_kubectl() {
        return Ok(());
    }
    let installed = Installed::new()?;
    let no_label = json!({"metadata": {"labels": null}});
    installed.run(&format!("kubectl patch namespace {NAMESPACE} --type=merge -p '{no_label}'"))?;
    let labels = json!({"metadata": {"labels": {
        "app.kubernetes.io/managed-by": "Helm", "app.kubernetes.io/instance": "lan",
    }}});
    installed.run(&format!("kubectl patch clusterrole vipward --type=merge -p '{labels}'"))?;
    for (name, release) in [("of-lan", "lan"), ("of-another", "other")] {
        installed.server.load_object(json!({
            "apiVersion": "v1", "kind": "Secret", "type": "helm.sh/release.v1",
            "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"owner": "helm", "name": release}},
        }))?;
    }
    let (success, transcript) = installed.uninstall(&["--yes"])?;
    assert!(success, "{transcript}");
    assert_eq!(installed.objects()?, [&*format!("namespace/{NAMESPACE}"), "secret/of-another"]);
    Ok(())
}

#[test]
fn the_command_deletes_nothing_of_others() -> Result<()> {
    if without_kubectl() {
        return Ok(());
    }
    let installed = Installed::new()?;
    let labels = json!({"app.kubernetes.io/managed-by": "Helm", "app.kubernetes.io/instance": "platform"});
    let patch = json!({"metadata": {"labels": labels}});
    installed.run(&format!("kubectl patch clusterrole vipward --type=merge -p '{patch}'"))?;
    for object in [
        json!({"apiVersion": "v1", "kind": "Secret", "type": "helm.sh/release.v1", "metadata": {
            "name": "of-all", "namespace": NAMESPACE, "labels": {"owner": "helm", "name": "platform"},
        }}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {
            "name": "of-another-chart", "namespace": NAMESPACE, "labels": {"app.kubernetes.io/instance": "platform"},
        }}),
    ] {
        installed.server.load_object(object)?;
    }
    let agents = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {
        "name": "vipward", "namespace": "net", "labels": {"app.kubernetes.io/name": "vipward"},
    }, "spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c"}]}},
    }});
    installed
        .server
        .load_object(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "net"}}))?;
    installed.server.load_object(agents)?;
    let before = installed.objects()?;
    let (success, transcript) = installed.uninstall(&["--yes", "--force"])?;
    assert!(!success, "{transcript}");
    assert!(transcript.contains("agents are in namespace net, and not in vipward-system"), "{transcript}");
    assert_eq!(installed.objects()?, before, "{transcript}");

    installed.run("kubectl -n net delete daemonset vipward")?;
    installed.run("kubectl delete namespace net")?;
    let (success, transcript) = installed.uninstall(&["--yes"])?;
    assert!(success, "{transcript}");
    let left = installed.objects()?;
    assert_eq!(left, [&*format!("namespace/{NAMESPACE}"), "secret/of-all"], "{transcript}");
    installed.run(&format!("kubectl -n {NAMESPACE} get configmap of-another-chart -o name"))?;
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
