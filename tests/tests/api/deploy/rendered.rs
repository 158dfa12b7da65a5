//! The objects that kustomize and Helm render from the same choice: they are the same. The tests
//! are skipped, with a message, if either program is missing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tempfile::{NamedTempFile, TempDir};
use vipward_tests::kit::output_of;

use super::{
    NAMESPACE, container, documents, find, flag_of, flags_of_the_agent, in_checkout, parse, skipped, strings,
};

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

/// Returns what a kustomization of the base and these overlays renders, with further lines.
fn kustomized(overlays: &[&str], further: &str) -> Option<Result<String>> {
    let build = || {
        let directory = TempDir::new()?;
        // kustomize takes relative paths alone.
        let up = "../".repeat(directory.path().canonicalize()?.components().count() - 1);
        let at = format!("{}{}", up, in_checkout("deploy/kubernetes").canonicalize()?.display());
        let overlays: Vec<_> = overlays.iter().map(|name| format!("{at}/overlays/{name}")).collect();
        let kustomization = format!(
            "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [{at}/base]\n\
             components: [{}]\n{}",
            overlays.join(", "),
            further.replace("DEPLOY", &at)
        );
        fs::write(directory.path().join("kustomization.yaml"), kustomization)?;
        Ok(directory)
    };
    let directory = match build() {
        Ok(directory) => directory,
        Err(error) => return Some(Err(error)),
    };
    kustomize(directory.path())
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
    let rows: [(&[&str], &str, usize); 9] = [
        (&[], "{}", 35),
        (&["least-privilege"], "leastPrivilege: true", 35),
        (&["kube-proxy-ipvs"], "arpAnnounce: {set: true}", 35),
        (&["without-controller"], "controller: {enabled: false}", 22),
        (&["metallb"], "metallb: {enabled: true}", 39),
        (&["host-to-container"], "mountPropagation: HostToContainer", 35),
        (&["openshift"], "openshift: true", 37),
        (&["network-policy"], "networkPolicy: {enabled: true}", 36),
        (
            &["metallb", "openshift", "kube-proxy-ipvs", "least-privilege"],
            "{metallb: {enabled: true}, openshift: true, arpAnnounce: {set: true}, leastPrivilege: true}",
            41,
        ),
    ];
    for (overlays, values, count) in rows {
        let Some(kustomized) = kustomized(overlays, "") else { return Ok(()) };
        let kustomized = objects(&kustomized?)?;
        assert_eq!(kustomized.len(), count, "{overlays:?}: {:?}", kustomized.keys());
        let Some(helm) = helm() else { return Ok(()) };
        let charted = objects(&helm.template(values)?)?;
        let names = |of: &BTreeMap<String, Value>| of.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&charted), names(&kustomized), "{overlays:?}");
        for (name, object) in &kustomized {
            let differences = differences(&charted[name], object, "");
            assert!(differences.is_empty(), "{overlays:?}: {name}: {differences:#?}");
        }
    }
    Ok(())
}

/// Returns the names of the overlays.
fn overlays() -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(in_checkout("deploy/kubernetes/overlays"))? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

#[test]
fn any_overlays_combine_in_any_order_and_leave_nothing_in_the_namespace_that_is_not_theirs() -> Result<()> {
    const NAMESPACED: &str = "namespace: vips\ntransformers: [DEPLOY/namespace]\n";
    let names = overlays()?;
    assert_eq!(names.len(), 7, "{names:?}");
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut choices = vec![names.clone(), names.iter().rev().copied().collect()];
    for (at, first) in names.iter().enumerate() {
        choices.push(vec![first]);
        choices.extend(names[at + 1..].iter().map(|second| vec![*first, second]));
    }
    for overlays in choices {
        let Some(rendered) = kustomized(&overlays, NAMESPACED) else { return Ok(()) };
        let rendered = rendered.with_context(|| format!("{overlays:?}"))?;
        assert!(!rendered.contains(NAMESPACE), "{overlays:?}: {NAMESPACE} is left: {rendered}");
        for object in parse(&rendered)?.into_iter().filter(|object| object["rules"].is_array()) {
            let name = object["metadata"]["name"].as_str().context("no name")?;
            let of_metallb = name.starts_with("vipward-metallb");
            let expected = if of_metallb { "metallb-system" } else { "vips" };
            let namespace = &object["metadata"]["namespace"];
            assert!(object["kind"] == "ClusterRole" || namespace == expected, "{overlays:?}: {object}");
        }
    }
    Ok(())
}

/// Checks what the API server would fill in within a list: a client-side apply replaces a list that
/// differs, each time; two server-side appliers conflict about it.
#[test]
fn every_list_is_written_as_the_api_server_keeps_it() -> Result<()> {
    fn assert_whole(value: &Value, path: &str) {
        match value {
            Value::Object(table) => {
                if let Some(field) = table.get("fieldRef") {
                    assert_eq!(field["apiVersion"], "v1", "{path}");
                }
                if let Some(constraints) = table.get("matchConstraints") {
                    for field in ["matchPolicy", "namespaceSelector", "objectSelector"] {
                        assert!(!constraints[field].is_null(), "{path}.matchConstraints: {field}");
                    }
                }
                if table.contains_key("apiVersions") && table.contains_key("operations") {
                    assert!(table.contains_key("scope"), "{path}");
                }
                if table.contains_key("clusterScope") {
                    assert!(table.contains_key("namespaces"), "{path}");
                }
                table.iter().for_each(|(key, value)| assert_whole(value, &format!("{path}.{key}")));
            }
            Value::Array(list) => list.iter().for_each(|value| assert_whole(value, &format!("{path}[]"))),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let Some(rendered) = kustomized(&["metallb"], "") else { return Ok(()) };
    for (name, object) in objects(&rendered?)? {
        assert_whole(&object, &name);
    }
    Ok(())
}

/// Returns the only object of a kind and a name.
fn the<'a>(rendered: &'a BTreeMap<String, Value>, kind: &str, name: &str) -> Result<&'a Value> {
    let found = rendered.values().find(|it| it["kind"] == kind && it["metadata"]["name"] == name);
    found.with_context(|| format!("no {kind} {name} in {:?}", rendered.keys()))
}

#[test]
fn where_and_how_the_pods_run_are_values() -> Result<()> {
    let Some(helm) = helm() else { return Ok(()) };
    let own = "affinity: {nodeAffinity: {}}, tolerations: [{key: x}], extraArgs: [--x=y], \
        extraEnv: [{name: A, value: b}], podLabels: {team: net}, podAnnotations: {note: z}, \
        nodeSelector: {pool: net}, priorityClassName: high";
    let values = format!(
        "{{{own}, image: {{digest: 'sha256:{}'}}, controller: {{{own}, runAsUser: null}}}}",
        "a".repeat(64)
    );
    let rendered = objects(&helm.template(&values)?)?;
    for workload in
        [the(&rendered, "DaemonSet", "vipward")?, the(&rendered, "Deployment", "vipward-controller")?]
    {
        let (pod, container) = (&workload["spec"]["template"]["spec"], container(workload)?);
        assert_eq!(container["image"], format!("vipward@sha256:{}", "a".repeat(64)));
        assert!(strings(&container["args"])?.contains(&"--x=y"), "{container}");
        let environment = container["env"].as_array().context("no environment")?;
        assert!(environment.contains(&json!({"name": "A", "value": "b"})), "{environment:?}");
        assert_eq!(pod["affinity"], json!({"nodeAffinity": {}}));
        assert_eq!(pod["tolerations"], json!([{"key": "x"}]));
        assert_eq!(
            (&pod["nodeSelector"]["pool"], &pod["priorityClassName"]),
            (&json!("net"), &json!("high"))
        );
        let metadata = &workload["spec"]["template"]["metadata"];
        assert_eq!(
            (&metadata["labels"]["team"], &metadata["annotations"]["note"]),
            (&json!("net"), &json!("z"))
        );
        assert_eq!(container["securityContext"]["runAsUser"], Value::Null);
    }
    Ok(())
}

#[test]
fn the_operators_objects_are_those_of_the_prometheus_directory_with_labels() -> Result<()> {
    let Some(helm) = helm() else { return Ok(()) };
    let values = "podMonitor: {enabled: true, labels: {release: p}}\n\
        prometheusRule: {enabled: true, labels: {release: p}}";
    let rendered = objects(&helm.template(values)?)?;
    for file in ["podmonitor.yaml", "podmonitor-controller.yaml", "prometheusrule.yaml"] {
        let expected = documents(&in_checkout("deploy/prometheus").join(file))?.remove(0);
        let name = expected["metadata"]["name"].as_str().context("no name")?;
        let charted = the(&rendered, expected["kind"].as_str().unwrap_or_default(), name)?;
        assert_eq!(charted["spec"], expected["spec"], "{file}");
        assert_eq!(charted["metadata"]["labels"]["release"], "p", "{file}");
    }
    let moved = values.replacen("prometheusRule: {", "prometheusRule: {pages: 'https://a.example/', ", 1);
    let moved = helm.template(&moved)?;
    assert!(moved.contains("runbook_url: https://a.example/docs/kubernetes/failures.html#two-macs-answer"));
    assert!(!moved.contains("pages.example.com"), "{moved}");
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
        (
            "allowAddresses: [192.0.2.0/24, 2001:db8::/64]",
            &["--allow-address=192.0.2.0/24", "--allow-address=2001:db8::/64"],
        ),
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
        ("proxyHealth: [http://127.0.0.1:10256/healthz]", &["--proxy-health=http://127.0.0.1:10256/healthz"]),
        ("proxyTimeout: 1m", &["--proxy-timeout=1m"]),
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
        ("resources: {limits: {cpu: 100m}}", "limits"),
        ("controller: {replicas: 0}", "replicas"),
        ("controller: {runAsUser: 0}", "runAsUser"),
        ("mountPropagation: Shared", "mountPropagation"),
        ("image: {digest: latest}", "digest"),
        ("agent: {listen: [192.0.2.7]}", "127.0.0.1"),
        ("pools: [{name: lan}]", "spec"),
        ("pools: [{name: lan, spec: {adresses: [192.0.2.1]}}]", "adresses"),
        ("pools: [{name: lan, spec: {addresses: [192.0.2.1], avoid: {end: true}}}]", "end"),
    ] {
        let refused = helm.template(value).err().with_context(|| format!("{value} was taken"))?;
        assert!(format!("{refused:#}").contains(named), "{value}: {refused:#}");
    }
    Ok(())
}
