//! The Helm chart, as far as a test without helm can check it.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result};
use serde_json::Value;

use super::{NAMESPACE, documents, flags_of_the_agent, in_checkout, parse, read};

const CHART: &str = "deploy/helm/vipward";
const TEMPLATES: [&str; 14] = [
    "_helpers.tpl",
    "NOTES.txt",
    "controller.yaml",
    "daemonset.yaml",
    "flowschemas.yaml",
    "metallb.yaml",
    "networkpolicy.yaml",
    "openshift.yaml",
    "podmonitors.yaml",
    "policies.yaml",
    "pools.yaml",
    "prometheusrule.yaml",
    "rbac.yaml",
    "users-rbac.yaml",
];

fn template(name: &str) -> Result<String> {
    read(&in_checkout(CHART).join("templates").join(name))
}

/// Returns the templates with the agent's flags.
fn flags() -> Result<String> {
    Ok(template("daemonset.yaml")? + &template("_helpers.tpl")?)
}

fn values() -> Result<Value> {
    Ok(documents(&in_checkout(CHART).join("values.yaml"))?.remove(0))
}

/// Returns the paths of the values that are no tables, and of the tables that are passed on whole.
fn paths(values: &Value, schema: &Value, prefix: &str) -> Vec<String> {
    let Some(table) = values.as_object() else { return vec![prefix.to_owned()] };
    if !schema["properties"].is_object() || prefix == ".resources" {
        return vec![prefix.to_owned()];
    }
    let deeper = |(key, value): (&String, &Value)| {
        paths(value, &schema["properties"][key], &format!("{prefix}.{key}"))
    };
    table.iter().flat_map(deeper).collect()
}

fn schema() -> Result<Value> {
    let path = in_checkout(CHART).join("values.schema.json");
    serde_json::from_str(&read(&path)?).with_context(|| format!("{} is no JSON", path.display()))
}

/// Returns true if a template has this word. A longer word with this beginning does not count.
fn mentions(template: &str, word: &str) -> bool {
    template.match_indices(word).any(|(at, _)| {
        let next = template[at + word.len()..].chars().next();
        next.is_none_or(|c| !c.is_ascii_alphanumeric())
    })
}

#[test]
fn every_value_is_used_and_every_value_that_is_used_exists() -> Result<()> {
    let (values, schema) = (values()?, schema()?);
    let templates = TEMPLATES.iter().map(|name| template(name)).collect::<Result<Vec<_>>>()?.concat();
    let paths = paths(&values, &schema, "");
    assert!(paths.len() > 30, "{paths:?}");
    for path in &paths {
        // The template uses the agent's values within `with .Values.agent`.
        let within = path.strip_prefix(".agent").map(|key| format!("{key})"));
        let used = mentions(&templates, &format!(".Values{path}"))
            || within.is_some_and(|key| templates.contains(&format!(" {key}")));
        assert!(used, "{path} is used by no template");
    }
    for (at, _) in templates.match_indices(".Values.") {
        let word =
            templates[at + ".Values".len()..].split(|c: char| !c.is_ascii_alphanumeric() && c != '.').next();
        let pointer = word.unwrap_or_default().replace('.', "/");
        assert!(values.pointer(&pointer).is_some(), "no value {pointer}");
    }
    let flags = flags()?;
    for (at, _) in flags.match_indices("(list \"") {
        let value = flags[at..].split(" .").nth(1).and_then(|rest| rest.split(')').next());
        let value = value.context("a flag without a value")?;
        // Those of the whole chart were looked for above.
        let is_there = value.starts_with("Values.") || values["agent"].get(value).is_some();
        assert!(is_there, "no value agent.{value}");
    }
    Ok(())
}

fn assert_described(values: &Value, schema: &Value, path: &str) {
    let (Some(values), Some(described)) = (values.as_object(), schema["properties"].as_object()) else {
        return;
    };
    assert_eq!(schema["additionalProperties"], false, "{path} takes misspelled keys");
    let keys: BTreeSet<_> = values.keys().collect();
    // Helm adds this key to every chart that is a dependency.
    let described_keys: BTreeSet<_> = described.keys().filter(|key| *key != "global").collect();
    if path != "/resources" {
        assert_eq!(keys, described_keys, "{path}");
    }
    for (key, value) in values {
        assert_described(value, &described[key], &format!("{path}/{key}"));
    }
}

#[test]
fn the_schema_describes_every_value_and_nothing_else() -> Result<()> {
    assert_described(&values()?, &schema()?, "");
    Ok(())
}

#[test]
fn every_flag_of_the_agent_is_a_value_or_is_the_charts_own_affair() -> Result<()> {
    let flags = flags()?;
    let passed: BTreeSet<_> = flags
        .match_indices("(list \"")
        .filter_map(|(at, found)| flags[at + found.len()..].split('"').next().map(str::to_owned))
        .collect();
    let mut known = flags_of_the_agent()?;
    // These come from the pod's environment and from the service account.
    for own in ["node-name", "pod-name", "pod-address", "lease-namespace", "kubeconfig"] {
        known.remove(own);
    }
    // The value `controller.enabled` decides about it.
    known.remove("without-controller");
    // The directory is the mounted one, and the image has no other object.
    for own in ["pin-dir", "ebpf-object", "help", "version"] {
        known.remove(own);
    }
    assert_eq!(passed, known);
    Ok(())
}

/// Returns the part of a template that a condition around all of it switches.
fn switched(name: &str, condition: &str) -> Result<String> {
    let template = template(name)?;
    let begin = format!("{{{{- if {condition} }}}}\n");
    let inner = template.strip_prefix(&begin).and_then(|text| text.strip_suffix("{{- end }}\n"));
    Ok(inner.with_context(|| format!("{name} is not switched by {condition}"))?.to_owned())
}

/// Returns a template for an installation with the controller.
fn by_default(template: &str) -> Result<String> {
    let mut rendered = template.to_owned();
    for (condition, is_met) in
        [("if .Values.controller.enabled", true), ("if not .Values.controller.enabled", false)]
    {
        while let Some((before, rest)) = rendered.split_once(&format!("{{{{- {condition} }}}}\n")) {
            let (within, after) = rest.split_once("{{- end }}\n").context("a condition without an end")?;
            let within = if is_met { within } else { "" };
            rendered = [before, within, after].map(|part| part.trim_end_matches(' ')).concat();
        }
    }
    Ok(rendered)
}

/// Expands the constructs of these templates, so that no helm is needed.
#[test]
fn the_chart_grants_and_forbids_what_the_base_does_and_with_the_same_priority() -> Result<()> {
    assert_eq!(values()?["flowSchemas"], true);
    for (file, template) in [
        ("rbac.yaml", template("rbac.yaml")?),
        ("flowschemas.yaml", switched("flowschemas.yaml", ".Values.flowSchemas")?),
        ("policies.yaml", switched("policies.yaml", "include \"vipward.policies\" .")?),
        ("users-rbac.yaml", template("users-rbac.yaml")?),
    ] {
        let template = by_default(&template)?
            .replace("{{- include \"vipward.labels\" . | nindent 4 }}", "app.kubernetes.io/name: vipward")
            .replace("{{ .Release.Namespace }}", NAMESPACE);
        assert!(!template.contains("{{"), "{template}");
        let base = in_checkout("deploy/kubernetes/base").join(file);
        assert_eq!(parse(&template)?, documents(&base)?, "{file}");
    }
    Ok(())
}

#[test]
fn the_chart_has_policies_where_the_cluster_serves_them_and_tokens_name_their_nodes() -> Result<()> {
    let helpers = template("_helpers.tpl")?;
    let helper = helpers.split("define \"vipward.policies\"").nth(1).context("no helper vipward.policies")?;
    let kind = documents(&in_checkout("deploy/kubernetes/base/policies.yaml"))?.remove(0);
    let served = format!("{}/{}", kind["apiVersion"], kind["kind"]).replace('"', "");
    assert!(helper.contains(&format!(".APIVersions.Has \"{served}\"")), "{helper}");
    assert!(helper.contains("semverCompare \">=1.30.0-0\" .Capabilities.KubeVersion.Version"), "{helper}");
    Ok(())
}

/// Flux's artifacts have no symbolic links, nor has every checkout.
#[test]
fn the_charts_copies_are_files_and_equal_to_what_they_are_copied_from() -> Result<()> {
    for (copy, original) in [
        ("crds/virtualips.yaml", "deploy/kubernetes/base/crd.yaml"),
        ("files/rules.yaml", "deploy/prometheus/rules.yaml"),
    ] {
        let copy = in_checkout(CHART).join(copy);
        assert_eq!(read(&copy)?, read(&in_checkout(original))?, "cp {original} {}", copy.display());
    }
    let mut directories = vec![in_checkout("")];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if ["target", ".git"].iter().any(|other| entry.file_name() == *other) {
                continue;
            }
            assert!(!kind.is_symlink(), "{} is a symbolic link", entry.path().display());
            directories.extend(Some(entry.path()).filter(|_| kind.is_dir()));
        }
    }
    Ok(())
}

#[test]
fn the_definitions_are_kept_by_whatever_prunes() -> Result<()> {
    for definition in documents(&in_checkout("deploy/kubernetes/base/crd.yaml"))? {
        let annotations = &definition["metadata"]["annotations"];
        assert_eq!(annotations["argocd.argoproj.io/sync-options"], "Prune=false,Delete=false");
        assert_eq!(annotations["kustomize.toolkit.fluxcd.io/prune"], "disabled");
        assert_eq!(annotations["helm.sh/resource-policy"], "keep");
    }
    Ok(())
}

/// Checks that `schema` has the fields of a type in a definition, as far as it describes them.
fn assert_fields(schema: &Value, defined: &Value, path: &str) {
    let Some(described) = schema["properties"].as_object() else { return };
    assert_eq!(schema["additionalProperties"], false, "{path} takes misspelled fields");
    let defined = &defined["properties"];
    let keys = |of: &Value| of.as_object().map(|fields| fields.keys().cloned().collect::<BTreeSet<_>>());
    assert_eq!(keys(&schema["properties"]), keys(defined), "{path}");
    for (name, field) in described {
        assert_fields(field, &defined[name], &format!("{path}.{name}"));
    }
}

#[test]
fn the_schema_knows_the_fields_of_a_pool() -> Result<()> {
    let definitions = documents(&in_checkout("deploy/kubernetes/base/crd.yaml"))?;
    let pool =
        definitions.iter().find(|it| it["spec"]["names"]["kind"] == "VIPPool").context("no VIPPool")?;
    let spec = &pool["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    assert_fields(&schema()?["definitions"]["pool"], spec, "spec");
    Ok(())
}

#[test]
fn the_notes_without_the_controller_name_the_command_that_makes_the_key() -> Result<()> {
    let notes = template("NOTES.txt")?;
    let (before, command) = notes.split_once("kubectl vip wire init").context("no command")?;
    let condition = before.rsplit("{{- if ").next().unwrap_or_default();
    assert!(condition.starts_with("not (or .Values.controller.enabled "), "{condition}");
    assert!(command.starts_with(" --lease-namespace {{ .Release.Namespace }}\n{{- end }}"), "{command}");
    Ok(())
}

#[test]
fn the_notes_name_the_label_of_a_namespace_that_has_none() -> Result<()> {
    let notes = template("NOTES.txt")?;
    let label = "pod-security.kubernetes.io/enforce";
    let (before, command) = notes.split_once("kubectl label --overwrite namespace").context("no command")?;
    let condition = before.rsplit("{{- if ").next().unwrap_or_default();
    assert!(condition.starts_with(&format!("ne (get $labels \"{label}\") \"privileged\"")), "{condition}");
    assert!(
        command.starts_with(&format!(" {{{{ .Release.Namespace }}}} {label}=privileged\n{{{{- end }}}}"))
    );
    Ok(())
}

#[test]
fn the_address_of_the_runbooks_is_a_value_whose_default_the_rules_have() -> Result<()> {
    let default = values()?["prometheusRule"]["pages"].as_str().context("no address")?.to_owned();
    let replaced = format!("| replace \"{default}\" .Values.prometheusRule.pages |");
    assert!(template("prometheusrule.yaml")?.contains(&replaced), "{replaced}");
    let rules = read(&in_checkout("deploy/prometheus/rules.yaml"))?;
    let mut urls = rules.lines().filter_map(|line| line.trim().strip_prefix("runbook_url: ")).peekable();
    assert!(urls.peek().is_some() && urls.all(|url| url.starts_with(&default)), "{rules}");
    Ok(())
}
