//! Who may do what: tokens, roles, and refusals that name what is missing.

use anyhow::Result;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;
use vipward_tests::apiserver::ApiServer;

use super::{client, config_map, refusal, server};

const ROLES: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: agent}
rules:
  - {apiGroups: [''], resources: [services], verbs: [get, list, watch]}
  - {apiGroups: [''], resources: [services/status], verbs: [patch]}
  - {apiGroups: [''], resources: [configmaps], resourceNames: [mine], verbs: [get, list, patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: agent}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: agent}
subjects: [{kind: ServiceAccount, name: agent, namespace: vip}]
---
apiVersion: v1
kind: Namespace
metadata: {name: vip}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: leases, namespace: vip}
rules: [{apiGroups: [coordination.k8s.io], resources: ['*'], verbs: ['*']}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: leases, namespace: vip}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: leases}
subjects: [{kind: Group, name: 'system:serviceaccounts:vip'}]
";

fn with_roles() -> Result<ApiServer> {
    let server = server()?;
    server.load_manifest(ROLES)?;
    server.add_user("token", "system:serviceaccount:vip:agent");
    Ok(server)
}

#[tokio::test]
async fn whoever_has_no_token_or_a_wrong_one_is_not_known() -> Result<()> {
    let server = server()?;
    let nobody = kube::Client::try_from(kube::Config::new(server.url().parse()?))?;
    for client in [nobody, client(&server, "wrong")?] {
        let api: Api<Service> = Api::all(client);
        let status = refusal(api.list(&ListParams::default()).await)?;
        assert_eq!(
            (status.code, status.reason.as_str(), status.message.as_str()),
            (401, "Unauthorized", "Unauthorized")
        );
    }
    Ok(())
}

#[tokio::test]
async fn whoever_shows_no_token_has_the_empty_one_if_somebody_does() -> Result<()> {
    let server = with_roles()?;
    server.add_user("", "system:serviceaccount:vip:agent");
    let api: Api<Service> = Api::all(kube::Client::try_from(kube::Config::new(server.url().parse()?))?);
    api.list(&ListParams::default()).await?;
    Ok(())
}

#[tokio::test]
async fn a_refusal_names_the_user_the_verb_the_resource_and_where() -> Result<()> {
    let server = with_roles()?;
    let client = client(&server, "token")?;
    let elsewhere: Api<Lease> = Api::namespaced(client.clone(), "default");
    let lease: Lease = serde_json::from_value(json!({"metadata": {"name": "l"}}))?;
    let status = refusal(elsewhere.replace("l", &PostParams::default(), &lease).await)?;
    assert_eq!((status.code, status.reason.as_str()), (403, "Forbidden"));
    assert_eq!(
        status.message,
        "leases.coordination.k8s.io \"l\" is forbidden: User \"system:serviceaccount:vip:agent\" cannot update resource \
         \"leases\" in API group \"coordination.k8s.io\" in the namespace \"default\""
    );
    let everywhere: Api<ConfigMap> = Api::all(client);
    assert_eq!(
        refusal(everywhere.list(&ListParams::default()).await)?.message,
        "configmaps is forbidden: User \"system:serviceaccount:vip:agent\" cannot list resource \"configmaps\" in API \
         group \"\" at the cluster scope"
    );
    Ok(())
}

#[tokio::test]
async fn roles_allow_what_they_say_and_no_more() -> Result<()> {
    let server = with_roles()?;
    let client = client(&server, "token")?;
    server.load_manifest("{apiVersion: v1, kind: Service, metadata: {name: s}, spec: {}}")?;
    server.load_object(serde_json::to_value(config_map("mine", "x")?)?)?;
    let services: Api<Service> = Api::namespaced(client.clone(), "default");
    services.get("s").await?;
    let with = PatchParams::default();
    services.patch_status("s", &with, &Patch::Merge(json!({"status": {"loadBalancer": {}}}))).await?;
    let status =
        refusal(services.patch("s", &with, &Patch::Merge(json!({"metadata": {"labels": {}}}))).await)?;
    assert!(status.message.contains("cannot patch resource \"services\" in"), "{}", status.message);

    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    maps.get("mine").await?;
    assert_eq!(refusal(maps.get("other").await)?.code, 403);
    maps.list(&ListParams::default().fields("metadata.name=mine")).await?;
    assert_eq!(refusal(maps.list(&ListParams::default()).await)?.code, 403);
    // An apply that would create needs to be allowed to.
    let rule = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine"}});
    maps.patch("mine", &PatchParams::apply("agent"), &Patch::Apply(&rule)).await?;
    let absent: Api<ConfigMap> = Api::namespaced(client.clone(), "kube-system");
    let status = refusal(absent.patch("mine", &PatchParams::apply("agent"), &Patch::Apply(&rule)).await)?;
    assert!(status.message.contains("cannot create resource \"configmaps\""), "{}", status.message);

    let leases: Api<Lease> = Api::namespaced(client, "vip");
    leases
        .create(&PostParams::default(), &serde_json::from_value(json!({"metadata": {"name": "l"}}))?)
        .await?;
    Ok(())
}
