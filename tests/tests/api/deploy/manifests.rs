//! The files under deploy/kubernetes on their own.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{NAMESPACE, container, documents, flag_of, flags_of_the_agent, in_base, in_checkout, strings};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Returns every YAML file below a directory. Leaves out the chart's
/// templates, which are no YAML before rendering.
fn yaml_files(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).with_context(|| format!("failed to list {}", directory.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            if !path.ends_with("templates") {
                files.extend(yaml_files(&path)?);
            }
        } else if path.extension().is_some_and(|extension| extension == "yaml") {
            files.push(path);
        }
    }
    Ok(files)
}

#[test]
fn every_yaml_file_can_be_read_and_those_for_kubernetes_name_their_objects() -> Result<()> {
    let files = yaml_files(&in_checkout("deploy"))?;
    assert!(files.len() > 8, "{files:?}");
    for path in files {
        let documents = documents(&path)?;
        assert!(!documents.is_empty(), "{} is empty", path.display());
        if !path.starts_with(in_checkout("deploy/kubernetes")) {
            continue;
        }
        for object in documents {
            assert!(object["apiVersion"].is_string() && object["kind"].is_string(), "{}", path.display());
            let is_kustomization = ["Kustomization", "Component"].iter().any(|kind| object["kind"] == *kind);
            let named = is_kustomization || object["metadata"]["name"].is_string();
            assert!(named, "{}: {object}", path.display());
        }
    }
    Ok(())
}

#[test]
fn a_kustomization_lists_exactly_the_files_beside_it() -> Result<()> {
    let kustomizations: Vec<_> = yaml_files(&in_checkout("deploy/kubernetes"))?
        .into_iter()
        .filter(|path| path.ends_with("kustomization.yaml"))
        .collect();
    assert_eq!(kustomizations.len(), 9, "{kustomizations:?}");
    for path in kustomizations {
        let directory = path.parent().context("a file is in a directory")?;
        let kustomization = documents(&path)?.remove(0);
        let none = Vec::new();
        let resources = kustomization["resources"].as_array().unwrap_or(&none).iter();
        let resources = resources.filter_map(Value::as_str);
        let patches = kustomization["patches"].as_array().unwrap_or(&none).iter();
        let patches = patches.filter_map(|patch| patch["path"].as_str());
        let (directories, listed): (Vec<_>, Vec<_>) =
            resources.chain(patches).map(|name| directory.join(name)).partition(|path| path.is_dir());
        assert!(directories.iter().all(|path| path.join("kustomization.yaml").is_file()), "{directories:?}");
        let beside = yaml_files(directory)?.into_iter().filter(|beside| *beside != path);
        let listed: BTreeSet<_> = listed.into_iter().collect();
        assert_eq!(listed, beside.collect::<BTreeSet<_>>(), "{}", path.display());
    }
    Ok(())
}

#[test]
fn the_daemon_set_passes_only_flags_that_the_agent_takes() -> Result<()> {
    let known = flags_of_the_agent()?;
    let daemonset = in_base("daemonset.yaml", "DaemonSet")?;
    let args = strings(&container(&daemonset)?["args"])?;
    assert_eq!(args.first(), Some(&"kubernetes"));
    for argument in &args[1..] {
        let flag = flag_of(argument).with_context(|| format!("{argument} is no flag"))?;
        assert!(known.contains(flag), "--{flag} is none of {known:?}");
    }
    Ok(())
}

#[test]
fn the_probes_go_where_the_agent_serves() -> Result<()> {
    let daemonset = in_base("daemonset.yaml", "DaemonSet")?;
    let agent = container(&daemonset)?;
    let port = strings(&agent["args"])?.into_iter().find_map(|arg| arg.strip_prefix("--listen-port="));
    let port: u16 = port.context("no --listen-port")?.parse()?;
    assert_eq!(agent["ports"], json!([{"name": "metrics", "containerPort": port, "protocol": "TCP"}]));
    for (probe, path) in
        [("startupProbe", "/livez"), ("livenessProbe", "/livez"), ("readinessProbe", "/readyz")]
    {
        let get = &agent[probe]["httpGet"];
        // The address is one of the default ones.
        assert_eq!((&get["host"], &get["port"]), (&json!("127.0.0.1"), &json!(port)), "{probe}");
        assert_eq!(get["path"], path, "{probe}");
    }
    Ok(())
}

#[test]
fn the_controller_is_two_unprivileged_pods_apart_with_probes_where_it_serves() -> Result<()> {
    let deployment = in_base("controller.yaml", "Deployment")?;
    assert_eq!(deployment["spec"]["replicas"], json!(2));
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!((&pod["hostNetwork"], &pod["volumes"]), (&Value::Null, &Value::Null));
    let labels = &deployment["spec"]["template"]["metadata"]["labels"];
    let spread = &pod["topologySpreadConstraints"][0];
    assert_eq!(spread["topologyKey"], "kubernetes.io/hostname");
    let budget = in_base("controller.yaml", "PodDisruptionBudget")?;
    assert_eq!(budget["spec"]["maxUnavailable"], json!(1));
    for selector in [&deployment["spec"]["selector"], &spread["labelSelector"], &budget["spec"]["selector"]] {
        assert_eq!(&selector["matchLabels"], labels);
    }
    let controller = container(&deployment)?;
    let security = &controller["securityContext"];
    assert_eq!(security["allowPrivilegeEscalation"], json!(false));
    assert_eq!(
        (&security["readOnlyRootFilesystem"], &security["runAsNonRoot"]),
        (&json!(true), &json!(true))
    );
    assert_eq!(security["capabilities"], json!({"drop": ["ALL"]}));
    let port = strings(&controller["args"])?.into_iter().find_map(|arg| arg.strip_prefix("--listen-port="));
    let port: u16 = port.context("no --listen-port")?.parse()?;
    assert_eq!(controller["ports"], json!([{"name": "metrics", "containerPort": port, "protocol": "TCP"}]));
    for (probe, path) in
        [("startupProbe", "/livez"), ("livenessProbe", "/livez"), ("readinessProbe", "/readyz")]
    {
        assert_eq!(controller[probe]["httpGet"], json!({"port": port, "path": path}), "{probe}");
    }
    let environment = controller["env"].as_array().context("no environment")?;
    let pod_ip = json!({
        "name": "POD_IP", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "status.podIP"}},
    });
    assert!(environment.contains(&pod_ip), "the kubelet asks the Pod's address: {environment:?}");
    Ok(())
}

#[test]
fn the_image_is_the_one_that_is_built_here() -> Result<()> {
    for (file, kind) in [("daemonset.yaml", "DaemonSet"), ("controller.yaml", "Deployment")] {
        assert_eq!(container(&in_base(file, kind)?)?["image"], format!("vipward:{VERSION}"));
    }
    let chart = documents(&in_checkout("deploy/helm/vipward/Chart.yaml"))?.remove(0);
    assert_eq!((&chart["version"], &chart["appVersion"]), (&json!(VERSION), &json!(VERSION)));
    Ok(())
}

/// Checks the settings whose loss in an edit would cost answers.
#[test]
fn an_agent_is_never_throttled_evicted_or_kept_off_a_node() -> Result<()> {
    let daemonset = in_base("daemonset.yaml", "DaemonSet")?;
    let pod = &daemonset["spec"]["template"]["spec"];
    let agent = container(&daemonset)?;
    assert_eq!(agent["resources"]["limits"]["cpu"], Value::Null);
    assert!(agent["resources"]["limits"]["memory"].is_string());
    assert_eq!(pod["priorityClassName"], "system-node-critical");
    // Of these, 15 s are for another DaemonSet to come, and 10 s for an uninstall.
    assert_eq!(pod["terminationGracePeriodSeconds"], json!(30));
    assert_eq!(pod["tolerations"], json!([{"operator": "Exists"}]));
    assert_eq!(pod["hostNetwork"], json!(true));
    assert_eq!(daemonset["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"], json!(1));
    let mount = agent["volumeMounts"].as_array().and_then(|mounts| mounts.first()).context("no mount")?;
    assert_eq!(
        (&mount["mountPath"], &mount["mountPropagation"]),
        (&json!("/sys/fs/bpf"), &json!("Bidirectional"))
    );
    for (name, field) in [
        ("NODE_NAME", "spec.nodeName"),
        ("POD_NAME", "metadata.name"),
        ("POD_NAMESPACE", "metadata.namespace"),
        ("POD_IP", "status.podIP"),
    ] {
        let environment = agent["env"].as_array().context("no environment")?;
        let from = environment.iter().find(|variable| variable["name"] == name);
        let path = from.map(|variable| &variable["valueFrom"]["fieldRef"]["fieldPath"]);
        assert_eq!(path, Some(&json!(field)), "{name}");
    }
    let namespace = in_base("namespace.yaml", "Namespace")?;
    assert_eq!(namespace["metadata"]["name"], NAMESPACE);
    assert_eq!(namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"], "privileged");
    Ok(())
}
