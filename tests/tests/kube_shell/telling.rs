//! What people and other controllers see: the status of Services, and Events. And why the agent is to end.

use tokio::time::{Instant, sleep};
use vipward::{
    core::{cluster::ServiceName, ownership::StopReason},
    shell::kube::{
        DaemonSetState, IngressError, Kind, Message, NodeState, PodState, Recorder, Regarding, Termination,
    },
};
use vipward_tests::apiserver::{Cut, Effect, Matching, Often};

use super::*;

fn web() -> ServiceName {
    ServiceName { namespace: "default".into(), name: "web".into() }
}

impl Writing {
    async fn ingress(&mut self) -> Result<Result<(), IngressError>> {
        match self.reply().await? {
            Reply::Ingress { result, .. } => Ok(result),
            other => bail!("another reply: {other:?}"),
        }
    }
}

async fn ingress(scene: &Scene) -> Result<Value> {
    let object = scene.services().get("web").await?;
    Ok(object.data["status"]["loadBalancer"]["ingress"].clone())
}

#[tokio::test]
async fn the_status_of_a_service_is_written_followed_and_taken_back() -> Result<()> {
    let scene = Scene::new().await?;
    create(&scene.services(), service("web")).await?;
    let (_reader, mut seen, _) = reading(&scene.kube).await?;
    let mut writing = Writing::start(&scene.kube)?;
    for address in [VIP, Ipv4Addr::new(192, 0, 2, 11)] {
        writing.requests.write_ingress(web(), vec![address]);
        writing.ingress().await??;
        assert_eq!(ingress(&scene).await?[0]["ip"], address.to_string());
        assert_eq!(ingress(&scene).await?.as_array().map(Vec::len), Some(1));
    }
    let manager = until(&mut seen, "the addresses", |seen| match seen {
        Seen::Service(record) if !record.ingress.is_empty() => Some(record.status_manager.clone()),
        _ => None,
    })
    .await?;
    assert_eq!(manager.as_deref(), Some("vipward"), "we know that we wrote them");

    writing.requests.clear_ingress(web());
    writing.ingress().await??;
    assert_eq!(ingress(&scene).await?, Value::Null);

    delete(&scene.services(), "web").await?;
    writing.requests.clear_ingress(web());
    writing.ingress().await??;
    writing.requests.write_ingress(web(), vec![VIP]);
    assert!(matches!(writing.ingress().await?, Err(IngressError::Failed { .. })));
    Ok(())
}

#[tokio::test]
async fn what_another_controller_wrote_is_never_overwritten_and_its_name_is_told() -> Result<()> {
    let scene = Scene::new().await?;
    create(&scene.services(), service("web")).await?;
    let theirs = json!({"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.99"}]}}});
    let params = PatchParams { field_manager: Some("rival".to_owned()), ..PatchParams::default() };
    scene.services().patch_status("web", &params, &Patch::Merge(theirs)).await?;

    let mut writing = Writing::start(&scene.kube)?;
    writing.requests.write_ingress(web(), vec![VIP]);
    match writing.ingress().await? {
        Err(IngressError::Conflict { managers, .. }) => assert_eq!(managers, ["rival"]),
        other => bail!("{other:?}"),
    }
    writing.requests.clear_ingress(web());
    writing.ingress().await??;
    assert_eq!(ingress(&scene).await?[0]["ip"], "192.0.2.99");
    Ok(())
}

fn problem(note: &str) -> Message {
    let regarding = Regarding::Service { name: web(), uid: Some("u-1".into()) };
    Message { regarding, kind: Kind::Warning, reason: "Problem", note: note.to_owned() }
}

async fn events(scene: &Scene) -> Result<Vec<DynamicObject>> {
    let api = scene.api(Some("default"), "events.k8s.io", "v1", "Event");
    Ok(api.list(&kube::api::ListParams::default()).await?.items)
}

#[tokio::test]
async fn a_message_that_is_repeated_a_thousand_times_is_one_event() -> Result<()> {
    let scene = Scene::new().await?;
    let recorder = Recorder::start(&scene.kube)?;
    let message = |note: &str| Message {
        regarding: Regarding::Service { name: web(), uid: Some("u-1".into()) },
        kind: Kind::Normal,
        reason: "Announced",
        note: note.to_owned(),
    };
    for _ in 0..1_000 {
        recorder.tell(message("announced from a"));
        tokio::task::yield_now().await;
    }
    recorder.tell(message(&"x".repeat(5_000)));
    let deadline = Instant::now() + PATIENCE;
    while events(&scene).await?.len() < 2 && Instant::now() < deadline {
        sleep(Duration::from_millis(10)).await;
    }
    let mut notes: Vec<_> =
        events(&scene).await?.into_iter().map(|event| event.data["note"].clone()).collect();
    notes.sort_by_key(ToString::to_string);
    assert_eq!(notes, [Value::from("announced from a"), Value::from("x".repeat(1_024))]);
    Ok(())
}

/// Waits until there are so many Events, and returns them.
async fn wait_for_events(scene: &Scene, wanted: usize) -> Result<Vec<DynamicObject>> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let events = events(scene).await?;
        if events.len() >= wanted || Instant::now() >= deadline {
            return Ok(events);
        }
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn an_event_that_could_not_be_written_is_written_when_that_works_again() -> Result<()> {
    for effect in [Effect::Answer(503), Effect::Drop, Effect::DropAnswer] {
        let scene = Scene::new().await?;
        let recorder = Recorder::start(&scene.kube)?;
        let creations = Matching::any().user(USER).verb(Verb::Create).resource("events");
        scene.server.trouble(creations, effect, Often::Next(2));
        for note in ["one", "another"] {
            recorder.tell(problem(note));
        }
        // Each fails once, and is tried again.
        let deadline = Instant::now() + PATIENCE;
        while scene.requests_of(Verb::Create, "events") < 4 && Instant::now() < deadline {
            sleep(Duration::from_millis(10)).await;
        }
        recorder.tell(problem("the last"));
        let events = wait_for_events(&scene, 3).await?;
        let mut notes: Vec<_> = events.iter().map(|event| event.data["note"].clone()).collect();
        notes.sort_by_key(ToString::to_string);
        assert_eq!(notes, ["another", "one", "the last"], "{effect:?}");
        assert_eq!(scene.requests_of(Verb::Patch, "events"), 0, "{effect:?}: each was said once");
    }
    Ok(())
}

#[tokio::test]
async fn what_there_is_no_room_for_is_said_to_be_and_is_written_when_it_is_offered_later() -> Result<()> {
    const OFFERED: usize = 70;
    let scene = Scene::new().await?;
    let recorder = Recorder::start(&scene.kube)?;
    let turned_away: Vec<usize> =
        (0..OFFERED).filter(|number| !recorder.offer(problem(&number.to_string()))).collect();
    assert!((1..OFFERED).contains(&turned_away.len()), "{turned_away:?}");
    assert_eq!(
        wait_for_events(&scene, OFFERED - turned_away.len()).await?.len(),
        OFFERED - turned_away.len()
    );
    let first = problem(&turned_away[0].to_string());
    let deadline = Instant::now() + PATIENCE;
    while !recorder.offer(first.clone()) && Instant::now() < deadline {
        sleep(Duration::from_millis(100)).await;
    }
    let written = wait_for_events(&scene, OFFERED - turned_away.len() + 1).await?;
    assert!(written.iter().any(|event| event.data["note"] == first.note), "{written:?}");
    Ok(())
}

#[tokio::test]
async fn why_the_agent_is_to_end_is_found_out_from_what_it_belongs_to() -> Result<()> {
    let scene = Scene::new().await?;
    let find = || Termination::find(&scene.kube, Some("vipward-x"));
    let nodes = scene.api(None, "", "v1", "Node");
    let daemon_sets = scene.api(Some(NAMESPACE), "apps", "v1", "DaemonSet");
    create(
        &daemon_sets,
        json!({
            "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "vipward"},
            "spec": {"selector": {}, "template": {}},
        }),
    )
    .await?;
    create(
        &scene.api(Some(NAMESPACE), "", "v1", "Pod"),
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "vipward-x", "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "vipward", "uid": "u"},
            ]},
            "spec": {"containers": []},
        }),
    )
    .await?;
    let facts = |pod, daemon_set, node| Termination { pod, daemon_set, node };
    assert_eq!(find().await?, facts(PodState::Stays, DaemonSetState::Stays, NodeState::Stays));

    merge(&nodes, "a", json!({"spec": {"unschedulable": true}})).await?;
    assert_eq!(find().await?.reason(), StopReason::Leave);
    delete(&daemon_sets, "vipward").await?;
    assert_eq!(find().await?, facts(PodState::Stays, DaemonSetState::Deleted, NodeState::Cordoned));
    assert_eq!(find().await?.reason(), StopReason::Uninstall);

    scene.server.cut_off(USER, Cut::Silent);
    let began = Instant::now();
    assert_eq!(find().await?, facts(PodState::Unknown, DaemonSetState::Unknown, NodeState::Unknown));
    assert!(began.elapsed() < Duration::from_millis(2_500), "{:?}", began.elapsed());
    Ok(())
}
