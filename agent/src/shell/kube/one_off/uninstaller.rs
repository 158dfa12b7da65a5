//! An operator's request to remove Vipward from a cluster, in the order in which its parts need each
//! other. Each step may be repeated.

use std::time::Duration;

use kube::{
    api::{DeleteParams, ListParams},
    core::ObjectList,
};
use serde::Deserialize;
use serde_json::{json, value::RawValue};
use thiserror::Error;
use tokio::time::{Instant, sleep};

use super::claim_access::{ClaimAccess, READ_INTERVAL};
use crate::shell::kube::{
    kinds::{
        meta::{MANAGED_BY, Meta},
        virtual_ip::{FINALIZER, VirtualIpSpec, definition},
    },
    link::{
        call::{Call, Collection, MANAGER},
        connect::{Access, ConnectError},
        error::RequestError,
    },
};

#[derive(Debug, Error)]
pub enum UninstallError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("failed to {what}")]
    Request {
        what: String,
        #[source]
        source: RequestError,
    },
    #[error(
        "{what} is still there after {}; if a node is away, delete its Pod with --force (kubectl), and run \
         this command again",
        humantime::format_duration(*limit)
    )]
    Stays { what: String, limit: Duration },
    #[error(
        "these VIPs are still claimed: {}; the program on a dead agent's node may answer for up to \
         --hold-for: run `vipward unload` there, or reboot it; then run this command again with --force",
        claims.join(", ")
    )]
    Claimed { claims: Vec<String> },
    #[error(
        "Vipward's agents are in namespace {}, and not in {named}: name it with --lease-namespace",
        others.join(", ")
    )]
    Elsewhere { named: String, others: Vec<String> },
    #[error(
        "the VirtualIP {name} cannot be read, so that it may be claimed: delete it, or use the vipward of its version"
    )]
    UnreadableClaim {
        name: String,
        #[source]
        source: serde_json::Error,
    },
}

/// Where the objects of a type are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Cluster,
    /// Vipward's namespace.
    Own,
    /// Any namespace: rights on `MetalLB`'s objects are where those are.
    Any,
}

const RBAC: &str = "rbac.authorization.k8s.io/v1";
const ADMISSION: &str = "admissionregistration.k8s.io/v1";
const OPERATOR: &str = "monitoring.coreos.com/v1";

/// The types of which Vipward has objects, in the order of their deletion. A definition goes before the
/// rights on its objects, and the namespace last.
const TYPES: [(&str, &str, Place); 16] = [
    (ADMISSION, "validatingadmissionpolicybindings", Place::Cluster),
    (ADMISSION, "validatingadmissionpolicies", Place::Cluster),
    ("flowcontrol.apiserver.k8s.io/v1", "flowschemas", Place::Cluster),
    ("apiextensions.k8s.io/v1", "customresourcedefinitions", Place::Cluster),
    (RBAC, "clusterrolebindings", Place::Cluster),
    (RBAC, "clusterroles", Place::Cluster),
    (RBAC, "rolebindings", Place::Any),
    (RBAC, "roles", Place::Any),
    ("policy/v1", "poddisruptionbudgets", Place::Own),
    ("networking.k8s.io/v1", "networkpolicies", Place::Own),
    (OPERATOR, "podmonitors", Place::Own),
    (OPERATOR, "prometheusrules", Place::Own),
    ("v1", "serviceaccounts", Place::Own),
    ("coordination.k8s.io/v1", "leases", Place::Own),
    ("v1", "secrets", Place::Own),
    ("v1", "namespaces", Place::Cluster),
];
const NAME: &str = "app.kubernetes.io/name";
const INSTANCE: &str = "app.kubernetes.io/instance";

/// The types by which a namespace is seen to be used by others too.
const OTHERS: [(&str, &str); 6] = [
    ("v1", "pods"),
    ("v1", "services"),
    ("v1", "configmaps"),
    ("v1", "secrets"),
    ("v1", "persistentvolumeclaims"),
    ("apps/v1", "deployments"),
];
/// The object that Kubernetes makes in each namespace.
const IN_EACH: &str = "kube-root-ca.crt";

/// An object of Vipward's.
struct Object {
    plural: &'static str,
    /// The objects of its type, in its namespace.
    within: Collection,
    name: String,
}

impl Object {
    fn new(version: &str, plural: &'static str, namespace: &str, name: &str) -> Self {
        Self { plural, within: Collection::at(version, plural, namespace), name: name.to_owned() }
    }

    fn text(&self) -> String {
        format!("{}/{}", self.plural, self.name)
    }
}

#[derive(Deserialize)]
struct Listed {
    metadata: Meta,
    #[serde(rename = "type", default)]
    kind: String,
}

impl Listed {
    fn is_ours(&self) -> bool {
        let label = |name| self.metadata.label(name) == Some(MANAGER);
        label(NAME) || label(MANAGED_BY)
    }

    /// Returns true if it is Helm's record of a release.
    fn is_record(&self) -> bool {
        self.kind == "helm.sh/release.v1"
    }
}

struct Claim {
    name: String,
    is_reserved: bool,
    finalizers: Vec<String>,
    text: String,
}

pub struct Uninstaller {
    server: ClaimAccess,
    namespace: String,
    /// The longest time that a deletion may take.
    limit: Duration,
}

impl Uninstaller {
    pub async fn connect(access: &Access, namespace: &str, limit: Duration) -> Result<Self, ConnectError> {
        Ok(Self { server: ClaimAccess::connect(access).await?, namespace: namespace.to_owned(), limit })
    }

    /// Returns what [`run`](Self::run) would do now, a line for each step.
    pub async fn plan(&self) -> Result<Vec<String>, UninstallError> {
        self.check_namespace().await?;
        let claims = self.claims().await?;
        let reserved = claims.iter().filter(|claim| claim.is_reserved).count();
        let objects: Vec<_> = self.objects().await?.iter().map(Object::text).collect();
        Ok(vec![
            format!("delete the controller in {}", self.namespace),
            format!("free {reserved} reserved addresses"),
            format!("delete the agents in {}: {} VIPs are answered no more", self.namespace, claims.len()),
            "check that no VIP is claimed".to_owned(),
            format!("delete {}", objects.join(", ")),
        ])
    }

    /// Removes everything. `force` goes on while VIPs are claimed.
    pub async fn run(&self, force: bool, mut progress: impl FnMut(String)) -> Result<(), UninstallError> {
        self.check_namespace().await?;
        let controller = Object::new("apps/v1", "deployments", &self.namespace, "vipward-controller");
        self.delete(&[controller], &DeleteParams::foreground(), &mut progress).await?;
        let claims = self.claims().await?;
        for claim in claims.iter().filter(|claim| claim.is_reserved) {
            self.patch(claim, &json!({"spec": {"reservation": null}})).await?;
            progress(format!("{} is not reserved any more", claim.name));
        }
        let agents = Object::new("apps/v1", "daemonsets", &self.namespace, "vipward");
        self.delete(&[agents], &DeleteParams::foreground(), &mut progress).await?;
        let claims = self.claims().await?;
        if !claims.is_empty() && !force {
            let claims = claims.into_iter().map(|claim| claim.text).collect();
            return Err(UninstallError::Claimed { claims });
        }
        for claim in claims.iter().filter(|claim| claim.finalizers.iter().any(|it| it == FINALIZER)) {
            let others: Vec<_> = claim.finalizers.iter().filter(|it| *it != FINALIZER).collect();
            self.patch(claim, &json!({"metadata": {"finalizers": others}})).await?;
        }
        self.delete(&self.objects().await?, &DeleteParams::background(), &mut progress).await
    }

    /// Deletes objects, and waits until they are gone; in the foreground, with what they own.
    async fn delete(
        &self,
        objects: &[Object],
        params: &DeleteParams,
        progress: &mut impl FnMut(String),
    ) -> Result<(), UninstallError> {
        for object in objects {
            let call = object.within.delete(&object.name, params);
            self.send(call).await.map_err(failed(|| format!("delete {}", object.text())))?;
        }
        let deadline = Instant::now() + self.limit;
        for object in objects {
            let read = || self.send(object.within.get(&object.name));
            while read().await.map_err(failed(|| format!("read {}", object.text())))?.is_some() {
                if Instant::now() >= deadline {
                    return Err(UninstallError::Stays { what: object.text(), limit: self.limit });
                }
                sleep(READ_INTERVAL).await;
            }
            progress(format!("{} is gone", object.text()));
        }
        Ok(())
    }

    async fn patch(&self, claim: &Claim, patch: &serde_json::Value) -> Result<(), UninstallError> {
        let call = ClaimAccess::claims().merge(&claim.name, patch);
        self.send(call).await.map_err(failed(|| format!("change virtualips/{}", claim.name))).map(drop)
    }

    async fn claims(&self) -> Result<Vec<Claim>, UninstallError> {
        #[derive(Deserialize)]
        struct Read {
            metadata: Meta,
            #[serde(default)]
            spec: VirtualIpSpec,
        }
        let list = self.list(&ClaimAccess::claims(), definition().spec.names.plural.as_str()).await?;
        let read = |text: &String| {
            serde_json::from_str::<Read>(text).map_err(|source| UninstallError::UnreadableClaim {
                name: serde_json::from_str::<Listed>(text).map(|it| it.metadata.name).unwrap_or_default(),
                source,
            })
        };
        let claims = list.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        let claim = |Read { metadata, spec }: Read| {
            let holder = spec.holder.map_or_else(String::new, |holder| format!(" (by {holder})"));
            Claim {
                text: metadata.name.clone() + &holder,
                name: metadata.name,
                is_reserved: spec.reservation.is_some(),
                finalizers: metadata.finalizers.unwrap_or_default(),
            }
        };
        Ok(claims.into_iter().map(claim).collect())
    }

    /// Fails if agents are in another namespace: what is deleted for all namespaces would be theirs.
    async fn check_namespace(&self) -> Result<(), UninstallError> {
        let all = self.listed("apps/v1", "daemonsets", "").await?;
        let agents = all.into_iter().filter(Listed::is_ours);
        let mut others: Vec<_> = agents.filter_map(|it| it.metadata.namespace.map(Into::into)).collect();
        others.retain(|namespace| *namespace != self.namespace);
        others.dedup();
        if others.is_empty() {
            return Ok(());
        }
        Err(UninstallError::Elsewhere { named: self.namespace.clone(), others })
    }

    /// Returns the objects of others in Vipward's namespace. Helm's records are nobody's.
    async fn others(&self) -> Result<Vec<Listed>, UninstallError> {
        let mut others = Vec::new();
        for (version, plural) in OTHERS {
            let listed = self.listed(version, plural, &self.namespace).await?;
            others.extend(
                listed
                    .into_iter()
                    .filter(|it| !it.is_ours() && !it.is_record() && it.metadata.name != IN_EACH),
            );
        }
        Ok(others)
    }

    /// Returns the objects that are Vipward's by their labels, and Helm's records of the release. The
    /// namespace stays if it has objects of others, and the records if the release has other charts.
    async fn objects(&self) -> Result<Vec<Object>, UninstallError> {
        let others = self.others().await?;
        let mut is_shared = !others.is_empty();
        let mut objects = Vec::new();
        let mut releases = Vec::new();
        for (version, plural, place) in TYPES {
            let namespace = if place == Place::Own { &self.namespace } else { "" };
            for found in self.listed(version, plural, namespace).await? {
                let metadata = &found.metadata;
                if found.is_ours() && metadata.label(MANAGED_BY) == Some("Helm") {
                    let release = metadata.label(INSTANCE).map(str::to_owned);
                    let has_others =
                        others.iter().any(|other| other.metadata.label(INSTANCE) == release.as_deref());
                    releases.extend(release.filter(|_| !has_others));
                }
                let is_its_record = found.is_record()
                    && metadata.label("name").is_some_and(|name| releases.iter().any(|it| it == name));
                // The namespace comes last.
                is_shared |= found.is_record() && !is_its_record;
                let stays = plural == "namespaces" && (metadata.name != self.namespace || is_shared);
                if found.is_ours() && !stays || is_its_record {
                    let namespace = metadata.namespace.as_deref().unwrap_or_default();
                    objects.push(Object::new(version, plural, namespace, &metadata.name));
                }
            }
        }
        Ok(objects)
    }

    /// Returns the objects of a type, in all namespaces if none is named.
    async fn listed(
        &self,
        version: &str,
        plural: &'static str,
        namespace: &str,
    ) -> Result<Vec<Listed>, UninstallError> {
        let all = self.list(&Collection::at(version, plural, namespace), plural).await?;
        let read = |text: &String| serde_json::from_str(text).map_err(RequestError::Unreadable);
        all.iter().map(read).collect::<Result<_, _>>().map_err(failed(|| format!("read {plural}")))
    }

    /// Returns the texts of objects. A type that the API server does not know has none.
    async fn list(&self, of: &Collection, plural: &str) -> Result<Vec<String>, UninstallError> {
        let what = || format!("list {plural}");
        let Some(text) = self.send(of.list(&ListParams::default())).await.map_err(failed(what))? else {
            return Ok(Vec::new());
        };
        let list: ObjectList<&RawValue> =
            serde_json::from_str(&text).map_err(RequestError::Unreadable).map_err(failed(what))?;
        Ok(list.items.into_iter().map(|object| object.get().to_owned()).collect())
    }

    /// Returns none if there is no such object.
    async fn send(&self, call: Call) -> Result<Option<String>, RequestError> {
        match self.server.insist(call, self.limit).await {
            Err(error) if error.is_status(404) => Ok(None),
            answer => answer.map(Some),
        }
    }
}

fn failed(what: impl FnOnce() -> String) -> impl FnOnce(RequestError) -> UninstallError {
    |source| UninstallError::Request { what: what(), source }
}
