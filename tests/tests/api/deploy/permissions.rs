//! The agent's permissions in the API server and on the node: exactly its needs.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde_json::{Value, json};
use vipward_tests::agent::{Attachment, Capability, HOLDS_ONE, NODE, Node, VIP};

use super::{NAMESPACE, container, documents, in_base, in_checkout, read, strings};

/// Returns the verbs of each resource in a `ClusterRole` or `Role`.
fn granted(role: &Value) -> Result<BTreeMap<String, BTreeSet<String>>> {
    let mut granted = BTreeMap::new();
    for rule in role["rules"].as_array().context("a role has rules")? {
        for resource in strings(&rule["resources"])? {
            let verbs = strings(&rule["verbs"])?.into_iter().map(str::to_owned);
            granted.entry(resource.to_owned()).or_insert_with(BTreeSet::new).extend(verbs);
        }
    }
    Ok(granted)
}

fn roles() -> Result<[Value; 2]> {
    Ok([in_base("rbac.yaml", "ClusterRole")?, in_base("rbac.yaml", "Role")?])
}

#[test]
fn no_rule_has_a_wildcard_and_none_grants_a_role_or_a_secret_but_the_key_of_wire_failover() -> Result<()> {
    let key = json!({
        "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["vipward-wire"],
        "verbs": ["get", "list", "watch"],
    });
    for mut role in roles()? {
        let rules = role["rules"].as_array_mut().context("a role has rules")?;
        rules.retain(|rule| *rule != key);
        let text = role["rules"].to_string();
        assert!(!text.contains('*'), "{text}");
        for resource in granted(&role)?.keys() {
            let forbidden =
                ["secrets", "roles", "clusterroles", "pods/exec", "nodes/proxy", "serviceaccounts/token"];
            assert!(!forbidden.contains(&resource.as_str()), "{resource}");
        }
        for verb in ["escalate", "bind", "impersonate", "deletecollection"] {
            assert!(!text.contains(&format!("{verb:?}")), "{verb}: {text}");
        }
    }
    Ok(())
}

#[test]
fn only_its_own_objects_are_written_and_deleted() -> Result<()> {
    let [cluster, own] = roles()?;
    let writes = |role: &Value| -> Result<BTreeMap<String, BTreeSet<String>>> {
        let mut granted = granted(role)?;
        for verbs in granted.values_mut() {
            verbs.retain(|verb| !["get", "list", "watch"].contains(&verb.as_str()));
        }
        granted.retain(|_, verbs| !verbs.is_empty());
        Ok(granted)
    };
    let words = |words: &str| words.split(' ').map(str::to_owned).collect::<BTreeSet<_>>();
    let expected = [("events", "create patch"), ("virtualips", "create patch delete")];
    assert_eq!(
        writes(&cluster)?,
        expected.map(|(resource, verbs)| (resource.to_owned(), words(verbs))).into()
    );
    assert_eq!(writes(&own)?, [("leases".to_owned(), words("create patch"))].into());
    Ok(())
}

#[test]
fn the_bindings_give_the_roles_to_the_service_account_that_the_daemon_set_uses() -> Result<()> {
    let account = in_base("rbac.yaml", "ServiceAccount")?;
    let daemonset = in_base("daemonset.yaml", "DaemonSet")?;
    assert_eq!(daemonset["spec"]["template"]["spec"]["serviceAccountName"], account["metadata"]["name"]);
    for (binding, role) in [("ClusterRoleBinding", "ClusterRole"), ("RoleBinding", "Role")] {
        let (binding, role) = (in_base("rbac.yaml", binding)?, in_base("rbac.yaml", role)?);
        assert_eq!(binding["roleRef"]["kind"], role["kind"]);
        assert_eq!(binding["roleRef"]["name"], role["metadata"]["name"]);
        let subjects = binding["subjects"].as_array().context("no subjects")?;
        assert_eq!(subjects.len(), 1);
        assert_eq!(subjects[0]["kind"], "ServiceAccount");
        assert_eq!(subjects[0]["name"], account["metadata"]["name"]);
        assert_eq!(subjects[0]["namespace"], NAMESPACE);
    }
    Ok(())
}

/// Kubernetes brings the levels `leader-election` and `workload-high`. Its flow schema for the
/// service accounts of any namespace is `service-accounts`, at 9000.
#[test]
fn every_request_for_a_lease_or_a_claim_has_a_priority_above_other_service_accounts() -> Result<()> {
    let [cluster, own] = roles()?;
    let schemas = documents(&in_checkout("deploy/kubernetes/base/flowschemas.yaml"))?;
    let expected = [("leases", &own, "leader-election"), ("virtualips", &cluster, "workload-high")];
    assert_eq!(schemas.len(), expected.len());
    for (schema, (resource, role, level)) in schemas.iter().zip(expected) {
        let spec = &schema["spec"];
        assert_eq!(spec["priorityLevelConfiguration"]["name"], level, "{resource}");
        assert!(spec["matchingPrecedence"].as_u64().is_some_and(|it| it < 9000), "{resource}: {spec}");
        let rule = &spec["rules"][0];
        let accounts = ["vipward", "vipward-controller"].map(
            |name| json!({"kind": "ServiceAccount", "serviceAccount": {"name": name, "namespace": NAMESPACE}}),
        );
        assert_eq!((&rule["subjects"], &spec["rules"][1]), (&json!(accounts), &Value::Null), "{resource}");
        let [matched] = &rule["resourceRules"].as_array().context("no rules")?[..] else {
            anyhow::bail!("{resource}: one rule is expected: {rule}")
        };
        let granted_by = role["rules"].as_array().context("a role has rules")?.iter();
        let granted_by = granted_by.filter(|granted| granted["resources"] == json!([resource]));
        for (key, granted) in granted_by.flat_map(|rule| ["apiGroups", "verbs"].map(|key| (key, &rule[key])))
        {
            assert_eq!(&matched[key], granted, "{resource}: {key}");
        }
        assert_eq!(matched["resources"], json!([resource]));
        let is_cluster_wide = role["kind"] == "ClusterRole";
        assert_eq!(matched["clusterScope"].as_bool().unwrap_or(false), is_cluster_wide, "{resource}");
        let namespaces = if is_cluster_wide { json!(["*"]) } else { json!([NAMESPACE]) };
        assert_eq!(matched["namespaces"], namespaces, "{resource}");
    }
    Ok(())
}

/// Returns the resources with verbs in the tables of a section of docs/kubernetes/permissions.md.
fn explained(section: &str) -> Result<BTreeMap<String, BTreeSet<String>>> {
    let page = read(&in_checkout("docs/kubernetes/permissions.md"))?;
    let head = format!("\n## {section}\n");
    let (_, section) = page.split_once(&head).with_context(|| format!("no section {section}"))?;
    let section = section.split("\n## ").next().unwrap_or(section);
    let mut explained: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for row in section.lines().filter_map(|line| line.strip_prefix("| `")) {
        let mut cells = row.split('|');
        let resource = cells.next().and_then(|cell| cell.split('`').next()).context("no resource")?;
        let verbs = cells.next().context("no verbs")?.split(',').map(|verb| verb.trim().to_owned());
        explained.entry(resource.to_owned()).or_default().extend(verbs);
    }
    Ok(explained)
}

#[test]
fn every_permission_is_explained() -> Result<()> {
    let [cluster, own] = roles()?;
    let mut all = granted(&cluster)?;
    all.extend(granted(&own)?);
    assert_eq!(explained("Agents")?, all);
    Ok(())
}

#[test]
fn every_permission_of_the_controller_is_explained_and_none_reaches_further() -> Result<()> {
    let objects = documents(&in_checkout("deploy/kubernetes/base/controller-rbac.yaml"))?;
    let roles = objects.iter().filter(|object| object["rules"].is_array());
    let mut all = BTreeMap::new();
    for role in roles.clone() {
        all.extend(granted(role)?);
    }
    assert_eq!(roles.count(), 2);
    assert_eq!(explained("Controller")?, all);
    for (resource, verbs) in all {
        if resource == "secrets" {
            // It never reads the key that it creates.
            assert_eq!(verbs, ["create".to_owned()].into());
            continue;
        }
        let is_its_own = ["virtualips", "leases"].contains(&resource.as_str());
        assert!(is_its_own || !verbs.contains("get"), "{resource}: {verbs:?}");
        assert!(resource == "virtualips" || !verbs.contains("delete"), "{resource}: {verbs:?}");
        let writes = ["services/status", "vippools/status", "virtualips", "events", "leases"];
        assert!(writes.contains(&resource.as_str()) || !verbs.contains("patch"), "{resource}: {verbs:?}");
    }
    Ok(())
}

#[test]
fn users_get_their_rights_by_the_clusters_own_roles() -> Result<()> {
    let objects = documents(&in_checkout("deploy/kubernetes/base/users-rbac.yaml"))?;
    for (role, (name, verbs)) in objects.iter().zip([
        ("view", ["get list watch", "get list watch"]),
        ("admin", ["create delete patch update", "patch"]),
    ]) {
        let label = format!("rbac.authorization.k8s.io/aggregate-to-{name}");
        assert_eq!(role["metadata"]["labels"][label], "true");
        let words = |words: &str| words.split(' ').map(str::to_owned).collect::<BTreeSet<_>>();
        let expected = ["vippools", "virtualips"].into_iter().map(str::to_owned).zip(verbs.map(words));
        assert_eq!(granted(role)?, expected.collect(), "{name}");
    }
    assert_eq!(objects.len(), 2);
    Ok(())
}

#[test]
fn every_permission_on_metallbs_objects_is_explained_and_it_writes_statuses_alone() -> Result<()> {
    let objects = documents(&in_checkout("deploy/kubernetes/overlays/metallb/rbac.yaml"))?;
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for object in &objects {
        assert_eq!(object["metadata"]["namespace"], "metallb-system", "no right reaches further: {object}");
    }
    for role in objects.iter().filter(|object| object["kind"] == "Role") {
        for (resource, verbs) in granted(role)? {
            all.entry(resource).or_default().extend(verbs);
        }
    }
    assert_eq!(explained("MetalLB's objects")?, all);
    let reads: BTreeSet<String> = ["list", "watch"].map(str::to_owned).into();
    for (resource, verbs) in all {
        let is_status = resource.ends_with("/status") || resource == "servicel2statuses";
        assert!(is_status || verbs == reads, "{resource}: {verbs:?}");
    }
    Ok(())
}

/// Returns the capabilities in the table of the overlay's page.
fn capabilities_on_the_page() -> Result<BTreeSet<String>> {
    let page = read(&in_checkout("deploy/kubernetes/overlays/least-privilege/README.md"))?;
    let rows = page.lines().filter(|line| line.starts_with("| `CAP_"));
    let cells = rows.filter_map(|row| row.split('|').nth(1));
    let names = cells.flat_map(|cell| cell.split(',').map(|name| name.trim().trim_matches('`').to_owned()));
    Ok(names.collect())
}

/// Runs the agent as root with the capabilities of the overlay.
#[test]
fn the_capabilities_of_the_overlay_are_enough_to_attach_answer_and_announce() -> Result<()> {
    let patch =
        documents(&in_checkout("deploy/kubernetes/overlays/least-privilege/daemonset.yaml"))?.remove(0);
    let security = &container(&patch)?["securityContext"];
    assert_eq!((&security["privileged"], &security["readOnlyRootFilesystem"]), (&false.into(), &true.into()));
    assert_eq!(security["allowPrivilegeEscalation"], false);
    assert_eq!(strings(&security["capabilities"]["drop"])?, ["ALL"]);
    let added = strings(&security["capabilities"]["add"])?;
    assert_eq!(added, Capability::OF_THE_OVERLAY.map(|(name, _)| name));
    let explained = Capability::OF_THE_OVERLAY.map(|(name, _)| format!("CAP_{name}"));
    assert_eq!(capabilities_on_the_page()?, explained.into());
    let kept = Capability::OF_THE_OVERLAY.map(|(_, capability)| capability).to_vec();
    let mut node = Node::start_with("overlay", Attachment::Auto, HOLDS_ONE, |options| {
        options.only_capabilities = Some(kept);
    })?;
    node.wait_until_answered(VIP, NODE)?;
    node.agent.kill9()?;
    node.restart_agent()?;
    assert_eq!(node.ask(VIP)?, Some(NODE));
    let problems = node.agent.logs()?.into_iter().filter(|line| line.field("problem").is_some()).count();
    assert_eq!(problems, 0, "{}", node.agent.transcript());
    Ok(())
}
