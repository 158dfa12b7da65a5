//! Who may do what: roles and bindings, evaluated anew for every request.
//!
//! Aggregated cluster roles and URLs that are no resources are not looked at: whoever is known may read what
//! describes the server.

use serde_json::Value;

use super::request::Action;
use super::resource::Resources;
use super::store::{Key, Table};

/// Somebody who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct User {
    pub(super) name: String,
    pub(super) groups: Vec<String>,
    /// May do everything.
    pub(super) is_admin: bool,
}

const SERVICE_ACCOUNT: &str = "system:serviceaccount:";

impl User {
    /// A user with the groups that everybody of such a name is in, and `groups`.
    pub(super) fn new(name: &str, groups: &[&str]) -> Self {
        let mut groups: Vec<String> = groups.iter().map(|&group| group.to_owned()).collect();
        groups.push("system:authenticated".to_owned());
        if let Some((namespace, _)) = name.strip_prefix(SERVICE_ACCOUNT).and_then(|rest| rest.split_once(':'))
        {
            groups.push("system:serviceaccounts".to_owned());
            groups.push(format!("system:serviceaccounts:{namespace}"));
        }
        Self { name: name.to_owned(), groups, is_admin: false }
    }
}

/// Whether `user` may do `action`.
pub(super) fn allows(resources: &Resources, user: &User, action: &Action) -> bool {
    const GROUP: &str = "rbac.authorization.k8s.io";
    if user.is_admin {
        return true;
    }
    let table = |plural: &str| {
        resources.find(GROUP, "v1", plural).map(|resource| std::sync::Arc::clone(&resource.table))
    };
    let (Some(roles), Some(cluster_roles)) = (table("roles"), table("clusterroles")) else { return false };
    let grants = |binding: &Value, namespace: &str| {
        let bound = binding["subjects"].as_array().map(Vec::as_slice).unwrap_or_default();
        bound.iter().any(|subject| is_subject(subject, user, namespace))
            && role_allows(&roles, &cluster_roles, &binding["roleRef"], namespace, action)
    };
    if let Some(bindings) = table("clusterrolebindings")
        && bindings.all(None).iter().any(|binding| grants(&binding.value, ""))
    {
        return true;
    }
    let Some(namespace) = &action.namespace else { return false };
    table("rolebindings").is_some_and(|bindings| {
        bindings.all(Some(namespace)).iter().any(|binding| grants(&binding.value, namespace))
    })
}

fn is_subject(subject: &Value, user: &User, namespace: &str) -> bool {
    let name = subject["name"].as_str().unwrap_or_default();
    match subject["kind"].as_str() {
        Some("User") => user.name == name,
        Some("Group") => user.groups.iter().any(|group| group == name),
        Some("ServiceAccount") => {
            let namespace = subject["namespace"].as_str().unwrap_or(namespace);
            user.name == format!("{SERVICE_ACCOUNT}{namespace}:{name}")
        }
        Some(_) | None => false,
    }
}

fn role_allows(roles: &Table, cluster_roles: &Table, role: &Value, namespace: &str, action: &Action) -> bool {
    let name = role["name"].as_str().unwrap_or_default().to_owned();
    let role = match role["kind"].as_str() {
        Some("ClusterRole") => cluster_roles.get(&Key { namespace: String::new(), name }),
        Some("Role") => roles.get(&Key { namespace: namespace.to_owned(), name }),
        Some(_) | None => None,
    };
    let Some(role) = role else { return false };
    let rules = role.value["rules"].as_array().map(Vec::as_slice).unwrap_or_default();
    rules.iter().any(|rule| rule_allows(rule, action))
}

fn rule_allows(rule: &Value, action: &Action) -> bool {
    let has = |list: &str, wanted: &[&str]| {
        let values = rule[list].as_array().map(Vec::as_slice).unwrap_or_default();
        values.iter().filter_map(Value::as_str).any(|value| value == "*" || wanted.contains(&value))
    };
    let resource = action.qualified_resource();
    let any_subresource = action.subresource.as_ref().map(|subresource| format!("*/{subresource}"));
    let names = rule["resourceNames"].as_array().map(Vec::as_slice).unwrap_or_default();
    has("verbs", &[action.verb.as_str()])
        && has("apiGroups", &[&action.group])
        && has("resources", &[&resource, any_subresource.as_deref().unwrap_or(&resource)])
        && (names.is_empty() || names.iter().filter_map(Value::as_str).any(|name| name == action.name))
}
