//! A stolen token of a node's agent. The admission policies of a real API server refuse its misuse, and
//! nothing that an agent needs.

use std::env;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use vipward_tests::{
    agent::VIP,
    cluster::{
        Admin, Cluster, ClusterOptions, Kind, N1, N2, Object, PATIENCE, ServiceSpec, scenario,
        skip_without_admission,
    },
    kit::interrupt,
};

const SESSION: &str = "0000000000000001";
const LABEL: &str = "app.kubernetes.io/managed-by";
const NO_NODE: Option<&str> = Some("the token names no node");
const V6: &str = "2001:db8::77";
const V6_NAME: &str = "2001-0db8-0000-0000-0000-0000-0000-0077";
/// Part of a refusal by the roles.
const RBAC: &str = "cannot";

/// A write that a test tries with a token.
type Try = Box<dyn FnOnce(&Admin) -> Result<Value> + Send>;

/// The objects of a cluster without agents, in which `n2` holds the VIP.
struct Scene {
    vip: Object,
    service: Object,
    namespace: String,
    names: [String; 2],
}

impl Scene {
    fn new(cluster: &Cluster) -> Result<Self> {
        let scene = Self {
            vip: cluster.virtual_ip(VIP),
            service: cluster.service("web"),
            namespace: cluster.system_namespace().to_owned(),
            names: [N1, N2].map(|id| cluster.node_name(id)),
        };
        cluster.create_service(&ServiceSpec::new("web", VIP))?;
        cluster.admin().create(&claim(&scene.held(1)))?;
        cluster.admin().create(&scene.lease(1))?;
        scene.wait_until_enforced(cluster)?;
        Ok(scene)
    }

    /// Waits until the API server has read the policies, up to the one that is installed last.
    fn wait_until_enforced(&self, cluster: &Cluster) -> Result<()> {
        interrupt::wait(PATIENCE, "the policies to be enforced", || {
            let tried = cluster.as_agent(N1, |thief| Ok(thief.create(&self.event(1))))?;
            let is_refused =
                |error: anyhow::Error| format!("{error:#}").contains("ValidatingAdmissionPolicy");
            Ok(tried.err().is_some_and(is_refused).then_some(()))
        })
    }

    fn lease_of(&self, node: usize) -> Object {
        Object::within(Kind::LEASE, &self.namespace, &self.names[node])
    }

    fn lease(&self, node: usize) -> Value {
        let name = &self.names[node];
        json!({
            "apiVersion": Kind::LEASE.api_version(), "kind": Kind::LEASE.name(),
            "metadata": {
                "name": name, "namespace": self.namespace, "labels": {(LABEL): "vipward"},
                "annotations": {"vipward.io/duration": "4s", "vipward.io/ended": "00000000000000e1"},
            },
            "spec": {
                "holderIdentity": format!("{name}/{SESSION}"), "leaseDurationSeconds": 4,
                "renewTime": "2026-11-23T11:00:00.000000Z",
            },
        })
    }

    fn holder(&self, node: usize) -> Value {
        json!({"holder": self.names[node], "session": SESSION, "mac": "02:00:00:00:01:01", "interface": "eth0"})
    }

    /// Returns the spec of a claim that a node holds.
    fn held(&self, node: usize) -> Value {
        let mut spec = self.holder(node);
        spec["epoch"] = json!(3);
        spec["address"] = json!(self.vip.name);
        spec
    }

    fn event(&self, reporter: usize) -> Value {
        json!({
            "apiVersion": Kind::EVENT.api_version(), "kind": Kind::EVENT.name(),
            "metadata": {"name": format!("web.{reporter}"), "namespace": self.service.namespace},
            "eventTime": "2026-11-23T11:00:00.000000Z", "type": "Normal", "reason": "Moved", "action": "Moved",
            "note": "a note", "regarding": {
                "apiVersion": "v1", "kind": "Service", "namespace": self.service.namespace, "name": self.service.name,
            },
            "reportingController": "vipward.io/agent", "reportingInstance": self.names[reporter],
        })
    }
}

fn claim(spec: &Value) -> Value {
    json!({
        "apiVersion": Kind::VIRTUAL_IP.api_version(), "kind": Kind::VIRTUAL_IP.name(),
        "metadata": {
            "name": spec["address"], "labels": {(LABEL): "vipward"}, "finalizers": ["vipward.io/claim"],
        },
        "spec": spec,
    })
}

/// Returns the spec of a claim as a new claim has it.
fn first(mut spec: Value) -> Value {
    spec["epoch"] = json!(1);
    spec
}

fn merge(object: &Object, patch: Value) -> Try {
    let object = object.clone();
    Box::new(move |thief| thief.merge(&object, &patch))
}

fn create(manifest: Value) -> Try {
    Box::new(move |thief| thief.create(&manifest))
}

fn status(object: &Object, patch: Value) -> Try {
    let object = object.clone();
    Box::new(move |thief| thief.merge_status(&object, "vipward", &patch))
}

fn delete(object: &Object) -> Try {
    let object = object.clone();
    Box::new(move |thief| thief.delete(&object).map(Value::from))
}

/// A description, what is tried with the token, and a part of the refusal, if it is refused.
type Step = (&'static str, Try, Option<&'static str>);

/// Runs a scenario of two nodes without agents, if the API server has admission policies.
fn with_policies(name: &str, steps: impl FnOnce(&mut Cluster, &Scene) -> Result<()>) -> Result<()> {
    if env::var_os("KUBECONFIG").is_none() {
        return skip_without_admission();
    }
    let options = ClusterOptions { nodes: 2, start_agents: false, ..ClusterOptions::default() };
    scenario(name, options, |cluster| {
        let scene = Scene::new(cluster)?;
        steps(cluster, &scene)
    })
}

/// Tries each step with the token of the agent of `n1`. Each is refused as its row states, or succeeds.
fn try_all(cluster: &Cluster, steps: impl IntoIterator<Item = Step>) -> Result<()> {
    for (description, step, refusal) in steps {
        let done = cluster.as_agent(N1, |thief| Ok(step(thief)))?;
        match (done, refusal) {
            (Ok(_), None) => {}
            (Ok(object), Some(_)) => anyhow::bail!("{description} is not refused: {object:#}"),
            (Err(error), None) => return Err(error.context(format!("{description} is refused"))),
            (Err(error), Some(part)) => {
                let error = format!("{error:#}");
                ensure!(error.contains("forbidden") && error.contains(part), "{description}: {error}");
            }
        }
    }
    Ok(())
}

fn annotations(name: &str, value: &str) -> Value {
    json!({"metadata": {"annotations": {name: value}}})
}

/// Returns the patch by which an agent ends the session in the Lease of the other node.
fn ends_session() -> Value {
    let mut patch = annotations("vipward.io/ended", &format!("00000000000000e1,{SESSION}"));
    patch["spec"] = json!({"holderIdentity": null, "renewTime": null});
    patch
}

fn releases() -> Value {
    json!({"spec": {
        "holder": null, "session": null, "mac": null, "interface": null, "offeredBy": null, "released": true,
    }})
}

fn has_address() -> Value {
    json!({"status": {"loadBalancer": {"ingress": [{"ip": VIP.to_string()}]}}})
}

#[test]
fn a_stolen_token_renews_no_other_nodes_lease_and_gives_it_no_session() -> Result<()> {
    const LABELS: Option<&str> = Some("agents change no other label");
    with_policies("stolen-l", |cluster, scene| {
        let (own, other) = (scene.lease_of(0), scene.lease_of(1));
        let before = cluster.admin().get(&other)?;
        let with = |spec: Value| {
            let mut patch = ends_session();
            patch["spec"] = spec;
            patch
        };
        let renewed = json!({"renewTime": "2026-11-23T11:00:05.000000Z"});
        let session = json!({"renewTime": null, "holderIdentity": "x/00000000000000ff"});
        let of_another = json!({"spec": {"holderIdentity": format!("{}/{SESSION}", scene.names[1])}});
        let sign = annotations("x", "y");
        let label = |value: Value| json!({"metadata": {"labels": {(LABEL): value}}});
        let mut labelled = ends_session();
        labelled["metadata"]["labels"] = json!({(LABEL): "x"});
        let unlabelled = label(Value::Null);
        let mut ends = ends_session();
        ends["metadata"]["labels"] = json!({(LABEL): "vipward"});
        let of_others = |name: &str| Object::within(Kind::LEASE, &scene.namespace, name);
        let (elected, foreign) = (of_others("vipward-controller"), of_others("other"));
        let mut election = scene.lease(1);
        election["metadata"]["name"] = json!(elected.name);
        election["metadata"]["annotations"] = json!({"vipward.io/ended": SESSION});
        election["spec"] = json!({});
        for lease in [&elected, &foreign] {
            cluster.admin().create(&json!({
                "apiVersion": Kind::LEASE.api_version(), "kind": Kind::LEASE.name(),
                "metadata": {"name": lease.name, "namespace": scene.namespace},
                "spec": {"holderIdentity": "pod-1"},
            }))?;
        }
        try_all(
            cluster,
            [
                ("a renewal", merge(&other, with(renewed)), Some("only a node itself renews its Lease")),
                ("a session", merge(&other, with(session)), Some("only a node itself begins a session")),
                ("a sign of life", merge(&other, sign), Some("only a node itself renews its Lease")),
                ("its own Lease", create(scene.lease(0)), None),
                ("another's session in it", merge(&own, of_another), Some("a session of that node only")),
                ("a deletion", delete(&other), Some(RBAC)),
                ("its label is changed", merge(&other, labelled), LABELS),
                ("its own label is taken away", merge(&own, unlabelled), LABELS),
                ("the end of another election", merge(&elected, ends.clone()), Some("is the controllers'")),
                ("an election", create(election), Some("is the controllers'")),
                ("the end of another program's", merge(&foreign, ends), Some("another program's")),
            ],
        )?;
        assert_eq!(before, cluster.admin().get(&other)?);
        Ok(())
    })
}

#[test]
fn a_stolen_token_claims_nothing_for_others_makes_no_wishes_and_deletes_no_others_claim() -> Result<()> {
    const FOR_ITSELF: Option<&str> = Some("a node claims VIPs for itself only");
    with_policies("stolen-c", |cluster, scene| {
        let vip = &scene.vip;
        let before = cluster.admin().get(vip)?;
        let mut later = scene.holder(1);
        later["epoch"] = json!(4);
        let mut new = scene.held(1);
        new["address"] = json!("192.0.2.77");
        let (force, move_to) =
            (annotations("vipward.io/force", "true"), annotations("vipward.io/move-to", "x"));
        let bare = json!({"metadata": {"finalizers": null}});
        let owner = json!({"apiVersion": "v1", "kind": "Node", "name": "x", "uid": "u"});
        let owned = json!({"metadata": {"ownerReferences": [owner]}});
        let mut last = scene.holder(0);
        last["epoch"] = json!(i64::MAX);
        let labelled = json!({"metadata": {"labels": {(LABEL): "x"}}});
        let mut late = scene.held(0);
        late["address"] = json!("192.0.2.77");
        let mut misnamed = claim(&first(late.clone()));
        misnamed["metadata"]["name"] = json!(V6_NAME);
        misnamed["spec"]["address"] = json!("2001:db8::78");
        let mut unlabelled = claim(&first(late.clone()));
        unlabelled["metadata"]["labels"] = json!({});
        try_all(
            cluster,
            [
                ("a claim for another", create(claim(&new)), FOR_ITSELF),
                ("a later claim for another", merge(vip, json!({"spec": later})), FOR_ITSELF),
                ("force", merge(vip, force), Some("agents set none of")),
                ("move-to", merge(vip, move_to), Some("agents set none of")),
                ("a deletion", delete(vip), Some("may not be deleted")),
                ("the removal of its finalizer", merge(vip, bare), Some("keeps its finalizer")),
                ("an owner that does not exist", merge(vip, owned), Some("give a claim no owner")),
                ("the last epoch", merge(vip, json!({"spec": last})), Some("by a billion at most")),
                ("its label is changed", merge(vip, labelled), Some("agents change no label of a claim")),
                ("a later new claim", create(claim(&late)), Some("the epoch of a new claim is 0 or 1")),
                ("a new claim of another name", create(misnamed), Some("the name of a claim is its address")),
                ("a new claim of no manager", create(unlabelled), Some("a new claim has the label")),
            ],
        )?;
        assert_eq!(before, cluster.admin().get(vip)?);
        Ok(())
    })
}

#[test]
fn a_stolen_token_changes_of_a_service_only_its_addresses_and_writes_events_of_its_node() -> Result<()> {
    const METADATA: Option<&str> = Some("so not its metadata");
    with_policies("stolen-s", |cluster, scene| {
        let service = &scene.service;
        let before = cluster.admin().get(service)?;
        let class = json!({"spec": {"loadBalancerClass": "x"}});
        let address = annotations("vipward.io/addresses", "192.0.2.66");
        let finalizer = json!({"metadata": {"finalizers": ["example.com/x"]}});
        let condition = json!({
            "type": "x", "status": "True", "reason": "X", "message": "",
            "lastTransitionTime": "2026-11-23T11:00:00Z",
        });
        let conditions = json!({"status": {"conditions": [condition]}});
        try_all(
            cluster,
            [
                ("its spec", merge(service, class), Some(RBAC)),
                ("its deletion", delete(service), Some(RBAC)),
                ("an annotation by the status", status(service, address), METADATA),
                ("a finalizer by the status", status(service, finalizer), METADATA),
                ("a condition", status(service, conditions), Some("so not status.conditions")),
                ("an Event of another node", create(scene.event(1)), Some("in the name of its own node")),
            ],
        )?;
        assert_eq!(before, cluster.admin().get(service)?);
        Ok(())
    })
}

#[test]
fn a_token_that_is_bound_to_no_pod_writes_nothing() -> Result<()> {
    with_policies("unbound", |cluster, scene| {
        // From now on the tokens of this node's agent are bound to nothing.
        cluster.delete_pod_for_good(N1)?;
        let vip = &scene.vip;
        try_all(
            cluster,
            [
                ("its Lease", create(scene.lease(0)), NO_NODE),
                ("a session's end", merge(&scene.lease_of(1), ends_session()), NO_NODE),
                ("a release", merge(vip, releases()), NO_NODE),
                ("a deletion", delete(vip), NO_NODE),
                ("a status", status(&scene.service, has_address()), NO_NODE),
                ("an Event", create(scene.event(0)), NO_NODE),
            ],
        )
    })
}

#[test]
fn the_policies_let_an_agent_do_all_that_it_does() -> Result<()> {
    with_policies("legal", |cluster, scene| {
        let (own, other, vip) = (scene.lease_of(0), scene.lease_of(1), &scene.vip);
        let renewal = json!({"spec": {"renewTime": "2026-11-23T11:00:01.000000Z"}});
        let finding = json!({"status": {"conflict": "02:00:00:00:00:66 claims it"}});
        let bare = json!({"metadata": {"finalizers": []}});
        let take = |epoch: i64| {
            let mut patch = annotations("vipward.io/move-to", "");
            patch["metadata"]["annotations"]["vipward.io/move-to"] = Value::Null;
            patch["spec"] = scene.holder(0);
            patch["spec"]["epoch"] = json!(epoch);
            patch["spec"]["released"] = Value::Null;
            patch["spec"]["offeredBy"] = Value::Null;
            patch
        };
        let mut offer = scene.holder(1);
        offer["epoch"] = json!(5);
        offer["offeredBy"] = json!({"node": scene.names[0], "session": SESSION});
        let new = claim(&first(scene.held(0)));
        let mut new_v6 = new.clone();
        new_v6["metadata"]["name"] = json!(V6_NAME);
        new_v6["spec"]["address"] = json!(V6);
        try_all(
            cluster,
            [
                ("its Lease", create(scene.lease(0)), None),
                ("a renewal", merge(&own, renewal), None),
                ("a session's end", merge(&other, ends_session()), None),
                ("a finding", merge(vip, finding.clone()), None),
                ("a take", merge(vip, take(4)), None),
                ("an offer", merge(vip, json!({"spec": offer})), None),
                ("its end", merge(vip, take(6)), None),
                ("its own finding", merge(vip, finding), None),
                ("a release", merge(vip, releases()), None),
                ("a take of what was released", merge(vip, take(7)), None),
                ("the removal of its finalizer", merge(vip, bare.clone()), None),
                ("the deletion", delete(vip), None),
                ("a new claim", create(new), None),
                ("one of an IPv6 VIP", create(new_v6), None),
                ("a status", status(&scene.service, has_address()), None),
                ("an Event", create(scene.event(0)), None),
            ],
        )?;
        // The other node is dead, and its Lease was deleted by hand.
        cluster.admin().delete(&other)?;
        cluster.admin().merge(vip, &json!({"spec": scene.holder(1)}))?;
        let mut missing = scene.lease(1);
        missing["spec"] = json!({});
        missing["metadata"]["annotations"] = json!({"vipward.io/ended": SESSION});
        let mut lets_go = releases();
        lets_go["metadata"] = bare["metadata"].clone();
        try_all(
            cluster,
            [
                ("a session's end in a missing Lease", create(missing), None),
                ("the release of a dead node's claim", merge(vip, lets_go), None),
                ("its deletion", delete(vip), None),
            ],
        )?;
        let left = cluster.admin().get(vip)?;
        ensure!(left.is_none(), "the claim is not gone: {left:?}");
        Ok(())
    })
}
