//! `kubectl vip`: the same binary under another name, and its output about a cluster.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, Config};
use serde_json::{Value, json};
use tempfile::TempDir;
use vipward::shell::kube::crd_yaml;
use vipward_tests::{
    agent::{Agent, HOLDS_ONE, Node},
    apiserver::{ApiServer, Options},
};

const NAMESPACE: &str = "vipward-system";
const SESSION: &str = "0000000000000001";
/// An API server that does not exist.
const ELSEWHERE: &str = "http://127.0.0.1:1";
/// The name and the token of a user who may move VIPs and read no Nodes.
const MOVER: &str = "mover";

/// The binary under the name that kubectl calls it by.
struct Plugin {
    directory: TempDir,
}

impl Plugin {
    fn new() -> Result<Self> {
        let directory = TempDir::new()?;
        let binary = fs::canonicalize(Agent::default_binary())?;
        symlink(&binary, directory.path().join("kubectl-vip"))?;
        Ok(Self { directory })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(self.path("kubectl-vip"));
        command.args(args).env_remove("KUBECONFIG").env("HOME", self.directory.path());
        command
    }
}

fn printed(mut command: Command) -> Result<String> {
    let output = command.output()?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn usage_and_help_are_those_of_kubectl_vip() -> Result<()> {
    let plugin = Plugin::new()?;
    let help = printed(plugin.command(&["--help"]))?;
    assert!(help.contains("Usage: kubectl vip <COMMAND>"), "{help}");
    let commands = help.split("\nLook:").nth(1).and_then(|rest| rest.split("Options:").next());
    let commands: Vec<_> = commands
        .context("no list of commands")?
        .lines()
        .filter_map(|line| {
            line.strip_prefix("  ").filter(|line| !line.starts_with(' '))?.split_whitespace().next()
        })
        .collect();
    for name in ["status", "who-has", "explain", "move", "pools", "release", "watch", "doctor"] {
        assert!(commands.contains(&name), "{name} in {commands:?}");
    }
    for name in ["agent", "kubernetes", "controller", "unload"] {
        assert!(!commands.contains(&name), "{name} in {commands:?}");
    }
    for command in ["status", "who-has", "explain", "move", "pools", "release", "watch", "doctor"] {
        let help = printed(plugin.command(&[command, "--help"]))?;
        assert!(help.contains(&format!("Usage: kubectl vip {command}")), "{help}");
    }
    let wrong = plugin.command(&["status", "--no-such-option"]).output()?;
    assert_eq!(wrong.status.code(), Some(2));
    assert!(said(&wrong).contains("Usage: kubectl vip status"), "{}", said(&wrong));
    let plain = printed({
        let mut command = Command::new(Agent::default_binary());
        command.arg("--help");
        command
    })?;
    assert!(plain.contains("Usage: vipward <COMMAND>") && plain.contains("  agent "), "{plain}");
    Ok(())
}

#[test]
fn what_looks_at_a_node_says_that_this_is_none() -> Result<()> {
    let plugin = Plugin::new()?;
    let pin_dir = plugin.path("pins");
    let pin_dir = pin_dir.to_str().context("a path that is no text")?;
    for args in [&["watch", "--plain", "--pin-dir", pin_dir][..], &["status", "--node", "--pin-dir", pin_dir]]
    {
        let output = plugin.command(args).output()?;
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        let said = said(&output);
        assert!(
            said.contains("no node of Vipward's") && said.contains("exec ds/vipward"),
            "{args:?}: {said}"
        );
        assert!(said.contains("nothing is pinned under"), "{args:?}: {said}");
    }
    let output = plugin.command(&["doctor", "--all", "--pin-dir", pin_dir]).output()?;
    assert!(said(&output).contains("no node of Vipward's"), "{}", said(&output));
    assert!(String::from_utf8_lossy(&output.stdout).contains("kernel"), "and it examines it");

    // The binary under its own name prints no such note.
    let mut vipward = Command::new(Agent::default_binary());
    vipward.args(["watch", "--plain", "--pin-dir", pin_dir]);
    assert!(!said(&vipward.output()?).contains("no node of"));
    Ok(())
}

#[test]
fn on_a_node_it_shows_what_the_kernel_has() -> Result<()> {
    let plugin = Plugin::new()?;
    let node = Node::start("plugin", HOLDS_ONE)?;
    let mut command = node.host.command(plugin.path("kubectl-vip"));
    command.args(["status", "--node", "-o", "json", "--pin-dir"]).arg(&node.agent.options.pin_dir);
    let status: Value = serde_json::from_str(&printed(command)?)?;
    assert_eq!(status["vips"][0]["address"], "192.0.2.10");
    Ok(())
}

#[test]
fn without_a_cluster_status_says_what_it_needs() -> Result<()> {
    let plugin = Plugin::new()?;
    let output = plugin.command(&["status"]).output()?;
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    assert!(said(&output).contains("--kubeconfig"), "{}", said(&output));
    let missing = plugin.path("missing");
    let output = plugin.command(&["status", "--kubeconfig"]).arg(&missing).output()?;
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    assert!(said(&output).contains(&missing.display().to_string()), "{}", said(&output));
    Ok(())
}

/// An API server, and an administrator's kubeconfig in the plugin's home.
struct Cluster {
    plugin: Plugin,
    server: ApiServer,
}

impl Cluster {
    fn new() -> Result<Self> {
        let plugin = Plugin::new()?;
        let server = ApiServer::start(TcpListener::bind("127.0.0.1:0")?, Options::default())?;
        server
            .load_object(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}))?;
        fs::create_dir(plugin.path(".kube"))?;
        let cluster = Self { plugin, server };
        cluster.write_kubeconfig("here")?;
        Ok(cluster)
    }

    /// Writes a kubeconfig: the context `here` is this server, `elsewhere` one that does not exist.
    fn write_kubeconfig(&self, current: &str) -> Result<()> {
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": current,
            "clusters": [
                {"name": "here", "cluster": {"server": self.server.url()}},
                {"name": "elsewhere", "cluster": {"server": ELSEWHERE}},
            ],
            "users": [
                {"name": "u", "user": {"token": "admin"}},
                {"name": "mover", "user": {"token": MOVER}},
            ],
            "contexts": [
                {"name": "here", "context": {"cluster": "here", "user": "u"}},
                {"name": "as-mover", "context": {"cluster": "here", "user": "mover"}},
                {"name": "elsewhere", "context": {"cluster": "elsewhere", "user": "u"}},
            ],
        });
        Ok(fs::write(self.plugin.path(".kube/config"), kubeconfig.to_string())?)
    }

    fn with_vips() -> Result<Self> {
        let cluster = Self::new()?;
        cluster.server.load_manifest(&crd_yaml())?;
        for node in ["node-a", "node-b"] {
            cluster
                .server
                .load_object(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}}))?;
            cluster.server.load_object(json!({
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "metadata": {
                    "name": node, "namespace": NAMESPACE,
                    "labels": {"app.kubernetes.io/managed-by": "vipward"},
                    "annotations": {"vipward.io/duration": "4s"},
                },
                "spec": {"holderIdentity": format!("{node}/{SESSION}"), "leaseDurationSeconds": 4},
            }))?;
        }
        let ended = "00000000000000ff";
        for (vip, node, session, since, status) in [
            (
                "192.0.2.9",
                "node-a",
                SESSION,
                "2026-01-02T00:00:00Z",
                json!({"conflict": "02:00:00:00:00:77 claims it"}),
            ),
            (
                "192.0.2.10",
                "node-b",
                ended,
                "2026-01-03T00:00:00Z",
                json!({"trouble": "no node can hold it"}),
            ),
            ("192.0.2.11", "node-b", SESSION, "2026-01-01T00:00:00Z", json!({})),
            (
                "192.0.2.12",
                "node-a",
                SESSION,
                "2026-01-01T00:00:00Z",
                json!({"state": "not answered", "unanswered": "eth0: no carrier"}),
            ),
        ] {
            cluster.server.load_object(json!({
                "apiVersion": "vipward.io/v1alpha1", "kind": "VirtualIP", "metadata": {"name": vip},
                "spec": {
                    "address": vip, "epoch": 3, "holder": node, "session": session, "mac": "02:00:00:00:00:0a",
                    "interface": "eth0", "since": since, "services": "default/web", "cause": format!("{vip} moved"),
                },
                "status": status,
            }))?;
        }
        Ok(cluster)
    }

    fn client(&self) -> Result<Client> {
        let mut config = Config::new(self.server.url().parse()?);
        config.auth_info.token = Some("admin".to_owned().into());
        Ok(Client::try_from(config)?)
    }

    /// Adds the user that the context `as-mover` names.
    fn add_mover(&self) -> Result<()> {
        const GROUP: &str = "rbac.authorization.k8s.io";
        let version = format!("{GROUP}/v1");
        self.server.add_user(MOVER, MOVER);
        self.server.load_object(json!({
            "apiVersion": version, "kind": "ClusterRole", "metadata": {"name": MOVER},
            "rules": [{
                "apiGroups": ["vipward.io"], "resources": ["virtualips"], "verbs": ["get", "patch"],
            }],
        }))?;
        self.server.load_object(json!({
            "apiVersion": version, "kind": "ClusterRoleBinding", "metadata": {"name": MOVER},
            "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": MOVER},
            "subjects": [{"apiGroup": GROUP, "kind": "User", "name": MOVER}],
        }))
    }

    /// Returns the node that an operator wants a VIP to move to, from its claim.
    async fn wish(&self, vip: &str) -> Result<Option<String>> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("vipward.io", "v1alpha1", "VirtualIP"));
        let claims: Api<DynamicObject> = Api::all_with(self.client()?, &resource);
        let claim = claims.get(vip).await?;
        Ok(claim.metadata.annotations.unwrap_or_default().remove("vipward.io/move-to"))
    }

    /// Renews the Lease of a node, as its agent does, until it is aborted.
    fn renew(&self, node: &'static str) -> Result<tokio::task::JoinHandle<()>> {
        let client = self.client()?;
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("coordination.k8s.io", "v1", "Lease"));
        let leases: Api<DynamicObject> = Api::namespaced_with(client, NAMESPACE, &resource);
        Ok(tokio::spawn(async move {
            for second in (0..60).cycle() {
                let patch = json!({"spec": {"renewTime": format!("2026-01-01T00:00:{second:02}.000000Z")}});
                // The server ends before this task does.
                let _ = leases.patch(node, &PatchParams::default(), &Patch::Merge(patch)).await;
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn status_of_a_cluster_shows_holders_leases_and_the_last_moves() -> Result<()> {
    let cluster = Cluster::with_vips()?;
    let renewing = cluster.renew("node-a")?;
    let command = cluster.plugin.command(&["status", "-o", "json", "--look", "1500ms"]);
    let table = cluster.plugin.command(&["status", "--look", "600ms"]);
    let (json, table) =
        tokio::task::spawn_blocking(|| Ok::<_, anyhow::Error>((printed(command)?, printed(table)?)))
            .await??;
    renewing.abort();
    let status: Value = serde_json::from_str(&json)?;

    let [held, ended, silent, unanswered] = [0, 1, 2, 3].map(|row| &status["vips"][row]);
    for (row, expected) in [
        (held, ("192.0.2.9", "node-a", "held")),
        (ended, ("192.0.2.10", "node-b", "session ended")),
        (silent, ("192.0.2.11", "node-b", "not renewed")),
        (unanswered, ("192.0.2.12", "node-a", "not answered")),
    ] {
        let text = |field: &str| row[field].as_str().unwrap_or_default();
        assert_eq!((text("address"), text("holder"), text("state")), expected, "{row}");
        assert_eq!(
            (&row["epoch"], &row["mac"], &row["interface"]),
            (&3.into(), &"02:00:00:00:00:0a".into(), &"eth0".into())
        );
        assert_eq!(row["services"], json!(["default/web"]));
    }
    assert_eq!((&held["conflict"], &held["trouble"]), (&"02:00:00:00:00:77 claims it".into(), &Value::Null));
    assert_eq!((&ended["conflict"], &ended["trouble"]), (&Value::Null, &"no node can hold it".into()));

    assert_eq!((&held["unanswered"], &unanswered["unanswered"]), (&Value::Null, &"eth0: no carrier".into()));

    let [alive, silent] = [&status["nodes"][0], &status["nodes"][1]];
    assert_eq!(
        (&alive["node"], &alive["renewed"], &alive["vips"]),
        (&"node-a".into(), &true.into(), &1.into())
    );
    assert_eq!(
        (&silent["node"], &silent["renewed"], &silent["vips"]),
        (&"node-b".into(), &false.into(), &0.into())
    );
    let age = |row: &Value| row["lease_age_seconds"].as_f64().unwrap_or_default();
    assert!(age(alive) < 1.0 && age(silent) >= 1.5, "{alive} {silent}");
    assert_eq!(silent["lease_duration_seconds"], 4.0);

    let moves: Vec<_> =
        status["last_moves"].as_array().context("no moves")?.iter().map(|it| &it["address"]).collect();
    assert_eq!(moves[..2], ["192.0.2.10", "192.0.2.9"], "the latest first");

    for (first, parts) in [
        ("VIP", &["HOLDER", "STATE", "MAC", "INTERFACE", "EPOCH", "SERVICES", "CONFLICT", "TROUBLE"][..]),
        ("192.0.2.9", &["node-a", "held", "3", "default/web", "02:00:00:00:00:77 claims it"]),
        ("192.0.2.10", &["node-b", "session ended", "no node can hold it"]),
        ("192.0.2.11", &["node-b", "not renewed"]),
        ("192.0.2.12", &["node-a", "not answered", "eth0: no carrier"]),
        ("NODE", &["VIPS", "LEASE", "GOOD FOR", "SESSION"]),
        ("node-a", &["renewed 0.", "4 s", SESSION]),
        ("node-b", &["unchanged for 0.", "as long as it was watched"]),
        ("LAST MOVES", &["VIP", "TO", "CAUSE"]),
        ("2026-01-03T00:00:00Z", &["192.0.2.10", "node-b", "192.0.2.10 moved"]),
    ] {
        let line = table.lines().find(|line| line.trim_start().starts_with(first));
        let line = line.with_context(|| format!("{first} in:\n{table}"))?;
        assert!(parts.iter().all(|part| line.contains(part)), "{parts:?} in {line}");
    }
    Ok(())
}

#[test]
fn the_context_that_is_named_is_used_and_not_the_current_one() -> Result<()> {
    let cluster = Cluster::with_vips()?;
    cluster.write_kubeconfig("elsewhere")?;
    let here = |args: &[&str]| cluster.plugin.command(&[args, &["--context", "here"]].concat());

    let status: Value = serde_json::from_str(&printed(here(&["status", "--look", "0s", "-o", "json"]))?)?;
    assert_eq!(status["vips"][0]["address"], "192.0.2.9");

    let explained =
        here(&["explain", "192.0.2.9", "-o", "json", "--pin-dir", "/sys/fs/bpf/none"]).output()?;
    let explanation: Value = serde_json::from_slice(&explained.stdout).with_context(|| said(&explained))?;
    let steps = explanation["steps"].as_array().context("no steps")?;
    let claim = steps.iter().find(|step| step["subject"] == "claim");
    let claim = claim.with_context(|| format!("no claim in {explanation:#}"))?;
    assert_eq!(claim["found"], "it names node-a at 02:00:00:00:00:0a on eth0, epoch 3");

    let moved = here(&["move", "192.0.2.9", "--to", "node-b", "--timeout", "0s"]).output()?;
    let printed = String::from_utf8_lossy(&moved.stdout);
    assert!(printed.contains("held by node-a; requested a move to node-b"), "{printed}{}", said(&moved));

    // Each of these names a server that does not exist.
    for args in [&["status"][..], &["explain", "192.0.2.9"], &["move", "192.0.2.9", "--to", "node-b"]] {
        let output = cluster.plugin.command(&[args, &["--context", "nowhere"]].concat()).output()?;
        assert_eq!(output.status.code(), Some(3), "{args:?}: {}", said(&output));
        assert!(said(&output).contains("context \"nowhere\""), "{args:?}: {}", said(&output));
    }
    Ok(())
}

#[test]
fn options_of_kubectl_work_before_the_command_and_after_it() -> Result<()> {
    let cluster = Cluster::with_vips()?;
    cluster.add_mover()?;
    cluster.write_kubeconfig("elsewhere")?;
    let url = cluster.server.url();
    let status: &[&str] = &["status", "--look", "0s"];
    for options in [
        &["--context", "here"][..],
        &["--context=here", "-n", NAMESPACE],
        &["--server", &url],
        &["--server", &url, "--token", "admin", "--as", "somebody", "--as-group", "system:masters"],
        &["--context", "as-mover", "--user", "u"],
    ] {
        for args in [[options, status].concat(), [status, options].concat()] {
            assert!(printed(cluster.plugin.command(&args))?.contains("192.0.2.9"), "{args:?}");
        }
    }
    for (options, code, words) in [
        (&["--context", "here", "--user", "mover"][..], 4, "cannot list resource"),
        (&["--context", "here", "--token", "wrong"], 4, "401"),
        (&["--server", "not a URL"], 3, "is no URL of an API server"),
        (&["--context", "here", "--as-group", "a"], 2, "--as"),
    ] {
        let output = cluster.plugin.command(&[options, status].concat()).output()?;
        assert_eq!(output.status.code(), Some(code), "{options:?}: {}", said(&output));
        assert!(said(&output).contains(words), "{options:?}: {}", said(&output));
    }
    Ok(())
}

/// Runs a command beside the test's own requests. Returns its output and its duration.
async fn run(mut command: Command) -> Result<(Output, Duration)> {
    let began = Instant::now();
    let output = tokio::task::spawn_blocking(move || command.output()).await??;
    Ok((output, began.elapsed()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_to_a_node_that_does_not_exist_is_refused_at_once_and_leaves_no_wish() -> Result<()> {
    let cluster = Cluster::with_vips()?;
    let (output, took) = run(cluster.plugin.command(&["move", "192.0.2.9", "--to", "nope"])).await?;
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let said = said(&output);
    assert!(said.contains("there is no node \"nope\"") && said.contains("kubectl get nodes"), "{said}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "", "nothing was asked for");
    // With an agent, the command would wait up to 30 s for the agent's answer.
    assert!(took < Duration::from_secs(10), "{took:?}");
    assert_eq!(cluster.wish("192.0.2.9").await?, None);

    // These names must not become a path of their own.
    for name in ["", "../nodes/node-b", "node-b?x"] {
        let (output, _) = run(cluster.plugin.command(&["move", "192.0.2.9", "--to", name])).await?;
        assert!(!output.status.success(), "{name:?} was taken");
        assert_eq!(cluster.wish("192.0.2.9").await?, None, "{name:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_read_nodes_moves_vips_all_the_same() -> Result<()> {
    let cluster = Cluster::with_vips()?;
    cluster.add_mover()?;
    for to in ["node-b", "nope"] {
        let args = ["move", "192.0.2.9", "--to", to, "--timeout", "0s", "--context", "as-mover"];
        let (output, _) = run(cluster.plugin.command(&args)).await?;
        // The agents check that the node exists.
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(printed.contains(&format!("requested a move to {to}")), "{printed}{}", said(&output));
        assert_eq!(cluster.wish("192.0.2.9").await?.as_deref(), Some(to));
    }
    Ok(())
}

#[test]
fn vipward_shows_the_cluster_when_it_is_asked_to_and_says_when_it_is_not_installed() -> Result<()> {
    let cluster = Cluster::with_vips()?;
    let mut vipward = Command::new(Agent::default_binary());
    vipward.args(["status", "--cluster", "--look", "0s", "-o", "json"]).env_remove("KUBECONFIG");
    vipward.env("HOME", cluster.plugin.directory.path());
    let status: Value = serde_json::from_str(&printed(vipward)?)?;
    assert_eq!(status["vips"][0]["address"], "192.0.2.9");

    let empty = Cluster::new()?;
    let output = empty.plugin.command(&["status"]).output()?;
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("Vipward is not installed there"), "{}", said(&output));
    Ok(())
}
