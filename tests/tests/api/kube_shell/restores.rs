//! Reading and writing after the store behind the API server goes back to an older state.

use std::net::IpAddr;

use std::collections::BTreeMap;

use anyhow::ensure;
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep},
};
use vipward_tests::apiserver::{Effect, Matching, Often, Saved};

use super::{reading::renew, *};

/// The types that these tests list.
const LISTED: [&str; 5] = ["leases", "virtualips", "nodes", "services", "endpointslices"];

impl Scene {
    /// Stops the API server, and starts it again with the saved objects.
    fn go_back(&mut self, saved: &Saved) -> Result<()> {
        self.server.stop()?;
        self.server.restore(saved)?;
        self.server.start_again()?;
        // A request on a connection to the server that was stopped would fail.
        self.admin = administrator(&self.server)?;
        Ok(())
    }

    fn lists(&self) -> BTreeMap<&'static str, u64> {
        LISTED.into_iter().map(|resource| (resource, self.requests_of(Verb::List, resource))).collect()
    }

    async fn wait_until_all_listed(&self, limit: Duration) -> Result<()> {
        let began = Instant::now();
        while self.lists().values().any(|times| *times == 0) {
            ensure!(began.elapsed() < limit, "listed within {limit:?} were {:?}", self.lists());
            sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }
}

/// A task that renews this node's Lease until it is dropped.
struct Renewing(JoinHandle<Result<()>>);

impl Renewing {
    fn start(kube: &Kube) -> Self {
        Self(tokio::spawn(renew(kube.clone())))
    }
}

impl Drop for Renewing {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Collects the news of Services until the end of their next list.
async fn services_listed(seen: &mut mpsc::Receiver<Seen>) -> Result<Vec<String>> {
    let mut notified = Vec::new();
    until(seen, "a list of the Services", |seen| {
        match seen {
            Seen::Service(record) => notified.push(record.name.name.to_string()),
            Seen::ServiceGone(name) => notified.push(format!("-{}", name.name)),
            _ => {}
        }
        matches!(seen, Seen::Synced(Resource::Services)).then_some(())
    })
    .await?;
    notified.retain(|name| name != "kubernetes");
    notified.sort();
    Ok(notified)
}

#[tokio::test]
async fn a_claim_that_went_back_unread_is_written_and_deleted_at_its_version() -> Result<()> {
    let mut scene = Scene::new().await?;
    let mut writing = Writing::start(&scene.kube)?;
    let other = IpAddr::from([192, 0, 2, 11]);
    let mut versions = Vec::new();
    for vip in [VIP, other] {
        versions.push(done(writing.write_claim(claim(vip, Expected::Absent, 1)).await?)?.version);
    }
    let saved = scene.server.save()?;
    for (vip, version) in [VIP, other].into_iter().zip(&versions) {
        done(writing.write_claim(claim(vip, Expected::At(version.clone()), 2)).await?)?;
    }

    scene.go_back(&saved)?;

    let mut writing = Writing::start(&scene.kube)?;
    done(writing.write_claim(claim(VIP, Expected::At(versions[0].clone()), 3)).await?)?;
    assert_eq!(writing.delete_claim(other, versions[1].clone()).await?, Outcome::Done(()));
    Ok(())
}

#[tokio::test]
async fn a_write_that_finds_no_claim_forgets_the_one_that_was_known() -> Result<()> {
    let mut scene = Scene::new().await?;
    let saved = scene.server.save()?;
    let mut writing = Writing::start(&scene.kube)?;
    done(writing.write_claim(claim(VIP, Expected::Absent, 1)).await?)?;
    let known = done(writing.show_conflict("02:00:00:00:00:66 claims it").await?)?;
    assert_eq!(scene.kube.claim_version(VIP).as_ref(), Some(&known.version));

    scene.go_back(&saved)?;

    let mut writing = Writing::start(&scene.kube)?;
    assert_eq!(writing.delete_claim(VIP, known.version).await?, Outcome::Missing);
    assert_eq!(scene.kube.claim_version(VIP), None);
    Ok(())
}

#[tokio::test]
async fn who_finds_a_claim_where_there_was_to_be_none_has_asked_and_made_none() -> Result<()> {
    let scene = Scene::new().await?;
    let mut writing = Writing::start(&scene.kube)?;
    done(writing.write_claim(claim(VIP, Expected::Absent, 1)).await?)?;
    scene.server.reset_stats();
    assert_eq!(writing.write_claim(claim(VIP, Expected::Absent, 1)).await?, Outcome::Conflict);
    let asked = [Verb::Get, Verb::Create].map(|verb| scene.requests_of(verb, "virtualips"));
    assert_eq!(asked, [1, 0], "reads and creations");
    Ok(())
}

#[tokio::test]
async fn a_request_for_lists_gets_all_of_them_with_what_vanished() -> Result<()> {
    let scene = Scene::new().await?;
    for name in ["stays", "goes"] {
        create(&scene.services(), service(name)).await?;
    }
    let (_reader, mut seen, _) = reading(&scene.kube).await?;
    // The stalled watches are of no help.
    scene.server.stall_watches(Matching::any());
    delete(&scene.services(), "goes").await?;
    create(&scene.services(), service("new")).await?;
    scene.server.reset_stats();

    let asked = Instant::now();
    scene.kube.list_anew();

    assert_eq!(services_listed(&mut seen).await?, ["-goes", "new", "stays"]);
    scene.wait_until_all_listed(PATIENCE).await?;
    assert!(asked.elapsed() < LIMITS.lease, "{:?}", asked.elapsed());
    assert!(scene.lists().values().all(|times| *times == 1), "{:?}", scene.lists());
    Ok(())
}

#[tokio::test]
async fn lists_that_are_requested_again_and_again_come_once_a_second() -> Result<()> {
    const ASKING: Duration = Duration::from_secs(3);
    let scene = Scene::new().await?;
    let (_reader, mut seen, _) = reading(&scene.kube).await?;
    let taking = tokio::spawn(async move { while seen.recv().await.is_some() {} });
    scene.server.reset_stats();
    let began = Instant::now();
    while began.elapsed() < ASKING {
        scene.kube.list_anew();
        sleep(Duration::from_millis(10)).await;
    }
    let most = began.elapsed().as_secs() + 1;
    let lists = scene.lists();
    assert!(lists.values().all(|times| (2..=most).contains(times)), "{lists:?}, and {most} at most");
    taking.abort();
    Ok(())
}

#[tokio::test]
async fn while_renewals_fail_a_watch_that_delivers_nothing_is_not_listed_anew() -> Result<()> {
    let scene = Scene::new().await?;
    let (_reader, mut seen, _) = reading(&scene.kube).await?;
    let _renewing = Renewing::start(&scene.kube);
    until(&mut seen, "a renewal", |seen| matches!(seen, Seen::Lease(_)).then_some(())).await?;
    let taking = tokio::spawn(async move { while seen.recv().await.is_some() {} });
    let writes = Matching::any().user(USER).writes().resource("leases");
    scene.server.trouble(writes, Effect::Answer(500), Often::Always);
    scene.server.stall_watches(Matching::any());
    scene.server.reset_stats();
    sleep(LIMITS.lease * 3).await;
    assert!(scene.requests_of(Verb::Watch, "leases") >= 4, "{:?}", scene.server.stats());
    assert!(scene.lists().values().all(|times| *times == 0), "{:?}", scene.lists());
    taking.abort();
    Ok(())
}

#[tokio::test]
async fn a_list_of_an_older_state_has_all_types_listed() -> Result<()> {
    let mut scene = Scene::new().await?;
    create(&scene.services(), service("old")).await?;
    let saved = scene.server.save()?;
    let (_reader, mut seen, _) = reading(&scene.kube).await?;
    create(&scene.services(), service("new")).await?;
    until(&mut seen, "a change", |seen| matches!(seen, Seen::Service(_)).then_some(())).await?;
    scene.server.reset_stats();

    // Only one watch gets 410 and lists. All others may continue: nothing has happened to them.
    let one = Matching::any().user(USER).verb(Verb::Watch).resource("services");
    scene.server.trouble(one, Effect::Answer(410), Often::Next(1));
    scene.go_back(&saved)?;

    assert_eq!(services_listed(&mut seen).await?, ["-new", "old"]);
    scene.wait_until_all_listed(PATIENCE).await?;
    // After that, all is quiet.
    let taking = tokio::spawn(async move { while seen.recv().await.is_some() {} });
    sleep(LIMITS.lease).await;
    let lists = scene.lists();
    assert!(lists.values().all(|times| (1..=2).contains(times)), "{lists:?}");
    taking.abort();
    Ok(())
}

#[tokio::test]
async fn after_the_store_went_back_everything_is_listed_without_a_request() -> Result<()> {
    const NODES: u64 = 100;
    let mut scene = Scene::new().await?;
    for name in ["stays", "deleted"] {
        create(&scene.services(), service(name)).await?;
    }
    let (_reader, mut seen, _) = reading(&scene.kube).await?;
    let renewing = Renewing::start(&scene.kube);
    until(&mut seen, "a renewal", |seen| matches!(seen, Seen::Lease(_)).then_some(())).await?;
    let saved = scene.server.save()?;
    delete(&scene.services(), "deleted").await?;
    create(&scene.services(), service("created")).await?;
    // The versions get so far ahead that no watch reaches them again within this test.
    for number in 0..NODES {
        let name = format!("n{number}");
        let object = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
        scene.server.load_object(object)?;
    }
    let (mut nodes, mut leases) = (0, false);
    until(&mut seen, "all Nodes, and a renewal after them", |seen| {
        match seen {
            Seen::Node { .. } => nodes += 1,
            Seen::Lease(record) => {
                leases |= record.version.as_str().parse::<u64>().is_ok_and(|version| version > NODES);
            }
            _ => {}
        }
        (nodes == NODES && leases).then_some(())
    })
    .await?;

    scene.go_back(&saved)?;

    // This node continues with its Lease, which went back too.
    drop(renewing);
    delete(&scene.leases(), "a").await?;
    let _renewing = Renewing::start(&scene.kube);
    let back = Instant::now();
    let mut missing = NODES + 1;
    until(&mut seen, "the end of all that is gone", |seen| {
        match seen {
            Seen::NodeGone(_) => missing -= 1,
            Seen::ServiceGone(name) if &*name.name == "created" => missing -= 1,
            _ => {}
        }
        (missing == 0).then_some(())
    })
    .await?;
    // The time is twice half a lease without a change, and the time for a new connection.
    assert!(back.elapsed() < LIMITS.lease * 2, "{:?}", back.elapsed());
    Ok(())
}

#[tokio::test]
async fn a_watch_that_is_refused_again_and_again_is_followed_by_a_list() -> Result<()> {
    let scene = Scene::new().await?;
    let (_reader, mut seen, _) = reading(&scene.kube).await?;
    scene.server.reset_stats();
    let watches = Matching::any().user(USER).verb(Verb::Watch).resource("services");
    scene.server.trouble(watches.clone(), Effect::Answer(500), Often::Always);
    // The open connections end.
    scene.server.drop_connections_of(USER);
    services_listed(&mut seen).await?;
    assert_eq!(scene.requests_of(Verb::List, "services"), 1);
    assert!(scene.requests_of(Verb::Watch, "services") >= 4, "{:?}", scene.server.stats());
    Ok(())
}
