//! The Secret with the keys of wire failover: reading, creating and replacing it.

use std::sync::{Arc, Mutex};

use tokio::time::sleep;
use vipward::shell::kube::{Rotating, SECRET, WireSecret, WireSecretError};
use vipward_core::records::KeyId;
use vipward_tests::apiserver::{Effect, Matching, Often};

use super::*;

const KEY: &str = "000102030405060708090a0b0c0d0e0f";
/// The rules about Secrets of the agents' role and of the controller's.
const ROLES: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: key, namespace: vipward-system}
rules:
  - {apiGroups: [''], resources: [secrets], resourceNames: [vipward-wire], verbs: [get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: key, namespace: vipward-system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: key}
subjects: [{kind: User, apiGroup: rbac.authorization.k8s.io, name: agent}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: creation, namespace: vipward-system}
rules:
  - {apiGroups: [''], resources: [secrets], verbs: [create]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: creation, namespace: vipward-system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: creation}
subjects: [{kind: User, apiGroup: rbac.authorization.k8s.io, name: controller}]
";
/// The time for which the former key stays in these tests.
const LINGER: Duration = Duration::from_millis(50);

async fn scene() -> Result<Scene> {
    let scene = Scene::new().await?;
    scene.server.load_manifest(ROLES)?;
    Ok(scene)
}

fn secrets(scene: &Scene) -> Api<DynamicObject> {
    scene.api(Some(NAMESPACE), "", "v1", "Secret")
}

fn secret(name: &str, entries: &[(&str, &str)]) -> Value {
    let entries: serde_json::Map<_, _> =
        entries.iter().map(|(name, value)| ((*name).to_owned(), Value::from(*value))).collect();
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": entries})
}

async fn names_of_keys(scene: &Scene) -> Result<Vec<String>> {
    let secret = secrets(scene).get(SECRET).await?;
    let data = secret.data["data"].as_object().cloned().unwrap_or_default();
    Ok(data.keys().cloned().collect())
}

/// Returns the numbers of the keys in the next news about them.
async fn keys(seen: &mut mpsc::Receiver<Seen>) -> Result<Vec<u8>> {
    let ids = |seen: &Seen| match seen {
        Seen::WireKeys { keys, .. } => Some(keys.ids().into_iter().map(|KeyId(id)| id).collect()),
        _ => None,
    };
    until(seen, "news of the keys", ids).await
}

#[tokio::test]
async fn an_agent_reads_its_secret_alone_and_follows_it() -> Result<()> {
    let scene = scene().await?;
    create(&secrets(&scene), secret("another", &[("1", "f0e0d0c0b0a090807060504030201000")])).await?;
    let resources = [Resource::WireSecret];
    let (_reader, mut seen) = Reader::start(&scene.kube, &resources, Reading::default())?;
    until(&mut seen, "the list", |seen| match seen {
        Seen::Synced(Resource::WireSecret) => Some(Ok(())),
        other => Some(Err(anyhow::anyhow!("there is no key yet: {other:?}"))),
    })
    .await??;

    create(&secrets(&scene), secret(SECRET, &[("1", KEY)])).await?;
    assert_eq!(keys(&mut seen).await?, [1]);
    merge(&secrets(&scene), SECRET, json!({"stringData": {"2": KEY, "x": KEY, "3": "no key"}})).await?;
    let notified = until(&mut seen, "the change", |seen| match seen {
        Seen::WireKeys { keys, faults } => Some((keys.ids(), faults.clone(), format!("{seen:?}"))),
        _ => None,
    });
    let (ids, faults, shown) = notified.await?;
    assert_eq!(ids, [KeyId(1), KeyId(2)]);
    let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
    assert_eq!(
        faults,
        [
            "the value of entry 3 is not 32 hexadecimal digits",
            "the name \"x\" of an entry is no number from 1 to 255"
        ]
    );
    assert!(!shown.contains(KEY) && !shown.contains("no key"), "{shown}");
    delete(&secrets(&scene), SECRET).await?;
    assert_eq!(keys(&mut seen).await?, [0_u8; 0]);
    Ok(())
}

#[tokio::test]
async fn the_controller_creates_the_secret_once_and_cannot_read_it() -> Result<()> {
    let scene = scene().await?;
    scene.server.add_user("controllers", "controller");
    let (kube, _kubeconfig) = way(&scene.server.url(), "controllers", "x").await?;
    assert!(WireSecret::of(&kube)?.create().await?);
    let first = secrets(&scene).get(SECRET).await?;
    assert!(!WireSecret::of(&kube)?.create().await?);
    assert_eq!(secrets(&scene).get(SECRET).await?.data, first.data, "it stays as it is");
    let wanted = |kind: &RequestKind| kind.user == "controller" && kind.verb != Verb::Create;
    assert_eq!(scene.server.stats().count(wanted), 0, "it asks for nothing that it may not do");
    Ok(())
}

/// Returns an administrator's access to the Secret, and the directory with the kubeconfig for it.
async fn operator(scene: &Scene) -> Result<(WireSecret, TempDir)> {
    let (_, directory) = way(&scene.server.url(), "admin", "x").await?;
    let access = Access { kubeconfig: Some(directory.path().join("kubeconfig")), ..Access::default() };
    Ok((WireSecret::connect(&access, NAMESPACE).await?, directory))
}

/// Writes the Lease of a node whose agent accepts these keys. None: it takes no part.
async fn accept(scene: &Scene, node: &str, keys: Option<&[u8]>) -> Result<()> {
    let offer = keys.map(|keys| {
        json!({"proto": 1, "wid": "000000000000000a", "mode": "off", "round": 0, "invited": [], "set": [],
            "need": 0, "keys": keys})
        .to_string()
    });
    let lease = json!({
        "metadata": {"annotations": {"vipward.io/duration": "1m", "vipward.io/wire": offer}},
        "spec": {"holderIdentity": format!("{node}/0000000000000001"), "leaseDurationSeconds": 60},
    });
    if scene.leases().get_opt(node).await?.is_none() {
        let bare =
            json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": node}});
        create(&scene.leases(), bare).await?;
    }
    merge(&scene.leases(), node, lease).await?;
    Ok(())
}

#[tokio::test]
async fn a_first_key_is_made_once() -> Result<()> {
    let scene = scene().await?;
    let (wire, _kubeconfig) = operator(&scene).await?;
    wire.init().await?;
    let first = secrets(&scene).get(SECRET).await?;
    assert_eq!(names_of_keys(&scene).await?, ["1"]);
    let refused = wire.init().await.err().context("it is there already")?;
    assert!(matches!(refused, WireSecretError::Exists { .. }), "{refused}");
    assert!(refused.to_string().contains("vipward-system/vipward-wire exists already"), "{refused}");
    assert_eq!(secrets(&scene).get(SECRET).await?.data, first.data);
    Ok(())
}

#[tokio::test]
async fn a_key_is_replaced_when_every_agent_that_runs_accepts_the_new_one() -> Result<()> {
    let scene = scene().await?;
    let (wire, _kubeconfig) = operator(&scene).await?;
    wire.init().await?;
    for node in ["a", "b"] {
        accept(&scene, node, Some(&[1])).await?;
    }
    accept(&scene, "old", None).await?;
    let steps = Arc::new(Mutex::new(Vec::new()));
    let notified = Arc::clone(&steps);
    let note = move |step| notified.lock().expect("no thread panics with it").push(step);
    let rotating = async { wire.rotate(PATIENCE, LINGER, note).await };
    let answering = async {
        for node in ["b", "a"] {
            let is_waiting = |step: &Rotating| match step {
                Rotating::Waiting { missing, of: 2 } => missing.iter().any(|name| name.as_str() == node),
                _ => false,
            };
            while !steps.lock().expect("no thread panics with it").last().is_some_and(is_waiting) {
                sleep(Duration::from_millis(10)).await;
            }
            assert_eq!(names_of_keys(&scene).await?, ["1", "2"]);
            accept(&scene, node, Some(&[1, 2])).await?;
        }
        anyhow::Ok(())
    };
    let (id, answered) = tokio::join!(rotating, answering);
    answered?;
    assert_eq!((id?, names_of_keys(&scene).await?), (KeyId(2), vec!["2".to_owned()]));
    let steps = steps.lock().expect("no thread panics with it").clone();
    assert_eq!(steps.first(), Some(&Rotating::Added(KeyId(2))), "{steps:?}");
    let last = [Rotating::Used { id: KeyId(2), linger: LINGER }, Rotating::Removed(vec![KeyId(1)])];
    assert!(steps.ends_with(&last), "{steps:?}");
    let newest = secrets(&scene).get(SECRET).await?.metadata.annotations.unwrap_or_default();
    assert_eq!(newest.get("vipward.io/newest").map(String::as_str), Some("2"));
    Ok(())
}

#[tokio::test]
async fn a_rotation_that_ends_early_leaves_both_keys_and_the_next_one_goes_on() -> Result<()> {
    let scene = scene().await?;
    let (wire, _kubeconfig) = operator(&scene).await?;
    wire.init().await?;
    accept(&scene, "a", Some(&[1])).await?;
    let refused = wire.rotate(Duration::ZERO, LINGER, |_| {}).await.err().context("one agent lacks it")?;
    let said = refused.to_string();
    assert!(said.contains("the agents of a do not accept key 2 yet; both keys stay"), "{said}");
    assert_eq!(names_of_keys(&scene).await?, ["1", "2"]);
    // Interrupted, as by Ctrl-C.
    let interrupted = timeout(Duration::from_millis(300), wire.rotate(PATIENCE, LINGER, |_| {})).await;
    assert!(interrupted.is_err(), "{interrupted:?}");
    assert_eq!(names_of_keys(&scene).await?, ["1", "2"]);

    accept(&scene, "a", Some(&[1, 2])).await?;
    let mut steps = Vec::new();
    assert_eq!(wire.rotate(PATIENCE, LINGER, |step| steps.push(step)).await?, KeyId(2));
    assert_eq!(steps.first(), Some(&Rotating::Found(KeyId(2))), "{steps:?}");
    assert_eq!(names_of_keys(&scene).await?, ["2"]);
    Ok(())
}

#[tokio::test]
async fn nothing_is_changed_in_a_secret_that_is_missing_edited_or_refused() -> Result<()> {
    let scene = scene().await?;
    let (wire, _kubeconfig) = operator(&scene).await?;
    let rotate = async || wire.rotate(PATIENCE, LINGER, |_| {}).await.err().context("it is refused");
    let missing = rotate().await?.to_string();
    assert_eq!(missing, "there is no Secret vipward-system/vipward-wire: `vipward wire init` creates it");

    create(&secrets(&scene), secret(SECRET, &[("1", KEY), ("2", &KEY[1..])])).await?;
    let edited = rotate().await?.to_string();
    assert!(edited.contains("was edited: the value of entry 2 is not 32 hexadecimal digits"), "{edited}");
    assert!(!edited.contains(&KEY[1..]), "{edited}");
    merge(&secrets(&scene), SECRET, json!({"data": {"1": null, "2": null}})).await?;
    let empty = rotate().await?.to_string();
    assert!(empty.contains("was edited: it has no key"), "{empty}");

    merge(&secrets(&scene), SECRET, json!({"stringData": {"1": KEY}})).await?;
    scene.server.trouble(
        Matching::any().resource("secrets").verb(Verb::Patch),
        Effect::Answer(403),
        Often::Next(1),
    );
    let refused = format!("{:#}", anyhow::Error::from(rotate().await?));
    assert!(refused.starts_with("failed to change Secret vipward-system/vipward-wire"), "{refused}");
    assert_eq!(names_of_keys(&scene).await?, ["1"]);
    Ok(())
}
