//! An operator at an API server without agents: every command is accepted, and has its effect.

use std::net::TcpListener;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use vipward_tests::apiserver::{ApiServer, Options};

use super::{
    homes::{Home, SPEAKERS_OFF, SPEAKERS_ON},
    kubectls, markdown,
    sandbox::{Kubectl, Sandbox, rights, write},
};

const PAGE: &str = "docs/kubernetes/README.md";
const METALLB: &str = "docs/kubernetes/from-metallb.md";
const SERVICES: &str = "docs/kubernetes/services.md";
const NO_KUBELET: &str = "exit 1";

fn server() -> Result<ApiServer> {
    let server = ApiServer::start(TcpListener::bind("127.0.0.1:0")?, Options::default())?;
    server.add_user("", "operator");
    rights().into_iter().try_for_each(|right| server.load_object(right))?;
    Ok(server)
}

fn start(home: Home, kubectl: &Kubectl) -> Result<(ApiServer, Sandbox)> {
    let (server, sandbox) = (server()?, Sandbox::new(home)?);
    sandbox.use_cluster(kubectl, &server.url(), NO_KUBELET)?;
    Ok((server, sandbox))
}

/// Returns the YAML block of the installation that is a kustomization.
fn kustomization() -> Result<String> {
    let mut blocks = markdown::all()?.into_iter();
    let block = blocks.find(|block| block.page == PAGE && block.text.starts_with("# kustomization.yaml"));
    Ok(block.context("no kustomization.yaml")?.text)
}

/// Returns `MetalLB`'s workloads, as its manifest installs them.
fn metallb() -> Vec<Value> {
    let labels = json!({"app": "metallb"});
    let containers = json!([{"name": "metallb", "image": "none"}]);
    let pod = json!({"metadata": {"labels": labels}, "spec": {"containers": containers}});
    let workload = |kind: &str, name: &str| {
        json!({
            "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "namespace": "metallb-system"},
            "spec": {"selector": {"matchLabels": labels}, "template": pod},
        })
    };
    vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "metallb-system"}}),
        workload("Deployment", "controller"),
        workload("DaemonSet", "speaker"),
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "metallb-webhook-configuration"},
        }),
    ]
}

/// Returns Cilium's definition of a policy, a policy, and a Lease of a holder.
fn cilium() -> [Value; 3] {
    let group = "cilium.io";
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    [
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("ciliuml2announcementpolicies.{group}")},
            "spec": {
                "group": group, "scope": "Cluster",
                "names": {"plural": "ciliuml2announcementpolicies", "kind": "CiliumL2AnnouncementPolicy"},
                "versions": [{"name": "v2alpha1", "served": true, "storage": true, "schema": schema}],
            },
        }),
        json!({
            "apiVersion": format!("{group}/v2alpha1"), "kind": "CiliumL2AnnouncementPolicy",
            "metadata": {"name": "lan"},
        }),
        json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "cilium-l2announce-default-web", "namespace": "kube-system"},
        }),
    ]
}

/// Fails unless `kubectl get` prints these words.
fn ensure_printed(sandbox: &Sandbox, get: &str, expected: &str) -> Result<()> {
    let printed = sandbox.shell("vipward", &format!("kubectl get {get}"))?;
    ensure!(printed.split_whitespace().eq(expected.split_whitespace()), "`{get}` printed {printed}");
    Ok(())
}

#[test]
fn the_blocks_of_an_operator_run() -> Result<()> {
    for kubectl in kubectls() {
        let (server, mut operator) = start(Home::Operator, &kubectl)?;
        install(&mut operator).with_context(|| format!("{kubectl:?}"))?;
        from_metallb(&server, &mut operator, kubectl.is_newest()).with_context(|| format!("{kubectl:?}"))?;
        from_cilium(&server, &mut operator).with_context(|| format!("{kubectl:?}"))?;
        operator.finish()?;
    }
    Ok(())
}

fn install(operator: &mut Sandbox) -> Result<()> {
    const FORCED: &str = "virtualip --no-headers \
        -o 'custom-columns=:metadata.name,:spec.address,:metadata.annotations.vipward\\.io/force'";
    write(&operator.path("beside/kustomization.yaml"), &kustomization()?)?;
    operator.run_in("beside", PAGE, "kubectl apply -k .", &[])?;
    let image = "deployment,daemonset -A -o jsonpath={..image}";
    let name = "registry.example.com/vipward:0.1.0";
    ensure_printed(operator, image, &format!("{name} {name}"))?;

    operator.run("deploy/kubernetes/overlays/without-controller/README.md", "vipward wire init", &[])?;
    ensure_printed(operator, "secret -n vipward-system -o name", "secret/vipward-wire")?;

    operator.run(SERVICES, "force() {", &[])?;
    let long = "2001-0db8-0000-0000-0000-0000-0000-0010";
    ensure_printed(operator, FORCED, &format!("192.0.2.10 192.0.2.10 true {long} 2001:db8::10 true"))?;
    operator.shell("vipward", "kubectl annotate virtualip 192.0.2.10 vipward.io/force-")?;
    operator.run(SERVICES, "kubectl annotate virtualip", &[])?;
    ensure_printed(operator, FORCED, &format!("192.0.2.10 192.0.2.10 true {long} 2001:db8::10 true"))?;

    let without = "components: [../vipward/deploy/kubernetes/overlays/without-controller] #";
    write(&operator.path("beside/kustomization.yaml"), &kustomization()?.replace("components: []", without))?;
    operator.run_in("beside", "docs/kubernetes/pools.md", "kubectl apply -k .", &[])?;
    let left = "all,poddisruptionbudgets,validatingadmissionpolicies,clusterroles,roles -A -o name \
        -l app.kubernetes.io/component=controller";
    ensure_printed(operator, left.trim_start_matches("all,"), "")?;
    let args = operator.shell("vipward", "kubectl -n vipward-system get daemonset -o jsonpath={..args}")?;
    ensure!(args.contains("--without-controller"), "{args}");
    Ok(())
}

fn from_metallb(server: &ApiServer, operator: &mut Sandbox, newest: bool) -> Result<()> {
    metallb().into_iter().try_for_each(|object| server.load_object(object))?;
    let manifest = json!({"apiVersion": "v1", "kind": "List", "items": metallb()});
    write(&operator.path("vipward/metallb-native.yaml"), &manifest.to_string())?;
    let replicas = "-n metallb-system deployment -o jsonpath={..spec.replicas}";

    operator.shell("vipward", "kubectl create deployment web --image=nginx")?;
    operator.run(METALLB, "kubectl expose deployment web --name=pilot", &[])?;
    // kubectl 1.20 has no such field yet, and leaves it out.
    let class = if newest { "vipward.io/l2" } else { "" };
    ensure_printed(operator, "service pilot -o jsonpath={.spec.loadBalancerClass}", class)?;
    operator.run(METALLB, "kubectl -n metallb-system scale", &[])?;
    ensure_printed(operator, replicas, "0")?;
    operator.run(METALLB, "kubectl delete validatingwebhookconfiguration", &[])?;
    operator.stand_in("helm", "")?;
    operator.run(METALLB, SPEAKERS_OFF, &[])?;
    ensure_printed(operator, "-n metallb-system daemonset -o name", "")?;
    operator.run(METALLB, "kubectl apply -f metallb-native.yaml", &[])?;
    ensure_printed(operator, replicas, "1")?;
    ensure_printed(operator, "validatingwebhookconfiguration -o name | wc -l", "1")?;
    operator.run(METALLB, SPEAKERS_ON, &[("metallb-speaker", "speaker")])?;
    ensure_printed(operator, "-n vipward-system daemonset -o name", "")
}

fn from_cilium(server: &ApiServer, operator: &mut Sandbox) -> Result<()> {
    cilium().into_iter().try_for_each(|object| server.load_object(object))?;
    operator.run("docs/kubernetes/from-cilium.md", "kubectl delete ciliuml2announcementpolicies", &[])?;
    ensure_printed(operator, "ciliuml2announcementpolicies -o name", "")?;
    ensure_printed(operator, "-n kube-system lease -o name", "")
}

#[test]
fn the_blocks_of_an_operator_with_helm_run() -> Result<()> {
    for kubectl in kubectls() {
        let (_server, mut operator) = start(Home::Helm, &kubectl)?;
        // `rendered.rs` compares what Helm and kustomize make.
        operator
            .stand_in("helm", "test \"$1\" != install || exec kubectl apply -k deploy/kubernetes/base")?;
        operator.run(PAGE, "kubectl create namespace vipward-system", &[])?;
        let label = "namespace vipward-system \
            -o 'jsonpath={.metadata.labels.pod-security\\.kubernetes\\.io/enforce}'";
        ensure_printed(&operator, label, "privileged")?;
        operator.run(PAGE, "helm upgrade vipward", &[])?;
        let uninstall = ("kubectl vip uninstall", "vipward uninstall --yes");
        operator.run(PAGE, "kubectl vip uninstall", &[uninstall])?;
        ensure_printed(&operator, "crd,namespace -o name", "namespace/default namespace/kube-system")?;
        operator.finish()?;
    }
    Ok(())
}
