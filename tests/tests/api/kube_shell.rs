//! The agent's reading from an API server and writing to it, also during trouble.

mod credentials;
mod notifying;
mod reading;
mod restores;
mod wire_keys;
mod writing;

use std::{
    fs,
    net::{IpAddr, Ipv4Addr, TcpListener},
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use kube::{
    Client, Config,
    api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{sync::mpsc, time::timeout};
use vipward::shell::kube::{
    Access, Kube, Limits, Reader, Reading, Reply, Requests, Resource, Seen, Server, Statuses, crd_yaml,
};
use vipward_common::MacAddr;
use vipward_core::{
    ownership::{ClaimWrite, Event, Expected, LeaseWrite, Outcome},
    records::{ClaimNote, ClaimRecord, ClaimState, Epoch, Holder, LeaseRecord, Session, Version},
    reports::claim_findings::Finding,
};
use vipward_tests::apiserver::{ApiServer, Options, RequestKind, Verb};

/// A time longer than any step on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);
/// Limits that are short, to keep the tests short.
const LIMITS: Limits = Limits { lease: Duration::from_secs(3), margin: Duration::from_millis(500) };
const USER: &str = "agent";
const NAMESPACE: &str = "vipward-system";
const VIP: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 10));

/// The agent's permissions: exactly its needs.
const PERMISSIONS: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: agent}
rules:
  - {apiGroups: [''], resources: [services, namespaces], verbs: [list, watch]}
  - {apiGroups: [''], resources: [nodes], verbs: [get, list, watch]}
  - {apiGroups: [''], resources: [services/status], verbs: [patch]}
  - {apiGroups: [''], resources: [pods], verbs: [get]}
  - {apiGroups: [apps], resources: [daemonsets], verbs: [get]}
  - {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [list, watch]}
  - {apiGroups: [networking.k8s.io], resources: [servicecidrs], verbs: [list, watch]}
  - {apiGroups: [vipward.io], resources: [vippools], verbs: [list, watch]}
  - {apiGroups: [events.k8s.io], resources: [events], verbs: [create, patch]}
  - {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [get, list, watch, create, patch]}
  - {apiGroups: [vipward.io], resources: [virtualips], verbs: [get, list, watch, create, patch, delete]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: agent}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: agent}
subjects: [{kind: User, apiGroup: rbac.authorization.k8s.io, name: agent}]
";

/// An API server, and the way to it of node `a`'s agent.
struct Scene {
    server: ApiServer,
    admin: Client,
    kube: Kube,
    _kubeconfig: TempDir,
}

impl Scene {
    async fn new() -> Result<Self> {
        let scene = Self::without_definition().await?;
        scene.server.load_manifest(&crd_yaml())?;
        Ok(scene)
    }

    async fn without_definition() -> Result<Self> {
        let server = ApiServer::start(TcpListener::bind("127.0.0.1:0")?, Options::default())?;
        server.add_user("secret", USER);
        server.load_manifest(PERMISSIONS)?;
        server
            .load_object(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}))?;
        server.load_object(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}}))?;
        let admin = administrator(&server)?;
        let (kube, kubeconfig) = way(&server.url(), "secret", "a").await?;
        Ok(Self { server, admin, kube, _kubeconfig: kubeconfig })
    }

    fn api(&self, namespace: Option<&str>, group: &str, version: &str, kind: &str) -> Api<DynamicObject> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        match namespace {
            Some(namespace) => Api::namespaced_with(self.admin.clone(), namespace, &resource),
            None => Api::all_with(self.admin.clone(), &resource),
        }
    }

    fn services(&self) -> Api<DynamicObject> {
        self.api(Some("default"), "", "v1", "Service")
    }

    fn claims(&self) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk("vipward.io", "v1alpha1", "VirtualIP");
        Api::all_with(self.admin.clone(), &ApiResource::from_gvk_with_plural(&kind, "virtualips"))
    }

    fn leases(&self) -> Api<DynamicObject> {
        self.api(Some(NAMESPACE), "coordination.k8s.io", "v1", "Lease")
    }

    fn requests_of(&self, verb: Verb, resource: &str) -> u64 {
        let wanted = |kind: &RequestKind| kind.user == USER && kind.verb == verb && kind.resource == resource;
        self.server.stats().count(wanted)
    }
}

/// Returns a client of an administrator, which has no connection yet.
fn administrator(server: &ApiServer) -> Result<Client> {
    let mut config = Config::new(server.url().parse()?);
    config.auth_info.token = Some("admin".to_owned().into());
    Ok(Client::try_from(config)?)
}

/// Returns the way to the API server for the agent of a node, with that token.
async fn way(url: &str, token: &str, node: &str) -> Result<(Kube, TempDir)> {
    let directory = TempDir::new()?;
    let path = directory.path().join("kubeconfig");
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {"token": token}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    });
    fs::write(&path, kubeconfig.to_string())?;
    let server = Server::find(&Access { kubeconfig: Some(path), ..Access::default() }, LIMITS).await?;
    Ok((Kube::new(server, node.into(), NAMESPACE), directory))
}

async fn create(api: &Api<DynamicObject>, object: Value) -> Result<DynamicObject> {
    Ok(api.create(&PostParams::default(), &serde_json::from_value(object)?).await?)
}

async fn merge(api: &Api<DynamicObject>, name: &str, patch: Value) -> Result<DynamicObject> {
    Ok(api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?)
}

async fn delete(api: &Api<DynamicObject>, name: &str) -> Result<()> {
    api.delete(name, &DeleteParams::default()).await?;
    Ok(())
}

fn service(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]},
    })
}

fn session(number: u64) -> Session {
    Session::from_number(number).expect("not zero")
}

fn holder(node: &str) -> Holder {
    Holder {
        node: node.into(),
        session: session(1),
        mac: MacAddr([2, 0, 0, 0, 1, 1]),
        interface: "eth0".into(),
    }
}

fn claim(vip: IpAddr, expected: Expected, epoch: u64) -> ClaimWrite {
    ClaimWrite {
        vip,
        expected,
        epoch: Epoch(epoch),
        state: ClaimState::Held(holder("a")),
        note: ClaimNote { cause: "because".to_owned(), ..ClaimNote::default() },
        can_wait: false,
    }
}

fn lease(node: &str, expected: Expected, number: Option<u64>) -> LeaseWrite {
    LeaseWrite {
        node: node.into(),
        expected,
        session: number.map(session),
        ended: Vec::new(),
        duration: LIMITS.lease,
        interfaces: Vec::new(),
        leaving: false,
        wire: None,
        proxy: None,
    }
}

/// Returns the news until `wanted` returns a value.
async fn until<T>(
    seen: &mut mpsc::Receiver<Seen>,
    what: &str,
    mut wanted: impl FnMut(&Seen) -> Option<T>,
) -> Result<T> {
    let mut notified = Vec::new();
    let found = timeout(PATIENCE, async {
        loop {
            let Some(next) = seen.recv().await else { bail!("the reader ended") };
            if let Some(found) = wanted(&next) {
                return Ok(found);
            }
            notified.push(next);
        }
    });
    match found.await {
        Ok(found) => found,
        Err(_) => bail!("waited in vain for {what}; seen were {notified:?}"),
    }
}

/// Starts to read, and waits until everything is listed.
async fn reading(kube: &Kube) -> Result<(Reader, mpsc::Receiver<Seen>, Vec<Seen>)> {
    let (reader, mut seen) = Reader::start(kube, Resource::OF_AGENT, Reading::default())?;
    let mut notified = Vec::new();
    let mut missing = Resource::OF_AGENT.len();
    until(&mut seen, "all lists", |next| {
        notified.push(next.clone());
        missing -= usize::from(matches!(next, Seen::Synced(_)));
        (missing == 0).then_some(())
    })
    .await?;
    Ok((reader, seen, notified))
}

/// A sender of requests, and the receiver of their outcomes.
struct Writing {
    requests: Requests,
    replies: mpsc::Receiver<Reply>,
}

impl Writing {
    fn start(kube: &Kube) -> Result<Self> {
        Self::with(kube, Statuses::AfterClaims)
    }

    fn with(kube: &Kube, statuses: Statuses) -> Result<Self> {
        let (requests, replies) = Requests::start(kube, statuses)?;
        Ok(Self { requests, replies })
    }

    async fn reply(&mut self) -> Result<Reply> {
        let reply = timeout(PATIENCE, self.replies.recv()).await.context("no reply")?;
        reply.context("the requests ended")
    }

    async fn event(&mut self) -> Result<Event> {
        match self.reply().await? {
            Reply::Ownership(event) => Ok(event),
            other => bail!("another reply: {other:?}"),
        }
    }

    async fn write_claim(&mut self, write: ClaimWrite) -> Result<Outcome<ClaimRecord>> {
        self.requests.write_claim(write);
        match self.event().await? {
            Event::ClaimWritten { outcome, .. } => Ok(outcome),
            other => bail!("another event: {other:?}"),
        }
    }

    async fn read_claim(&mut self, vip: IpAddr) -> Result<Outcome<ClaimRecord>> {
        self.requests.read_claim(vip);
        match self.event().await? {
            Event::ClaimRead { outcome, .. } => Ok(outcome),
            other => bail!("another event: {other:?}"),
        }
    }

    async fn delete_claim(&mut self, vip: IpAddr, expected: Version) -> Result<Outcome<()>> {
        self.requests.delete_claim(vip, expected);
        match self.event().await? {
            Event::ClaimDeleted { outcome, .. } => Ok(outcome),
            other => bail!("another event: {other:?}"),
        }
    }

    async fn show_conflict(&mut self, text: &str) -> Result<Outcome<ClaimRecord>> {
        self.requests.show(VIP, Finding::Conflict(Some(text.to_owned())));
        match self.reply().await? {
            Reply::Shown { outcome, .. } => Ok(outcome),
            other => bail!("another reply: {other:?}"),
        }
    }

    async fn write_lease(&mut self, write: LeaseWrite) -> Result<Outcome<LeaseRecord>> {
        self.requests.write_lease(write);
        match self.event().await? {
            Event::LeaseWritten { outcome, .. } => Ok(outcome),
            other => bail!("another event: {other:?}"),
        }
    }

    async fn read_lease(&mut self, node: &str) -> Result<Outcome<LeaseRecord>> {
        self.requests.read_lease(node.into());
        match self.event().await? {
            Event::LeaseRead { outcome, .. } => Ok(outcome),
            other => bail!("another event: {other:?}"),
        }
    }
}

fn done<T: std::fmt::Debug>(outcome: Outcome<T>) -> Result<T> {
    match outcome {
        Outcome::Done(record) => Ok(record),
        other => bail!("not done: {other:?}"),
    }
}
