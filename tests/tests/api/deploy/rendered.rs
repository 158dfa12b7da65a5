//! The objects that kustomize and Helm render from the same choice: they are the same. The tests
//! are skipped, with a message, if either program is missing.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tempfile::NamedTempFile;
use vipward_tests::kit::output_of;

use super::{NAMESPACE, container, find, flag_of, flags_of_the_agent, in_checkout, parse, skipped, strings};

const HELMS_LABELS: [&str; 3] =
    ["app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "helm.sh/chart"];

struct Helm(PathBuf);

impl Helm {
    /// Renders the chart with a file of values. (`--set` would guess their types.)
    fn template(&self, values: &str) -> Result<String> {
        let mut file = NamedTempFile::new()?;
        file.write_all(values.as_bytes())?;
        let mut command = Command::new(&self.0);
        command.args(["template", "vipward"]).arg(in_checkout("deploy/helm/vipward"));
        // This is the oldest version with all features of the manifests.
        // Without a cluster, helm would assume its own.
        command.args(["--include-crds", "--namespace", NAMESPACE, "--kube-version", "1.30.0"]);
        command.args(["--api-versions", "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy"]);
        command.arg("--values").arg(file.path());
        output_of(command)
    }
}

fn helm() -> Option<Helm> {
    let helm = find("helm").map(Helm);
    if helm.is_none() {
        skipped("helm is not installed, so that it cannot be compared with kustomize");
    }
    helm
}

/// Runs `kustomize build`, with either program that has it.
fn kustomize(directory: &Path) -> Option<Result<String>> {
    let mut command = match (find("kustomize"), find("kubectl")) {
        (Some(kustomize), _) => {
            let mut command = Command::new(kustomize);
            command.arg("build");
            command
        }
        (None, Some(kubectl)) => {
            let mut command = Command::new(kubectl);
            command.arg("kustomize");
            command
        }
        (None, None) => {
            skipped("neither kustomize nor kubectl is installed, so that Helm cannot be compared with them");
            return None;
        }
    };
    command.arg(directory);
    Some(output_of(command))
}

fn without_helms_labels(value: &mut Value) {
    match value {
        Value::Object(table) => {
            for label in HELMS_LABELS {
                table.remove(label);
            }
            table.values_mut().for_each(without_helms_labels);
        }
        Value::Array(list) => list.iter_mut().for_each(without_helms_labels),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn differences(chart: &Value, base: &Value, path: &str) -> Vec<String> {
    match (chart, base) {
        (Value::Object(left), Value::Object(right)) => {
            let keys: BTreeSet<_> = left.keys().chain(right.keys()).collect();
            keys.into_iter()
                .flat_map(|key| differences(&chart[key], &base[key], &format!("{path}.{key}")))
                .collect()
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            let pairs = left.iter().zip(right).enumerate();
            pairs.flat_map(|(i, (left, right))| differences(left, right, &format!("{path}[{i}]"))).collect()
        }
        // 0 and 0.0 are one number.
        (Value::Number(left), Value::Number(right)) if left.as_f64() == right.as_f64() => Vec::new(),
        _ if chart == base => Vec::new(),
        _ => vec![format!("{path}: {chart} in the chart, {base} by kustomize")],
    }
}

/// Returns the objects by kind and name, without namespaces: `helm install
/// --create-namespace` makes those, not a chart.
fn objects(yaml: &str) -> Result<BTreeMap<String, Value>> {
    let documents = parse(yaml)?.into_iter().filter(|object| !object.is_null());
    let objects = documents.filter(|object| object["kind"] != "Namespace").map(|mut object| {
        without_helms_labels(&mut object);
        let metadata = &object["metadata"];
        (format!("{} {}/{}", object["kind"], metadata["namespace"], metadata["name"]), object)
    });
    Ok(objects.collect())
}

#[test]
fn helm_and_kustomize_render_the_same_objects() -> Result<()> {
    for (directory, values, count) in [
        ("base", "{}", 33),
        ("overlays/least-privilege", "leastPrivilege: true", 33),
        ("overlays/kube-proxy-ipvs", "arpAnnounce: {set: true}", 33),
        ("overlays/without-controller", "controller: {enabled: false}", 20),
        ("overlays/metallb", "metallb: {enabled: true}", 37),
    ] {
        let Some(kustomized) = kustomize(&in_checkout("deploy/kubernetes").join(directory)) else {
            return Ok(());
        };
        let kustomized = objects(&kustomized?)?;
        assert_eq!(kustomized.len(), count, "{directory}: {:?}", kustomized.keys());
        let Some(helm) = helm() else { return Ok(()) };
        let charted = objects(&helm.template(values)?)?;
        let names = |of: &BTreeMap<String, Value>| of.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&charted), names(&kustomized), "{directory}");
        for (name, object) in &kustomized {
            let differences = differences(&charted[name], object, "");
            assert!(differences.is_empty(), "{directory}: {name}: {differences:#?}");
        }
    }
    Ok(())
}

#[test]
fn each_of_the_charts_values_becomes_a_flag_that_the_agent_takes() -> Result<()> {
    let Some(helm) = helm() else { return Ok(()) };
    let known = flags_of_the_agent()?;
    let rows = [
        ("interfaces: [eth0, \"ens*\"]", &["--interface=eth0", "--interface=ens*"][..]),
        ("attach: native", &["--attach=native"]),
        ("maxVips: 4194304", &["--max-vips=4194304"]),
        ("loadBalancerClass: example.com/l2", &["--load-balancer-class=example.com/l2"]),
        ("classOnly: true", &["--class-only"]),
        ("namespaces: [a, b]", &["--namespace=a", "--namespace=b"]),
        ("namespaceSelector: team in (a, b)", &["--namespace-selector=team in (a, b)"]),
        ("serviceSelector: lan=yes", &["--service-selector=lan=yes"]),
        ("externalIPs: true", &["--external-ips"]),
        ("allowAddresses: [192.0.2.0/24]", &["--allow-address=192.0.2.0/24"]),
        ("refuseAddresses: [10.0.0.0/8]", &["--refuse-address=10.0.0.0/8"]),
        ("maxAddresses: 4", &["--max-addresses=4"]),
        ("maxVipsPerNamespace: 100", &["--max-vips-per-namespace=100"]),
        ("withdrawWithoutEndpoints: true", &["--withdraw-without-endpoints"]),
        ("ignoreExcludeLabel: true", &["--ignore-exclude-label"]),
        ("leaseDuration: 6s", &["--lease-duration=6s"]),
        ("leaseRenewal: 1500ms", &["--lease-renewal=1500ms"]),
        ("margin: 1s", &["--margin=1s"]),
        ("policy: stop", &["--policy=stop"]),
        ("holdFor: 2h", &["--hold-for=2h"]),
        ("restartLease: 90s", &["--restart-lease=90s"]),
        ("stableFor: 2m", &["--stable-for=2m"]),
        ("handoverPace: 1s", &["--handover-pace=1s"]),
        ("wire: off", &["--wire=off"]),
        ("announceRefresh: 30s", &["--announce-refresh=30s"]),
        ("announceRate: 1000000", &["--announce-rate=1000000"]),
        ("logClaims: true", &["--log-claims"]),
        ("listen: [127.0.0.1, 192.0.2.7]", &["--listen=127.0.0.1", "--listen=192.0.2.7"]),
        ("metricsMaxVips: 10000", &["--metrics-max-vips=10000"]),
    ];
    let values: Vec<_> = rows.iter().map(|(value, _)| *value).collect();
    let rendered = objects(&helm.template(&format!("agent:\n  {}", values.join("\n  ")))?)?;
    let daemonset = rendered.values().find(|object| object["kind"] == "DaemonSet").context("no DaemonSet")?;
    let args = strings(&container(daemonset)?["args"])?;
    let expected: BTreeSet<_> = rows.iter().flat_map(|(_, args)| args.iter().copied()).collect();
    let default = ["kubernetes", "--log-format=json", "--listen-port=9647"];
    let rendered: BTreeSet<_> = args.iter().copied().filter(|arg| !default.contains(arg)).collect();
    assert_eq!(rendered, expected);
    for argument in expected {
        let flag = flag_of(argument).context("invariant: all are flags")?;
        assert!(known.contains(flag), "--{flag} is none of {known:?}");
    }
    Ok(())
}

#[test]
fn the_chart_makes_the_pools_and_refuses_them_without_a_controller() -> Result<()> {
    let Some(helm) = helm() else { return Ok(()) };
    let pools = "pools: [{name: lan, spec: {addresses: [192.0.2.0/28], priority: 10}}, \
        {name: wan, spec: {addresses: [2001:db8::10]}}]";
    let rendered = objects(&helm.template(pools)?)?;
    let spec = |name: &str| rendered.get(&format!("\"VIPPool\" null/\"{name}\"")).map(|pool| &pool["spec"]);
    assert_eq!(spec("lan"), Some(&json!({"addresses": ["192.0.2.0/28"], "priority": 10})));
    assert_eq!(spec("wan"), Some(&json!({"addresses": ["2001:db8::10"]})));
    let refused = helm
        .template(&format!("controller: {{enabled: false}}\n{pools}"))
        .err()
        .context("pools without a controller were taken")?;
    assert!(format!("{refused:#}").contains("pools need the controller"), "{refused:#}");
    Ok(())
}

#[test]
fn the_controller_serves_the_services_that_the_agents_serve() -> Result<()> {
    let Some(helm) = helm() else { return Ok(()) };
    let values = "agent: {classOnly: true, namespaces: [a], allowAddresses: [192.0.2.0/24], margin: 1s}";
    let rendered = objects(&helm.template(values)?)?;
    let deployment =
        rendered.values().find(|object| object["kind"] == "Deployment").context("no Deployment")?;
    let args = strings(&deployment["spec"]["template"]["spec"]["containers"][0]["args"])?;
    let expected = [
        "controller",
        "--log-format=json",
        "--class-only",
        "--namespace=a",
        "--allow-address=192.0.2.0/24",
        "--listen-port=9648",
    ];
    assert_eq!(args, expected);
    Ok(())
}

#[test]
fn the_chart_refuses_values_that_it_would_not_use_and_a_cpu_limit() -> Result<()> {
    let Some(helm) = helm() else { return Ok(()) };
    for (value, named) in [
        ("agent: {leaseDuraton: 4s}", "leaseDuraton"),
        ("agent: {leaseDuration: 4}", "leaseDuration"),
        ("agent: {attach: fast}", "attach"),
        ("agent: {wire: true}", "wire"),
        ("agent: {wire: 3}", "wire"),
        ("agent: {allowAddresses: [everything]}", "allowAddresses"),
        ("agent: {refuseAddresses: [10.0.0.0]}", "refuseAddresses"),
        ("leastprivilege: true", "leastprivilege"),
        ("resources: {limits: {cpu: 100m}}", "resources.limits"),
        ("controller: {replicas: 0}", "replicas"),
        ("pools: [{name: lan}]", "spec"),
    ] {
        let refused = helm.template(value).err().with_context(|| format!("{value} was taken"))?;
        assert!(format!("{refused:#}").contains(named), "{value}: {refused:#}");
    }
    Ok(())
}
