//! Installs the manifests under `deploy/`, as an operator does.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::admin::{Admin, Kind, Object};
use crate::kit::tools::in_checkout;

const NAMESPACE: &str = "vipward-system";
/// Service account of the agents.
pub(super) const ACCOUNT: &str = "vipward";
/// Service account of the controller.
pub(super) const CONTROLLER: &str = "vipward-controller";
pub(super) const MOST_CONTROLLERS: u8 = 3;
const RBAC_GROUP: &str = "rbac.authorization.k8s.io";
/// Time for the API server to serve a definition.
const ESTABLISHED_LIMIT: Duration = Duration::from_secs(20);

/// Returns the name of a controller, by its number from 1.
pub(super) fn controller_name(number: u8) -> String {
    format!("c{number}")
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Installation {
    pub namespace: String,
    /// Prefix of cluster-wide roles and bindings, on an API server that others use.
    pub prefix: Option<String>,
    /// Users who also get the rights of a service account, each with that account.
    pub users: Vec<(&'static str, String)>,
}

impl Installation {
    /// Returns the names in the manifests.
    pub(super) fn plain(users: Vec<(&'static str, String)>) -> Self {
        Self { namespace: NAMESPACE.to_owned(), prefix: None, users }
    }

    /// Returns names that conflict with no other installation.
    pub(super) fn apart(prefix: &str) -> Self {
        Self { namespace: format!("{prefix}-system"), prefix: Some(format!("{prefix}-")), users: Vec::new() }
    }

    /// Returns the name of an object without a namespace.
    pub(super) fn cluster_wide(&self, name: &str) -> String {
        format!("{}{name}", self.prefix.as_deref().unwrap_or_default())
    }

    /// Installs everything but the agents, and returns the objects to remove. The definition of
    /// `VirtualIP` stays. An API server in this process has no admission policies.
    pub(super) fn apply(&self, admin: &Admin) -> Result<Vec<Object>> {
        let mut made = Vec::new();
        for manifest in self.adapted(&manifests()?)? {
            let object = Object::of(&manifest)?;
            admin.put(&manifest)?;
            if object.kind == Kind::DEFINITION {
                admin.wait_for(ESTABLISHED_LIMIT, &object, "to be established", is_established)?;
            } else {
                made.push(object);
            }
        }
        Ok(made)
    }

    /// Returns the rights on `MetalLB`'s objects. Its namespace must exist.
    pub(super) fn metallb_rights(&self) -> Result<Vec<Value>> {
        let rights = documents(&in_checkout("deploy/kubernetes/overlays/metallb/rbac.yaml"))?;
        rights.iter().map(|manifest| Ok(self.renamed(Kind::of(manifest)?, manifest))).collect()
    }

    /// Gives the agents the right on statuses of Services that agents alone need, as
    /// overlays/without-controller says, or takes it from them.
    pub(super) fn let_agents_write_statuses(&self, admin: &Admin, may: bool) -> Result<()> {
        let role = Object::cluster_scoped(Kind::CLUSTER_ROLE, self.cluster_wide(ACCOUNT));
        let object = admin.get(&role)?.with_context(|| format!("{role} is not there"))?;
        let mut rules = object["rules"].as_array().cloned().context("a role has rules")?;
        let statuses = json!({"apiGroups": [""], "resources": ["services/status"], "verbs": ["patch"]});
        rules.retain(|rule| *rule != statuses);
        rules.extend(may.then_some(statuses));
        admin.merge(&role, &json!({"rules": rules}))?;
        Ok(())
    }

    /// Returns the manifests with this installation's
    /// names, in an order that respects their dependencies.
    fn adapted(&self, manifests: &[Value]) -> Result<Vec<Value>> {
        const ORDER: [Kind; 9] = [
            Kind::NAMESPACE,
            Kind::DEFINITION,
            Kind::SERVICE_ACCOUNT,
            Kind::CLUSTER_ROLE,
            Kind::CLUSTER_ROLE_BINDING,
            Kind::ROLE,
            Kind::ROLE_BINDING,
            Kind::ADMISSION_POLICY,
            Kind::ADMISSION_BINDING,
        ];
        let is_policy = |kind: Kind| [Kind::ADMISSION_POLICY, Kind::ADMISSION_BINDING].contains(&kind);
        let mut adapted = Vec::new();
        for kind in ORDER.into_iter().filter(|kind| self.prefix.is_some() || !is_policy(*kind)) {
            let before = adapted.len();
            for manifest in manifests.iter().filter(|manifest| Kind::of(manifest).ok() == Some(kind)) {
                adapted.push(self.renamed(kind, manifest));
            }
            let needed = ![Kind::ROLE, Kind::ROLE_BINDING].contains(&kind);
            ensure!(!needed || adapted.len() > before, "no {} is among the manifests", kind.name());
        }
        Ok(adapted)
    }

    fn renamed(&self, kind: Kind, manifest: &Value) -> Value {
        let mut manifest = manifest.clone();
        replace_text(&mut manifest, NAMESPACE, &self.namespace);
        if let Some(prefix) = &self.prefix
            && [
                Kind::CLUSTER_ROLE,
                Kind::CLUSTER_ROLE_BINDING,
                Kind::ADMISSION_POLICY,
                Kind::ADMISSION_BINDING,
            ]
            .contains(&kind)
        {
            for name in ["/metadata/name", "/roleRef/name", "/spec/policyName"] {
                if let Some(Value::String(name)) = manifest.pointer_mut(name) {
                    name.insert_str(0, prefix);
                }
            }
        }
        self.add_users(&mut manifest);
        manifest
    }

    /// Adds the users to each binding of their service account.
    fn add_users(&self, manifest: &mut Value) {
        let Some(Value::Array(subjects)) = manifest.get_mut("subjects") else { return };
        for (account, user) in &self.users {
            let account = json!({"kind": "ServiceAccount", "name": account, "namespace": self.namespace});
            if subjects.contains(&account) {
                subjects.push(json!({"apiGroup": RBAC_GROUP, "kind": "User", "name": user}));
            }
        }
    }
}

/// Returns every document of the base.
fn manifests() -> Result<Vec<Value>> {
    let directory = in_checkout("deploy/kubernetes/base");
    let mut files = Vec::new();
    for entry in
        fs::read_dir(&directory).with_context(|| format!("failed to list {}", directory.display()))?
    {
        files.push(entry?.path());
    }
    files.retain(|file| file.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    let mut manifests = Vec::new();
    for file in files {
        manifests.extend(documents(&file)?);
    }
    Ok(manifests)
}

fn documents(file: &Path) -> Result<Vec<Value>> {
    let text = fs::read_to_string(file).with_context(|| format!("failed to read {}", file.display()))?;
    serde_saphyr::from_multiple(&text).with_context(|| format!("failed to parse {}", file.display()))
}

fn replace_text(value: &mut Value, from: &str, to: &str) {
    match value {
        Value::String(text) => *text = text.replace(from, to),
        Value::Array(items) => items.iter_mut().for_each(|item| replace_text(item, from, to)),
        Value::Object(fields) => fields.values_mut().for_each(|field| replace_text(field, from, to)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

pub(super) fn is_established(definition: Option<&Value>) -> bool {
    let conditions = definition.and_then(|definition| definition["status"]["conditions"].as_array());
    conditions.is_some_and(|conditions| {
        conditions.iter().any(|condition| condition["type"] == "Established" && condition["status"] == "True")
    })
}
