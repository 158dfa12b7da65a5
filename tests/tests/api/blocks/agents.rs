//! An operator of a cluster whose agents and controller run.

use std::fs;
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd as _;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use vipward_tests::{
    agent::{Agent, VIP, ip},
    cluster::{Cluster, ClusterOptions, N2, N3, SEGMENT, scenario},
    lan::Host,
};

use super::{
    homes::Home,
    kubectls,
    sandbox::{Kubectl, Sandbox, rights, write},
};

const PAGE: &str = "docs/kubernetes/README.md";
const COMMANDS: &str = "docs/commands.md";
/// An address that no agent knows.
const LEFT: Ipv4Addr = ip(77);

fn options() -> ClusterOptions {
    ClusterOptions { api_in_process: true, with_controller: true, ..ClusterOptions::default() }
}

/// Returns the beginning of a command that runs on a host.
fn on(host: &Host) -> String {
    format!("nsenter --net=/proc/{}/fd/{}", std::process::id(), host.namespace().as_fd().as_raw_fd())
}

/// Makes the programs of an operator's desk, of a node, and of another host of the LAN.
fn sandbox(cluster: &mut Cluster, kubectl: &Kubectl) -> Result<Sandbox> {
    let sandbox = Sandbox::new(Home::Agents)?;
    let server = cluster.api_mut().in_this_process().context("the API server is in this process")?;
    server.add_user("", "operator");
    rights().into_iter().try_for_each(|right| server.load_object(right))?;
    let url = server.url();

    let node = cluster.member(N2)?;
    let binary = Agent::default_binary();
    let binary = binary.display();
    let pins = node.agent().context("its agent runs")?.options.pin_dir.display();
    write(&sandbox.path("of-node"), &cluster.kubeconfig_of(N2)?)?;
    let of_node = sandbox.path("of-node");
    // Exit code 8: the answer is that something is red.
    let node = format!(
        "part=$1; shift\n{} env KUBECONFIG={} {binary} $part --pin-dir {pins} \"$@\" || test $? = 8",
        on(&node.host),
        of_node.display()
    );
    let lan = on(&cluster.client);
    sandbox.stand_in(
        "vipward",
        &format!(
            "case \" $* \" in\n*\" doctor --checks \"*|*\" --kubeconfig \"*) {binary} \"$@\" || test $? = 8;;\n\
             \" doctor \"*) {node};;\n\" who-has \"*) {lan} {binary} \"$@\";;\n*) {binary} \"$@\";;\nesac"
        ),
    )?;
    sandbox.stand_in("ip", &format!("exec {} /sbin/ip \"$@\"", on(&cluster.rogue)))?;
    sandbox.use_cluster(kubectl, &url, &format!("shift\n{node}"))?;
    fs::create_dir(sandbox.path(".kube"))?;
    fs::copy(sandbox.path("kubeconfig"), sandbox.path(".kube/config"))?;
    Ok(sandbox)
}

#[test]
fn the_blocks_of_a_cluster_run() -> Result<()> {
    let Some(kubectl) = kubectls().into_iter().next() else { return Ok(()) };
    scenario("blocks", options(), |cluster| {
        cluster.start_controller(1, &[])?;
        cluster.wait_until_all_renew()?;
        let mut desk = sandbox(cluster, &kubectl)?;
        desk.run(PAGE, "kubectl apply -f - <<EOF", &[])?;
        cluster.wait_until_held(VIP)?;
        look(&mut desk)?;
        move_it(cluster, &mut desk)?;
        explain(&mut desk)?;
        cluster.rogue.add_address(SEGMENT, ipnet::Ipv4Net::new(LEFT, 32)?)?;
        let left = [("192.0.2.10", &*LEFT.to_string())];
        desk.run("docs/kubernetes/from-kube-vip.md", "ip -brief address", &left)?;
        ensure!(
            !desk.shell("vipward", "ip -brief address")?.contains(&LEFT.to_string()),
            "{LEFT} is still there"
        );
        desk.finish()
    })
}

fn look(desk: &mut Sandbox) -> Result<()> {
    let seen = desk.run(PAGE, "kubectl label service web", &[])?;
    ensure!(seen.contains("one answers"), "{seen}");
    let shown = desk.run(PAGE, "$ kubectl get vip -o wide", &[])?;
    ensure!(shown.contains("held") && shown.contains("default/web"), "{shown}");
    desk.run("docs/kubernetes/pools.md", "$ kubectl get vippools", &[])?;
    let used = desk.run(COMMANDS, "$ vipward pools --addresses", &[])?;
    ensure!(used.contains("default/web"), "{used}");
    let answers = desk.run(COMMANDS, "$ vipward who-has", &[])?;
    ensure!(answers.contains("1 MAC answers") || answers.contains("3/3"), "{answers}");
    let found = desk.run(COMMANDS, "sudo vipward doctor", &[])?;
    ensure!(found.matches(" STATE ").count() == 2, "two rows of checks: {found}");
    let found = desk.run(PAGE, "POD=", &[("node-b", "n2")])?;
    ensure!(found.contains("192.0.2.10") && found.contains("lease deadline valid"), "{found}");
    let found = desk.run("docs/kubernetes/failures.md", "vipward who-has", &[("node-b", "n2")])?;
    let parts = ["one answers", " segment ", " claim "];
    ensure!(parts.iter().all(|part| found.contains(part)), "{found}");
    Ok(())
}

fn move_it(cluster: &Cluster, desk: &mut Sandbox) -> Result<()> {
    let bin = desk.path("bin").display().to_string();
    desk.run(COMMANDS, "sudo install target/release/vipward", &[("/usr/local/bin", &bin), ("node-b", "n2")])?;
    cluster.wait_until_held_by(VIP, N2)?;
    desk.run(PAGE, "kubectl annotate --overwrite vip", &[("node-c ", "n3 ")])?;
    cluster.wait_until_held_by(VIP, N3)
}

/// Compares the whole output of the page, where the pool `lan` is used up.
fn explain(desk: &mut Sandbox) -> Result<()> {
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "more"},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]},
    });
    write(&desk.path("vipward/more.json"), &service.to_string())?;
    desk.shell(
        "vipward",
        "kubectl patch vippool lan --type=merge -p '{\"spec\": {\"addresses\": [\"192.0.2.10\"]}}'\n\
         kubectl -n apps create -f more.json",
    )?;
    let printed = desk.run(COMMANDS, "# vipward explain", &[])?;
    let block = super::markdown::all()?.into_iter().find(|block| block.text.starts_with("# vipward explain"));
    let block = block.context("invariant: it has just run")?;
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let printed: Vec<_> = printed.lines().map(words).collect();
    let shown: Vec<_> = block.output().into_iter().map(words).collect();
    ensure!(printed == shown, "the page shows {shown:#?}, and vipward prints {printed:#?}");
    Ok(())
}
