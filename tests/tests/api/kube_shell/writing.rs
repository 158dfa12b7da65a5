//! Leases and claims, and the outcomes of requests.

use std::collections::BTreeMap;

use tokio::time::Instant;
use vipward_tests::apiserver::{Cut, Effect, Matching, Often};

use super::*;

fn writes(resource: &str) -> Matching {
    Matching::any().user(USER).writes().resource(resource)
}

#[tokio::test]
async fn a_claim_is_created_changed_and_deleted_by_compare_and_swap() -> Result<()> {
    let scene = Scene::new().await?;
    let mut writing = Writing::start(&scene.kube)?;
    assert_eq!(writing.read_claim(VIP).await?, Outcome::Missing);
    let at_nothing = claim(VIP, Expected::At("1".into()), 1);
    assert_eq!(writing.write_claim(at_nothing).await?, Outcome::Missing);

    let first = done(writing.write_claim(claim(VIP, Expected::Absent, 1)).await?)?;
    assert_eq!(first.state, ClaimState::Held(holder("a")));
    assert_eq!(writing.write_claim(claim(VIP, Expected::Absent, 1)).await?, Outcome::Conflict);

    let second = claim(VIP, Expected::At(first.version.clone()), 2);
    let second = done(writing.write_claim(second).await?)?;
    assert_ne!(second.version, first.version);
    assert_eq!(writing.read_claim(VIP).await?, Outcome::Done(second.clone()));

    let late = claim(VIP, Expected::At(first.version.clone()), 3);
    assert_eq!(writing.write_claim(late).await?, Outcome::Conflict);
    assert_eq!(writing.delete_claim(VIP, first.version).await?, Outcome::Conflict);
    assert_eq!(writing.read_claim(VIP).await?, Outcome::Done(second.clone()), "nothing was changed");

    // A user has changed the claim, and this node has not seen the change yet.
    merge(&scene.claims(), &VIP.to_string(), json!({"spec": {"cause": "edited"}})).await?;
    let unaware = claim(VIP, Expected::At(second.version.clone()), 3);
    assert_eq!(writing.write_claim(unaware).await?, Outcome::Conflict);
    let second = done(writing.read_claim(VIP).await?)?;
    assert_eq!((second.note.cause.as_str(), second.epoch), ("edited", Epoch(2)));

    assert_eq!(writing.delete_claim(VIP, second.version.clone()).await?, Outcome::Done(()));
    assert_eq!(writing.read_claim(VIP).await?, Outcome::Missing);
    assert_eq!(writing.delete_claim(VIP, second.version).await?, Outcome::Missing);
    Ok(())
}

#[tokio::test]
async fn a_claim_of_a_build_before_is_gone_when_the_agent_deletes_it_too() -> Result<()> {
    let scene = Scene::new().await?;
    let mut writing = Writing::start(&scene.kube)?;
    done(writing.write_claim(claim(VIP, Expected::Absent, 1)).await?)?;
    let finalizers = json!({"metadata": {"finalizers": ["vipward.io/claim"]}});
    merge(&scene.claims(), &VIP.to_string(), finalizers).await?;
    delete(&scene.claims(), &VIP.to_string()).await?;
    let record = done(writing.read_claim(VIP).await?)?;
    assert!(record.deleting);
    assert_eq!(writing.delete_claim(VIP, record.version).await?, Outcome::Done(()));
    assert_eq!(writing.read_claim(VIP).await?, Outcome::Missing);
    Ok(())
}

#[tokio::test]
async fn what_others_put_on_a_claim_stays_there() -> Result<()> {
    let scene = Scene::new().await?;
    let mut writing = Writing::start(&scene.kube)?;
    done(writing.write_claim(claim(VIP, Expected::Absent, 1)).await?)?;
    let theirs = json!({"metadata": {
        "labels": {"team": "x"},
        "annotations": {"example.com/note": "y", "vipward.io/move-to": "b"},
        "finalizers": ["example.com/backup"],
    }});
    merge(&scene.claims(), &VIP.to_string(), theirs).await?;
    let record = done(writing.read_claim(VIP).await?)?;
    assert_eq!(record.move_to, Some("b".into()));

    let record = done(writing.write_claim(claim(VIP, Expected::At(record.version), 2)).await?)?;
    assert_eq!(record.move_to, None, "the wish is cleared");
    let object = scene.claims().get(&VIP.to_string()).await?.metadata;
    assert_eq!(object.labels.unwrap_or_default()["team"], "x");
    assert_eq!(object.annotations, Some(BTreeMap::from([("example.com/note".to_owned(), "y".to_owned())])));
    assert_eq!(object.finalizers.unwrap_or_default(), ["example.com/backup"]);

    assert_eq!(writing.delete_claim(VIP, record.version).await?, Outcome::Done(()));
    let object = scene.claims().get(&VIP.to_string()).await?.metadata;
    assert!(object.deletion_timestamp.is_some());
    assert_eq!(object.finalizers.unwrap_or_default(), ["example.com/backup"]);
    Ok(())
}

#[tokio::test]
async fn a_conflict_on_the_segment_is_shown_and_changes_nothing_else() -> Result<()> {
    let scene = Scene::new().await?;
    let mut writing = Writing::start(&scene.kube)?;
    assert_eq!(writing.show_conflict("there is no such claim").await?, Outcome::Missing);
    let first = done(writing.write_claim(claim(VIP, Expected::Absent, 1)).await?)?;
    let record = done(writing.show_conflict("02:00:00:00:00:66 claims it").await?)?;
    assert_eq!(
        record.shows.as_ref().and_then(|shows| shows.conflict.as_deref()),
        Some("02:00:00:00:00:66 claims it")
    );
    assert_eq!((&record.state, record.epoch), (&first.state, first.epoch));
    let object = scene.claims().get(&VIP.to_string()).await?;
    assert_eq!(object.data["status"]["conflict"], "02:00:00:00:00:66 claims it");
    // The reported version is the one for the next write.
    done(writing.write_claim(claim(VIP, Expected::At(record.version), 1)).await?)?;
    Ok(())
}

#[tokio::test]
async fn a_lease_is_renewed_expired_and_then_no_more_renewed() -> Result<()> {
    let scene = Scene::new().await?;
    let mut writing = Writing::start(&scene.kube)?;
    assert_eq!(writing.read_lease("a").await?, Outcome::Missing);
    let first = done(writing.write_lease(lease("a", Expected::Absent, Some(1))).await?)?;
    assert_eq!((first.session, first.duration), (Some(session(1)), LIMITS.lease));
    assert_eq!(writing.write_lease(lease("a", Expected::Absent, Some(1))).await?, Outcome::Conflict);
    let renewed = done(writing.write_lease(lease("a", Expected::At(first.version), Some(1))).await?)?;

    let node = scene.api(None, "", "v1", "Node").get("a").await?;
    let owner = scene.leases().get("a").await?.metadata.owner_references.unwrap_or_default();
    assert_eq!(owner.first().map(|owner| owner.uid.clone()), node.metadata.uid, "it goes with the Node");

    let (kube, _kubeconfig) = way(&scene.server.url(), "secret", "b").await?;
    let mut other = Writing::start(&kube)?;
    let mut expiring = lease("a", Expected::At(renewed.version.clone()), None);
    expiring.ended = vec![session(1)];
    done(other.write_lease(expiring).await?)?;

    let late = lease("a", Expected::At(renewed.version), Some(1));
    assert_eq!(writing.write_lease(late).await?, Outcome::Conflict);
    let record = done(writing.read_lease("a").await?)?;
    assert_eq!((record.session, record.ended), (None, vec![session(1)]));
    Ok(())
}

#[tokio::test]
async fn a_lease_without_a_node_is_made_all_the_same() -> Result<()> {
    let scene = Scene::new().await?;
    let (kube, _kubeconfig) = way(&scene.server.url(), "secret", "b").await?;
    let mut writing = Writing::start(&kube)?;
    done(writing.write_lease(lease("b", Expected::Absent, Some(1))).await?)?;
    assert_eq!(scene.leases().get("b").await?.metadata.owner_references, None);
    Ok(())
}

#[tokio::test]
async fn a_write_whose_answer_is_lost_is_unknown_whether_it_was_done_or_not() -> Result<()> {
    let scene = Scene::new().await?;
    let mut writing = Writing::start(&scene.kube)?;
    let effects = [
        (Effect::DropAnswer, true, "done, and the connection closed"),
        (Effect::Drop, false, "the connection closed"),
        (Effect::Answer(500), false, "an internal error"),
        (Effect::Answer(503), false, "unavailable"),
        (Effect::Hang, false, "no answer"),
    ];
    for (number, (effect, is_done, description)) in (20_u8..).zip(effects) {
        let vip = IpAddr::from([192, 0, 2, number]);
        scene.server.trouble(writes("virtualips"), effect, Often::Next(1));
        let began = Instant::now();
        assert_eq!(
            writing.write_claim(claim(vip, Expected::Absent, 1)).await?,
            Outcome::Unknown,
            "{description}"
        );
        assert!(began.elapsed() < LIMITS.lease, "{description}: {:?}", began.elapsed());
        let found = writing.read_claim(vip).await?;
        assert_eq!(matches!(found, Outcome::Done(_)), is_done, "{description}: {found:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_request_that_was_turned_away_is_repeated_when_there_is_time() -> Result<()> {
    let scene = Scene::new().await?;
    let mut writing = Writing::start(&scene.kube)?;
    scene.server.trouble(writes("virtualips"), Effect::Answer(429), Often::Next(1));
    done(writing.write_claim(claim(VIP, Expected::Absent, 1)).await?)?;

    let always = scene.server.trouble(writes("virtualips"), Effect::Answer(429), Often::Always);
    let other = IpAddr::from([192, 0, 2, 11]);
    let began = Instant::now();
    assert_eq!(writing.write_claim(claim(other, Expected::Absent, 1)).await?, Outcome::Unknown);
    assert!(began.elapsed() < LIMITS.lease, "{:?}", began.elapsed());
    scene.server.end_trouble(always);
    Ok(())
}

#[tokio::test]
async fn no_number_of_claims_or_of_others_leases_delays_a_renewal() -> Result<()> {
    let scene = Scene::new().await?;
    let mut writing = Writing::start(&scene.kube)?;
    scene.server.trouble(writes("virtualips"), Effect::Hang, Often::Always);
    let reads = Matching::any().user(USER).verb(Verb::Get).resource("leases");
    scene.server.trouble(reads, Effect::Hang, Often::Always);
    for number in 0..64 {
        writing.requests.read_lease(format!("node-{number}").as_str().into());
    }
    for number in 0..255 {
        writing.requests.write_claim(claim(IpAddr::from([192, 0, 2, number]), Expected::Absent, 1));
    }
    let began = Instant::now();
    let first = done(writing.write_lease(lease("a", Expected::Absent, Some(1))).await?)?;
    done(writing.write_lease(lease("a", Expected::At(first.version), Some(1))).await?)?;
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    Ok(())
}

#[tokio::test]
async fn a_renewal_that_has_no_answer_leaves_time_for_another() -> Result<()> {
    let scene = Scene::new().await?;
    let mut writing = Writing::start(&scene.kube)?;
    let first = done(writing.write_lease(lease("a", Expected::Absent, Some(1))).await?)?;
    scene.server.cut_off(USER, Cut::Silent);
    let began = Instant::now();
    let again = lease("a", Expected::At(first.version), Some(1));
    assert_eq!(writing.write_lease(again.clone()).await?, Outcome::Unknown);
    assert!(began.elapsed() <= LIMITS.lease * 3 / 4, "{:?}", began.elapsed());
    scene.server.let_in(USER);
    let began = Instant::now();
    done(writing.write_lease(again).await?)?;
    assert!(began.elapsed() < LIMITS.lease / 2, "over a new connection: {:?}", began.elapsed());
    Ok(())
}
