//! The status of Services, Events, and the reason why the agent is to end.

use tokio::time::{Instant, sleep};
use vipward::shell::kube::{ConnectError, IngressError, Recorder, Surroundings, find_reason};
use vipward_core::{
    base::time::Monotonic,
    ownership::{
        StopReason,
        termination::{DaemonSetState, NodeState, PodState, Termination},
    },
    records::ServiceName,
    reports::outbox::{Command, Message, Object, Outbox, Outcome, Reason},
    services::ProblemReason,
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
    for address in [VIP, IpAddr::from([192, 0, 2, 11])] {
        writing.requests.write_ingress(web(), vec![address], None);
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

    writing.requests.clear_ingress(web(), None);
    writing.ingress().await??;
    assert_eq!(ingress(&scene).await?, Value::Null);

    delete(&scene.services(), "web").await?;
    writing.requests.clear_ingress(web(), None);
    writing.ingress().await??;
    writing.requests.write_ingress(web(), vec![VIP], None);
    assert!(matches!(writing.ingress().await?, Err(IngressError::Failed { .. })));
    Ok(())
}

#[tokio::test]
async fn a_status_of_another_controller_is_overwritten_in_the_named_version_only() -> Result<()> {
    let scene = Scene::new().await?;
    create(&scene.services(), service("web")).await?;
    let theirs = json!({"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.99"}]}}});
    let params = PatchParams { field_manager: Some("rival".to_owned()), ..PatchParams::default() };
    scene.services().patch_status("web", &params, &Patch::Merge(theirs)).await?;

    let mut writing = Writing::start(&scene.kube)?;
    writing.requests.write_ingress(web(), vec![VIP], None);
    match writing.ingress().await? {
        Err(IngressError::Conflict { managers, .. }) => assert_eq!(managers, ["rival"]),
        other => bail!("{other:?}"),
    }
    writing.requests.clear_ingress(web(), None);
    writing.ingress().await??;
    assert_eq!(ingress(&scene).await?[0]["ip"], "192.0.2.99");

    let version = scene.services().get("web").await?.metadata.resource_version.context("a version")?;
    writing.requests.write_ingress(web(), vec![VIP], Some(Version::from("1")));
    assert!(writing.ingress().await?.is_err(), "it may have another status by now");
    assert_eq!(ingress(&scene).await?[0]["ip"], "192.0.2.99");
    writing.requests.write_ingress(web(), vec![VIP], Some(Version::from(version.as_str())));
    writing.ingress().await??;
    assert_eq!(ingress(&scene).await?[0]["ip"], VIP.to_string());
    Ok(())
}

#[tokio::test]
async fn an_agents_statuses_let_many_claims_pass_and_a_controllers_do_not() -> Result<()> {
    const CLAIMS: u8 = 100;
    let scene = Scene::new().await?;
    create(&scene.services(), service("web")).await?;
    let (_reader, mut seen, _) = reading(&scene.kube).await?;
    let mut agent = Writing::with(&scene.kube, Statuses::AfterClaims)?;
    let mut controller = Writing::with(&scene.kube, Statuses::AtOnce)?;
    for number in 0..CLAIMS {
        agent.requests.write_claim(claim([192, 0, 2, number].into(), Expected::Absent, 1));
    }
    for _ in 0..CLAIMS {
        agent.event().await?;
        until(&mut seen, "a claim", |seen| matches!(seen, Seen::Claim(_)).then_some(())).await?;
    }
    for writing in [&agent, &controller] {
        writing.requests.write_ingress(web(), vec![VIP], None);
    }
    tokio::select! {
        result = controller.ingress() => result??,
        result = agent.ingress() => bail!("the agent did not wait: {result:?}"),
    }
    assert!(scene.kube.overloaded_for().is_some(), "the controller's came while claims did");
    agent.ingress().await??;
    assert_eq!(scene.kube.overloaded_for(), None, "the agent's came when no claims did");
    Ok(())
}

fn about_web(reason: Reason, note: &str) -> Message {
    Message::new(Object::Service(web()), Some("u-1".into()), reason, note)
}

/// An outbox whose requests are sent, as in the agent's event loop.
struct Outgoing {
    outbox: Outbox,
    recorder: Recorder,
    started: Instant,
}

impl Outgoing {
    fn start(scene: &Scene) -> Result<Self> {
        let outbox = Outbox::start(Monotonic::default() + PATIENCE * 1_000);
        Ok(Self { outbox, recorder: Recorder::start(&scene.kube)?, started: Instant::now() })
    }

    fn now(&self) -> Monotonic {
        Monotonic::default() + PATIENCE * 1_000 + self.started.elapsed()
    }

    fn post(&mut self, message: Message) {
        self.outbox.post(message, self.now());
    }

    /// Sends requests until none is due.
    async fn write(&mut self) -> Result<()> {
        while let Some(deadline) = self.outbox.next_deadline() {
            let now = self.now();
            sleep(deadline.saturating_since(now)).await;
            for command in self.outbox.due(self.now()) {
                let Command::Write(write) = command else { bail!("not written: {command:?}") };
                self.recorder.write(write);
                let outcome = timeout(PATIENCE, self.recorder.outcome()).await?.context("the task ended")?;
                self.outbox.on_outcome(outcome, 0.0, self.now());
            }
        }
        Ok(())
    }
}

/// Returns the texts of all Events, sorted, each with its count.
async fn notes(scene: &Scene) -> Result<Vec<(String, Option<u64>)>> {
    let api = scene.api(Some("default"), "events.k8s.io", "v1", "Event");
    let events = api.list(&kube::api::ListParams::default()).await?.items;
    let mut notes: Vec<(String, Option<u64>)> = events
        .into_iter()
        .map(|event| {
            let note = event.data["note"].as_str().unwrap_or_default().to_owned();
            (note, event.data["series"]["count"].as_u64())
        })
        .collect();
    notes.sort();
    Ok(notes)
}

#[tokio::test]
async fn a_message_of_two_nodes_is_one_event_and_counted() -> Result<()> {
    let scene = Scene::new().await?;
    for _node in 0..2 {
        let mut outgoing = Outgoing::start(&scene)?;
        outgoing.post(about_web(Reason::Problem(ProblemReason::PortClash), "no node can hold it"));
        outgoing.post(about_web(Reason::Announced, &"x".repeat(5_000)));
        outgoing.write().await?;
    }
    let expected = [("no node can hold it".to_owned(), Some(2)), ("x".repeat(1_024), Some(2))];
    assert_eq!(notes(&scene).await?, expected);
    Ok(())
}

#[tokio::test]
async fn an_event_that_could_not_be_written_is_written_when_that_works_again() -> Result<()> {
    for effect in [Effect::Answer(503), Effect::Drop, Effect::DropAnswer] {
        let scene = Scene::new().await?;
        let mut outgoing = Outgoing::start(&scene)?;
        let creations = Matching::any().user(USER).verb(Verb::Create).resource("events");
        scene.server.trouble(creations, effect, Often::Next(2));
        for note in ["another", "one"] {
            outgoing.post(about_web(Reason::Problem(ProblemReason::PortClash), note));
        }
        outgoing.write().await?;
        let expected = ["another", "one"].map(|note| (note.to_owned(), None));
        assert_eq!(notes(&scene).await?, expected, "{effect:?}");
        assert_eq!(scene.requests_of(Verb::Create, "events"), 4, "{effect:?}: each fails once");
        assert_eq!(scene.requests_of(Verb::Patch, "events"), 0, "{effect:?}: each was posted once");
    }
    Ok(())
}

#[tokio::test]
async fn an_event_that_is_refused_is_not_repeated() -> Result<()> {
    let scene = Scene::new().await?;
    let mut outgoing = Outgoing::start(&scene)?;
    let creations = Matching::any().user(USER).verb(Verb::Create).resource("events");
    scene.server.trouble(creations, Effect::Answer(422), Often::Next(1));
    outgoing.post(about_web(Reason::Problem(ProblemReason::PortClash), "no node can hold it"));
    let [Command::Write(write)] = &outgoing.outbox.due(outgoing.now())[..] else { bail!("no request") };
    outgoing.recorder.write(write.clone());
    let outcome = timeout(PATIENCE, outgoing.recorder.outcome()).await?;
    assert_eq!(outcome, Some(Outcome::Refused));
    Ok(())
}

#[tokio::test]
async fn why_the_agent_is_to_end_is_found_out_from_what_it_belongs_to() -> Result<()> {
    let scene = Scene::new().await?;
    let find =
        async || Ok::<_, ConnectError>(Surroundings::open(&scene.kube, Some("vipward-x"))?.look().await);
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
    let facts = |pod, daemon_set, node| Termination { pod, daemon_set, node, claims_are_gone: false };
    assert_eq!(find().await?, facts(PodState::Stays, DaemonSetState::Stays, NodeState::Stays));

    merge(&nodes, "a", json!({"spec": {"unschedulable": true}})).await?;
    assert_eq!(find_reason(&scene.kube, Some("vipward-x"), true).await?, StopReason::Leave);
    let mut surroundings = Surroundings::open(&scene.kube, Some("vipward-x"))?;
    surroundings.look().await;
    delete(&daemon_sets, "vipward").await?;
    assert_eq!(find().await?, facts(PodState::Stays, DaemonSetState::Deleted, NodeState::Cordoned));
    delete(&nodes, "a").await?;
    let later = facts(PodState::Stays, DaemonSetState::Deleted, NodeState::Cordoned);
    assert_eq!(surroundings.look().await, later, "only the DaemonSet is read again");
    assert_eq!(find_reason(&scene.kube, Some("vipward-x"), true).await?, StopReason::Uninstall);

    scene.server.cut_off(USER, Cut::Silent);
    let began = Instant::now();
    assert_eq!(find().await?, facts(PodState::Unknown, DaemonSetState::Unknown, NodeState::Unknown));
    assert!(began.elapsed() < Duration::from_millis(2_500), "{:?}", began.elapsed());
    Ok(())
}

/// Everything was deleted at once: the service account with the definitions, or without them.
#[tokio::test]
async fn an_agent_that_may_read_nothing_is_removed_only_if_it_has_read_that_no_claim_is_left() -> Result<()> {
    let (kept, gone, unread) = (Scene::new().await?, Scene::new().await?, Scene::new().await?);
    let mut writing = Writing::start(&kept.kube)?;
    done(writing.write_claim(claim(VIP, Expected::Absent, 1)).await?)?;
    for scene in [&kept, &gone, &unread] {
        scene.server.revoke("secret");
    }
    let find = |scene: &Scene, has_claims| {
        let kube = scene.kube.clone();
        async move { find_reason(&kube, Some("vipward-x"), has_claims).await }
    };
    let (kept, gone, unread) = tokio::join!(find(&kept, true), find(&gone, true), find(&unread, false));
    assert_eq!(gone?, StopReason::Uninstall);
    assert_eq!((kept?, unread?), (StopReason::Restart, StopReason::Restart));
    Ok(())
}
