//! Permissions: roles and bindings, evaluated anew for every request.
//!
//! A binding counts for the users that it names. It has no effect for service accounts and groups:
//! this server's users are neither. Aggregated roles grant nothing. As
//! the creation of an object has no name, a rule with `resourceNames` allows none.

use serde_json::Value;

use super::{
    registry::{resource::Resources, store::Key},
    request::Action,
};

const GROUP: &str = "rbac.authorization.k8s.io";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct User {
    pub(super) name: String,
    /// True for a user with all rights.
    pub(super) is_admin: bool,
}

/// Returns true if `user` may do `action`.
pub(super) fn allows(resources: &Resources, user: &User, action: &Action) -> bool {
    if user.is_admin || bindings_allow(resources, "clusterrolebindings", "", user, action) {
        return true;
    }
    let namespace = action.namespace.as_deref();
    namespace.is_some_and(|namespace| bindings_allow(resources, "rolebindings", namespace, user, action))
}

fn bindings_allow(
    resources: &Resources,
    plural: &str,
    namespace: &str,
    user: &User,
    action: &Action,
) -> bool {
    let Some(bindings) = resources.find(GROUP, "v1", plural) else { return false };
    bindings.table.all(Some(namespace)).iter().any(|binding| {
        let is_user = |subject: &Value| subject["kind"] == "User" && subject["name"] == user.name;
        items(&binding.value["subjects"]).iter().any(is_user)
            && role_allows(resources, &binding.value["roleRef"], namespace, action)
    })
}

fn role_allows(resources: &Resources, role: &Value, namespace: &str, action: &Action) -> bool {
    let (plural, namespace) = match role["kind"].as_str() {
        Some("ClusterRole") => ("clusterroles", ""),
        Some("Role") => ("roles", namespace),
        Some(_) | None => return false,
    };
    let name = role["name"].as_str().unwrap_or_default();
    let key = Key { namespace: namespace.to_owned(), name: name.to_owned() };
    let role = resources.find(GROUP, "v1", plural).and_then(|roles| roles.table.get(&key));
    role.is_some_and(|role| items(&role.value["rules"]).iter().any(|rule| rule_allows(rule, action)))
}

fn rule_allows(rule: &Value, action: &Action) -> bool {
    let has = |list: &str, wanted: &str| {
        items(&rule[list]).iter().filter_map(Value::as_str).any(|value| value == "*" || value == wanted)
    };
    has("verbs", action.verb.as_str())
        && has("apiGroups", &action.group)
        && has("resources", &action.qualified_resource())
        && (items(&rule["resourceNames"]).is_empty() || has("resourceNames", &action.name))
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}
