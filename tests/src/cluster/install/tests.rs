use serde_json::json;

use super::*;

fn manifests() -> Vec<Value> {
    let metadata = json!({"name": "vipward"});
    let named =
        |version: &str, kind: &str| json!({"apiVersion": version, "kind": kind, "metadata": metadata});
    let rbac = "rbac.authorization.k8s.io/v1";
    let mut binding = named(rbac, "ClusterRoleBinding");
    binding["roleRef"] = json!({"kind": "ClusterRole", "name": "vipward"});
    binding["subjects"] =
        json!([{"kind": "ServiceAccount", "name": "vipward", "namespace": "vipward-system"}]);
    let mut account = named("v1", "ServiceAccount");
    account["metadata"]["namespace"] = json!("vipward-system");
    let admission = "admissionregistration.k8s.io/v1";
    let mut policy = named(admission, "ValidatingAdmissionPolicy");
    let user = "request.userInfo.username == 'system:serviceaccount:vipward-system:vipward'";
    policy["spec"] = json!({"matchConditions": [{"expression": user}]});
    let mut bound = named(admission, "ValidatingAdmissionPolicyBinding");
    bound["spec"] = json!({"policyName": "vipward"});
    vec![
        bound,
        policy,
        binding,
        named("apps/v1", "DaemonSet"),
        json!({"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}),
        account,
        named(rbac, "ClusterRole"),
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "vipward-system"}}),
        named("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
    ]
}

#[test]
fn everything_but_the_agents_is_installed_in_an_order_that_works() -> Result<()> {
    let adapted = Installation::plain(Vec::new()).adapted(&manifests())?;
    let kinds: Vec<_> =
        adapted.iter().map(|manifest| manifest["kind"].as_str().unwrap_or_default()).collect();
    assert_eq!(
        kinds,
        ["Namespace", "CustomResourceDefinition", "ServiceAccount", "ClusterRole", "ClusterRoleBinding"]
    );
    assert!(adapted.iter().all(|manifest| manifests().contains(manifest)), "nothing is renamed");
    let without_role: Vec<_> =
        manifests().into_iter().filter(|manifest| manifest["kind"] != "ClusterRole").collect();
    assert!(Installation::plain(Vec::new()).adapted(&without_role).is_err());
    Ok(())
}

#[test]
fn beside_other_installations_everything_has_names_of_its_own() -> Result<()> {
    let adapted = Installation::apart("t1").adapted(&manifests())?;
    assert_eq!(adapted[0]["metadata"]["name"], "t1-system");
    assert_eq!(adapted[1]["metadata"]["name"], "vipward", "there is one definition for all");
    assert_eq!(adapted[2]["metadata"], json!({"name": "vipward", "namespace": "t1-system"}));
    assert_eq!(adapted[3]["metadata"]["name"], "t1-vipward");
    assert_eq!(adapted[4]["roleRef"]["name"], "t1-vipward");
    assert_eq!(
        adapted[4]["subjects"][0],
        json!({"kind": "ServiceAccount", "name": "vipward", "namespace": "t1-system"})
    );
    assert_eq!(adapted[5]["metadata"]["name"], "t1-vipward");
    assert_eq!(
        adapted[5]["spec"]["matchConditions"][0]["expression"],
        "request.userInfo.username == 'system:serviceaccount:t1-system:vipward'"
    );
    assert_eq!(adapted[6]["spec"]["policyName"], "t1-vipward");
    Ok(())
}

#[test]
fn users_alone_join_the_service_account() -> Result<()> {
    let installation = Installation::plain(vec![(ACCOUNT, "vipward@n1".to_owned())]);
    let adapted = installation.adapted(&manifests())?;
    let user = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "vipward@n1"});
    assert_eq!(adapted[4]["subjects"][1], user);

    let mut others = manifests();
    others[2]["subjects"][0]["name"] = json!("another");
    let adapted = installation.adapted(&others)?;
    assert_eq!(adapted[4]["subjects"].as_array().map(Vec::len), Some(1), "a wrong binding stays wrong");
    Ok(())
}
