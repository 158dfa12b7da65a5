//! The table of the shell blocks: which test runs each, or why none does.

use self::Home::{Agents, By, Helm, Host, Nowhere, Operator};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Home {
    /// The scenario of an operator with an API server and no agent.
    Operator,
    /// The scenario of an operator who installs with Helm.
    Helm,
    /// The scenario of a cluster with agents and a controller.
    Agents,
    /// The scenario of a host without Kubernetes.
    Host,
    /// Another test, in this file of `tests/tests/api`.
    By(&'static str),
    /// No test, for this reason.
    Nowhere(&'static str),
}

const BUILD: &str = "it compiles the workspace";
const ENDLESS: &str = "it ends only when it is interrupted";
const KUBELET: &str = "it needs a kubelet and a container runtime";

const INSTALLATION: &str = "docs/kubernetes/README.md";
const METALLB: &str = "docs/kubernetes/from-metallb.md";
const COMMANDS: &str = "docs/commands.md";

pub(super) const SPEAKERS_OFF: &str = "helm upgrade metallb metallb/metallb \
    --namespace metallb-system --reuse-values --set speaker.enabled=false";
pub(super) const SPEAKERS_ON: &str = "helm upgrade metallb metallb/metallb \
    --namespace metallb-system --reuse-values --set speaker.enabled=true";

/// Page, beginning of the block, and home.
pub(super) const HOMES: &[(&str, &str, Home)] = &[
    ("CONTRIBUTING.md", "$ cargo test", Nowhere(BUILD)),
    ("README.md", "cargo xtask demo", Nowhere("it takes minutes; the scenarios of the tests are its parts")),
    ("README.md", "cargo xtask image", Nowhere(BUILD)),
    ("deploy/kubernetes/overlays/without-controller/README.md", "vipward wire init", Operator),
    (COMMANDS, "sudo vipward doctor", Agents),
    (COMMANDS, "$ vipward who-has", Agents),
    (COMMANDS, "# vipward explain", Agents),
    (COMMANDS, "$ sudo vipward watch --plain", Nowhere(ENDLESS)),
    (COMMANDS, "sudo install target/release/vipward", Agents),
    (COMMANDS, "$ vipward pools --addresses", Agents),
    ("docs/failure-detector.md", "sudo arping", Nowhere(ENDLESS)),
    ("docs/failure-detector.md", "echo b > /proc/sysrq-trigger", Nowhere("it restarts this machine")),
    ("docs/internals/simulation.md", "cargo xtask simulate", Nowhere(BUILD)),
    (INSTALLATION, "cargo xtask image --tag", Nowhere(BUILD)),
    (INSTALLATION, "cargo xtask image --archive", Nowhere(BUILD)),
    (INSTALLATION, "kubectl apply -k .", Operator),
    (INSTALLATION, "kubectl create namespace vipward-system", Helm),
    (INSTALLATION, "kubectl apply -f - <<EOF", Agents),
    (INSTALLATION, "kubectl label service web", Agents),
    (INSTALLATION, "helm upgrade vipward", Helm),
    (INSTALLATION, "$ kubectl get vip -o wide", Agents),
    (INSTALLATION, "POD=", Agents),
    (INSTALLATION, "kubectl annotate --overwrite vip", Agents),
    (INSTALLATION, "kubectl -n vipward-system delete deployment", By("deploy/uninstalling.rs")),
    (INSTALLATION, "kubectl vip uninstall", Helm),
    (INSTALLATION, "kubectl debug node/NODE", Nowhere(KUBELET)),
    ("docs/kubernetes/failures.md", "vipward who-has", Agents),
    ("docs/kubernetes/from-cilium.md", "kubectl delete ciliuml2announcementpolicies", Operator),
    ("docs/kubernetes/from-kube-vip.md", "ip -brief address", Agents),
    (METALLB, "kubectl expose deployment web --name=pilot", Operator),
    (METALLB, "kubectl -n metallb-system scale", Operator),
    (METALLB, "kubectl delete validatingwebhookconfiguration", Operator),
    (METALLB, "kubectl apply -f metallb-native.yaml", Operator),
    (METALLB, SPEAKERS_OFF, Operator),
    (METALLB, SPEAKERS_ON, Operator),
    ("docs/kubernetes/pools.md", "$ kubectl get vippools", Agents),
    ("docs/kubernetes/pools.md", "kubectl apply -k .", Operator),
    ("docs/kubernetes/services.md", "kubectl annotate virtualip", Operator),
    ("docs/kubernetes/services.md", "force() {", Operator),
    ("docs/standalone/README.md", "sudo install -m 0755", Host),
    ("docs/standalone/README.md", "sudo install -m 0644", Host),
    ("docs/standalone/README.md", "sudo nsenter", Nowhere(ENDLESS)),
];
