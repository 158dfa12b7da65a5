//! Listing and watching.

use std::collections::BTreeSet;

use anyhow::ensure;
use tokio::time::{Instant, sleep};
use vipward::shell::kube::ReadError;
use vipward_tests::apiserver::{Cut, Effect, Matching, Often};

use super::*;

/// Waits until the agent has requested this number of watches of `resource`.
pub(super) async fn watches(scene: &Scene, resource: &str, wanted: u64, limit: Duration) -> Result<Duration> {
    let began = Instant::now();
    while scene.requests_of(Verb::Watch, resource) < wanted {
        let asked = scene.requests_of(Verb::Watch, resource);
        ensure!(began.elapsed() < limit, "{asked} watches of {resource} after {limit:?}, not {wanted}");
        sleep(Duration::from_millis(5)).await;
    }
    Ok(began.elapsed())
}

#[tokio::test]
async fn everything_is_listed_page_by_page_and_then_watched() -> Result<()> {
    let scene = Scene::new().await?;
    for number in 0..1_201 {
        let mut object = service(&format!("web-{number}"));
        object["metadata"]["namespace"] = "default".into();
        scene.server.load_object(object)?;
    }
    let (_reader, mut seen, notified) = reading(&scene.kube).await?;
    let names: BTreeSet<_> = notified
        .iter()
        .filter_map(|seen| match seen {
            Seen::Service(record) => Some(record.name.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(names.len(), 1_201);
    assert_eq!(scene.requests_of(Verb::List, "services"), 3, "pages");

    merge(
        &scene.services(),
        "web-7",
        json!({"metadata": {"annotations": {"vipward.io/addresses": "192.0.2.7"}}}),
    )
    .await?;
    until(&mut seen, "the change", |seen| match seen {
        Seen::Service(record) => (record.annotations.addresses.as_deref() == Some("192.0.2.7")).then_some(()),
        _ => None,
    })
    .await?;
    delete(&scene.services(), "web-7").await?;
    until(&mut seen, "the end", |seen| match seen {
        Seen::ServiceGone(name) => (name.to_string() == "default/web-7").then_some(()),
        _ => None,
    })
    .await?;
    assert_eq!(scene.requests_of(Verb::List, "services"), 3, "no list since");
    Ok(())
}

#[tokio::test]
async fn what_vanished_while_changes_were_missed_is_reported_after_a_new_list() -> Result<()> {
    let scene = Scene::new().await?;
    for name in ["stays", "goes"] {
        create(&scene.services(), service(name)).await?;
    }
    let (_reader, mut seen, _) = reading(&scene.kube).await?;

    scene.server.cut_off(USER, Cut::Closed);
    delete(&scene.services(), "goes").await?;
    create(&scene.services(), service("new")).await?;
    scene.server.compact();
    scene.server.let_in(USER);

    let mut notified = Vec::new();
    until(&mut seen, "the new list", |seen| {
        match seen {
            Seen::Service(record) => notified.push(record.name.name.to_string()),
            Seen::ServiceGone(name) => notified.push(format!("-{}", name.name)),
            _ => {}
        }
        matches!(seen, Seen::Synced(Resource::Services)).then_some(())
    })
    .await?;
    notified.sort();
    let notified: Vec<_> = notified.iter().filter(|name| **name != "kubernetes").collect();
    assert_eq!(notified, ["-goes", "new", "stays"]);
    Ok(())
}

#[tokio::test]
async fn an_api_server_that_goes_away_and_comes_back_costs_no_list() -> Result<()> {
    let mut scene = Scene::new().await?;
    let (_reader, mut seen, _) = reading(&scene.kube).await?;
    scene.server.reset_stats();
    scene.server.stop()?;
    until(&mut seen, "trouble", |seen| match seen {
        Seen::Unreadable { resource: Resource::Services, error } => {
            matches!(**error, ReadError::Failed { .. }).then_some(())
        }
        _ => None,
    })
    .await?;
    scene.server.start_again()?;
    until(&mut seen, "the end of it", |seen| match seen {
        Seen::Readable { resource: Resource::Services } => Some(()),
        _ => None,
    })
    .await?;
    create(&scene.services(), service("web")).await?;
    until(&mut seen, "a change", |seen| matches!(seen, Seen::Service(_)).then_some(())).await?;
    assert_eq!(scene.requests_of(Verb::List, "services"), 0);
    Ok(())
}

#[tokio::test]
async fn a_definition_that_is_missing_is_named_with_its_manifest_and_waited_for() -> Result<()> {
    let scene = Scene::without_definition().await?;
    let (_reader, mut seen) = Reader::start(&scene.kube, Resource::OF_AGENT, Reading::default())?;
    let text = until(&mut seen, "trouble", |seen| match seen {
        Seen::Unreadable { resource: Resource::VirtualIps, error } => Some(error.to_string()),
        _ => None,
    })
    .await?;
    assert!(
        text.contains("virtualips.vipward.io") && text.contains("deploy/kubernetes/base/crd.yaml"),
        "{text}"
    );
    scene.server.load_manifest(&crd_yaml())?;
    until(&mut seen, "its list", |seen| matches!(seen, Seen::Synced(Resource::VirtualIps)).then_some(()))
        .await
}

/// Kubernetes has `ServiceCIDR`s from 1.33 on.
#[tokio::test]
async fn an_api_server_without_an_optional_type_is_read_as_one_that_has_none() -> Result<()> {
    for (resource, plural) in [(Resource::ServiceCidrs, "servicecidrs"), (Resource::VipPools, "vippools")] {
        let scene = Scene::new().await?;
        let all = Matching::any().resource(plural);
        scene.server.trouble(all, Effect::Answer(404), Often::Always);
        let (_reader, mut seen, notified) = reading(&scene.kube).await?;
        assert!(notified.iter().any(|seen| matches!(seen, Seen::Synced(it) if *it == resource)));
        let is_trouble =
            |seen: &Seen| matches!(seen, Seen::Unreadable { .. } | Seen::ServiceCidr { .. } | Seen::Pool(_));
        assert!(!notified.iter().any(is_trouble), "{notified:?}");
        create(&scene.services(), service("web")).await?;
        until(&mut seen, "a change", |seen| match seen {
            Seen::Service(_) => Some(Ok(())),
            other if is_trouble(other) => Some(Err(anyhow::anyhow!("{other:?}"))),
            _ => None,
        })
        .await??;
        assert_eq!(scene.requests_of(Verb::List, plural), 1, "it asks for {resource} again too soon");
    }
    Ok(())
}

/// Creates the pool `lan`.
async fn create_pool(scene: &Scene) -> Result<()> {
    let pools = scene.api(None, "vipward.io", "v1alpha1", "VIPPool");
    let pool = json!({
        "apiVersion": "vipward.io/v1alpha1", "kind": "VIPPool", "metadata": {"name": "lan"},
        "spec": {"addresses": ["192.0.2.64/29"]},
    });
    create(&pools, pool).await?;
    Ok(())
}

#[tokio::test]
async fn pools_that_may_not_be_listed_any_more_stay_as_they_were_read() -> Result<()> {
    let scene = Scene::new().await?;
    create_pool(&scene).await?;
    let (_reader, mut seen, notified) = reading(&scene.kube).await?;
    assert!(
        notified.iter().any(|seen| matches!(seen, Seen::Pool(pool) if *pool.name == *"lan")),
        "{notified:?}"
    );
    scene.server.trouble(Matching::any().resource("vippools"), Effect::Answer(403), Often::Always);
    scene.kube.list_anew();
    let mut is_reported = false;
    until(&mut seen, "the end of the refused list", |seen| match seen {
        Seen::PoolGone(name) => panic!("{name} is gone"),
        Seen::Unreadable { resource: Resource::VipPools, error } => {
            // The watch may be refused before the list.
            let text = error.to_string();
            assert!(text.contains("not allowed to") && text.contains("vippools.vipward.io"), "{text}");
            is_reported = true;
            None
        }
        Seen::Synced(Resource::VipPools) => Some(()),
        _ => None,
    })
    .await?;
    assert!(is_reported);
    Ok(())
}

/// Without its pools, a controller would free what they keep.
#[tokio::test]
async fn a_controller_waits_for_the_definition_of_pools() -> Result<()> {
    let scene = Scene::new().await?;
    let all = Matching::any().resource("vippools");
    scene.server.trouble(all, Effect::Answer(404), Often::Next(2));
    let needs = Reading { is_controllers: true, ..Reading::default() };
    let (_reader, mut seen) = Reader::start(&scene.kube, Resource::OF_CONTROLLER, needs)?;
    let mut is_reported = false;
    until(&mut seen, "the list of pools", |seen| match seen {
        Seen::Unreadable { resource: Resource::VipPools, .. } => {
            is_reported = true;
            None
        }
        Seen::Synced(Resource::VipPools) => Some(()),
        _ => None,
    })
    .await?;
    assert!(is_reported, "the list ended before the type was known");
    Ok(())
}

/// An API server refuses the first watch of a type that it has just learnt with 429.
#[tokio::test]
async fn an_api_server_that_is_busy_is_a_problem_only_when_it_refuses_twice_in_a_row() -> Result<()> {
    for (lists, watches_, wanted) in [(1, 1, ""), (2, 1, "trouble, its end"), (0, 2, "trouble, its end")] {
        let scene = Scene::new().await?;
        for (verb, refusals) in [(Verb::List, lists), (Verb::Watch, watches_)] {
            let all = Matching::any().verb(verb).resource("vippools");
            scene.server.trouble(all, Effect::Answer(429), Often::Next(refusals));
        }
        let (_reader, mut seen, mut notified) = reading(&scene.kube).await?;
        watches(&scene, "vippools", u64::from(watches_) + 1, PATIENCE).await?;
        create_pool(&scene).await?;
        until(&mut seen, "the pool", |seen| {
            notified.push(seen.clone());
            matches!(seen, Seen::Pool(_)).then_some(())
        })
        .await?;
        let notified: Vec<_> = notified
            .iter()
            .filter_map(|seen| match seen {
                Seen::Unreadable { .. } => Some("trouble"),
                Seen::Readable { .. } => Some("its end"),
                _ => None,
            })
            .collect();
        assert_eq!(notified.join(", "), wanted, "after {lists} and {watches_} refusals");
    }
    Ok(())
}

/// Returns a slice of `default/kubernetes` with this address.
fn slice_of_api_servers(address: &str) -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": "servers", "labels": {"kubernetes.io/service-name": "kubernetes"}},
        "endpoints": [{"addresses": [address]}],
    })
}

#[tokio::test]
async fn slices_notify_the_addresses_of_api_servers_at_once_and_endpoints_when_they_are_read() -> Result<()> {
    let scene = Scene::new().await?;
    let slices = scene.api(Some("default"), "discovery.k8s.io", "v1", "EndpointSlice");
    create(&slices, slice_of_api_servers("192.0.2.20")).await?;
    let (mut reader, mut seen, notified) = reading(&scene.kube).await?;
    let of_servers = |seen: &Seen| match seen {
        Seen::ApiServers { slice, addresses } if **slice == *"servers" => Some(format!("{addresses:?}")),
        _ => None,
    };
    let is_endpoints = |seen: &Seen| matches!(seen, Seen::Slice(_) | Seen::SliceGone { .. });
    assert_eq!(notified.iter().filter_map(of_servers).collect::<Vec<_>>(), ["[192.0.2.20]"]);
    assert!(!notified.iter().any(is_endpoints), "{notified:?}");
    merge(&slices, "servers", json!({"endpoints": [{"addresses": ["192.0.2.21"]}]})).await?;
    assert_eq!(until(&mut seen, "the change", of_servers).await?, "[192.0.2.21]");

    reader.read(Resource::EndpointSlices);
    let name = until(&mut seen, "the endpoints", |seen| match seen {
        Seen::Slice(record) if *record.slice == *"servers" => Some(record.service.to_string()),
        _ => None,
    });
    assert_eq!(name.await?, "default/kubernetes");
    until(&mut seen, "the list", |seen| matches!(seen, Seen::Synced(Resource::EndpointSlices)).then_some(()))
        .await?;
    delete(&slices, "servers").await?;
    scene.kube.list_anew();
    let mut notified = [false; 3];
    until(&mut seen, "its end, and another list", |seen| {
        notified[0] |= of_servers(seen).is_some_and(|addresses| addresses == "[]");
        notified[1] |= matches!(seen, Seen::SliceGone { slice, .. } if **slice == *"servers");
        notified[2] |= matches!(seen, Seen::Synced(Resource::EndpointSlices));
        (notified == [true; 3]).then_some(())
    })
    .await
}

/// Renews every 200 ms, whatever the outcome.
pub(super) async fn renew(kube: Kube) -> Result<()> {
    let mut writing = Writing::start(&kube)?;
    let mut expected = match writing.write_lease(lease("a", Expected::Absent, Some(1))).await? {
        Outcome::Done(record) => Expected::At(record.version),
        other => bail!("no Lease: {other:?}"),
    };
    loop {
        sleep(Duration::from_millis(200)).await;
        if let Outcome::Done(record) = writing.write_lease(lease("a", expected.clone(), Some(1))).await? {
            expected = Expected::At(record.version);
        }
    }
}

#[tokio::test]
async fn watches_that_are_stalled_while_writes_work_are_noticed_within_the_lease_duration() -> Result<()> {
    let scene = Scene::new().await?;
    let (_reader, mut seen, _) = reading(&scene.kube).await?;
    let renewing = tokio::spawn(renew(scene.kube.clone()));
    until(&mut seen, "a renewal", |seen| matches!(seen, Seen::Lease(_)).then_some(())).await?;
    scene.server.reset_stats();
    let stall = scene.server.stall_watches(Matching::any());
    for resource in ["leases", "services", "virtualips"] {
        watches(&scene, resource, 1, LIMITS.lease).await?;
    }
    create(&scene.services(), service("web")).await?;
    scene.server.end_trouble(stall);
    until(&mut seen, "what was missed", |seen| matches!(seen, Seen::Service(_)).then_some(())).await?;
    assert_eq!(scene.server.stats().verb(Verb::List), 0, "nothing was listed anew");
    renewing.abort();
    Ok(())
}

#[tokio::test]
async fn renewals_without_an_answer_make_all_watches_begin_anew() -> Result<()> {
    let scene = Scene::new().await?;
    let (_reader, mut seen, _) = reading(&scene.kube).await?;
    let renewing = tokio::spawn(renew(scene.kube.clone()));
    until(&mut seen, "a renewal", |seen| matches!(seen, Seen::Lease(_)).then_some(())).await?;
    scene.server.reset_stats();
    let lost = Matching::any().user(USER).writes().resource("leases");
    let lost = scene.server.trouble(lost, Effect::Hang, Often::Always);
    watches(&scene, "services", 1, LIMITS.lease).await?;
    scene.server.reset_stats();
    scene.server.end_trouble(lost);
    // After answers have returned, no task waits any longer.
    watches(&scene, "services", 1, PATIENCE).await?;
    renewing.abort();
    Ok(())
}
