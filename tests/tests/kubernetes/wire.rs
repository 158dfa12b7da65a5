//! Wire failover: nodes that die are replaced in a fraction of a second, and nothing else moves.

mod status;

use std::{
    hint,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use nix::sys::signal::Signal;
use serde_json::Value;
use vipward_common::{ETHERTYPE_WIRE, SipKey, WireFields, WireFrame, WireType};
use vipward_tests::{
    agent::VIP,
    cluster::{Cluster, ClusterOptions, MANAGEMENT, NodeId, PATIENCE, SEGMENT, ServiceSpec, Watch, scenario},
    frames::{Arp, Family, Mac},
    kit::{thread_time, wait_until},
    lan::{Flood, Lost, Way, Wire},
};

/// Time in which a node that dies is replaced, on a busy machine. By its Lease alone that takes 3.5 s
/// or more.
const SOON: Duration = Duration::from_millis(2_500);
/// Longest time in which two nodes may leave a few requests unanswered while one yields to the other.
const A_MOMENT: Duration = Duration::from_millis(20);
/// Time for late effects.
const AFTERWARDS: Duration = Duration::from_secs(2);
const NICS: [&str; 2] = [SEGMENT, MANAGEMENT];

fn nodes(nodes: u8) -> ClusterOptions {
    ClusterOptions::with_wire(nodes, 1)
}

/// Returns all interfaces of all nodes. Two nodes ping each other over both.
fn all_nics(cluster: &Cluster) -> Vec<(NodeId, &'static str)> {
    cluster.ids().into_iter().flat_map(|id| NICS.map(|nic| (id, nic))).collect()
}

/// Makes the key, has a holder of the VIPs of both families, and waits until it may be expired by its
/// monitors.
fn begin(cluster: &mut Cluster) -> Result<NodeId> {
    cluster.make_wire_key()?;
    cluster.create_service(&ServiceSpec::dual_stack("web"))?;
    let holder = cluster.wait_until_all_held(&Family::vips())?;
    cluster.make_client_known()?;
    // What loses frames for a moment is over before anyone looks.
    for (id, nic) in all_nics(cluster) {
        cluster.member(id)?.host.lose_nothing(nic)?;
    }
    cluster.wait_until_witnessed(holder)?;
    Ok(holder)
}

/// Switches the holder off, and checks that another node answers soon.
fn switch_the_holder_off(name: &str, options: ClusterOptions) -> Result<()> {
    scenario(name, options, |cluster| {
        let old = begin(cluster)?;
        let new = cluster.replace_dead(old, AFTERWARDS, SOON)?;
        for vip in Family::vips() {
            assert_eq!(cluster.holder(vip)?, Some(new));
        }
        Ok(())
    })
}

#[test]
fn one_of_three_nodes_that_loses_power_is_replaced_in_a_fraction_of_a_second() -> Result<()> {
    switch_the_holder_off("wire3", nodes(3))
}

#[test]
fn one_of_two_nodes_that_loses_power_is_replaced_in_a_fraction_of_a_second() -> Result<()> {
    switch_the_holder_off("wire2", nodes(2))
}

#[test]
fn by_default_a_node_that_loses_power_is_replaced_before_its_lease_shows_it() -> Result<()> {
    switch_the_holder_off("wiredef", ClusterOptions { nodes: 3, ..ClusterOptions::default() })
}

#[test]
fn no_client_notices_that_a_holders_agent_is_killed_and_restarted() -> Result<()> {
    // On a busy machine an agent takes seconds to begin. By the Lease nothing moves so soon.
    let (lease, margin) = (Duration::from_secs(20), Duration::from_secs(1));
    scenario("wirekill", ClusterOptions { lease, margin, ..nodes(3) }, |cluster| {
        let holder = begin(cluster)?;
        let watch = cluster.watch(&Family::vips())?;
        for _ in 0..2 {
            watch.step(format!("kill -9 on {holder}"));
            cluster.kill9(holder)?;
            watch.let_pass(AFTERWARDS)?;
            cluster.start_agent(holder)?;
            cluster.wait_until_renewing(holder)?;
            watch.let_pass(AFTERWARDS)?;
        }

        let seen = watch.stop()?;
        for vip in Family::vips() {
            seen.assert_seamless(vip);
            assert_eq!(cluster.holder(vip)?, Some(holder));
        }
        cluster.wait_until_witnessed(holder)
    })
}

/// Lets trouble come over a cluster. Checks that the VIPs of both families stay with their holder and are
/// answered throughout, and that its monitors still watch it.
fn nothing_moves(
    name: &str,
    options: ClusterOptions,
    trouble: impl FnOnce(&mut Cluster, &Watch, NodeId) -> Result<()>,
) -> Result<()> {
    scenario(name, options, |cluster| {
        let holder = begin(cluster)?;
        let before = (cluster.session(holder)?, cluster.places(&Family::vips())?);
        let watch = cluster.watch(&Family::vips())?;

        trouble(cluster, &watch, holder)?;
        cluster.wait_until_witnessed(holder)?;

        watch.stop()?.assert_all_seamless();
        assert_eq!((cluster.session(holder)?, cluster.places(&Family::vips())?), before);
        Ok(())
    })
}

fn other_than(cluster: &Cluster, holder: NodeId) -> Result<NodeId> {
    cluster.ids().into_iter().find(|id| *id != holder).context("there is one node")
}

fn session_number(cluster: &Cluster, holder: NodeId) -> Result<u64> {
    let session = cluster.session(holder)?.context("it has a session")?;
    let (_, session) = session.split_once('/').context("the session follows the node's name")?;
    Ok(u64::from_str_radix(session, 16)?)
}

/// Returns pings of a holder, and expiry notices for it, by an unknown host that lacks only the key.
fn forged(cluster: &Cluster, holder: NodeId) -> Result<Vec<Vec<u8>>> {
    let session = session_number(cluster, holder)?;
    let wid = cluster.wire_offer(other_than(cluster, holder)?)?["wid"].clone();
    let wid = u64::from_str_radix(wid.as_str().context("it has a number")?, 16)?;
    let from = cluster.rogue.mac(SEGMENT)?;
    let frame = |kind, number| {
        let fields = WireFields { holder: session, wid, sent_ns: number, ..WireFields::default() };
        let frame = WireFrame::new(kind, 1, &fields, SipKey { k0: number, k1: 0 });
        [&holder.mac().0[..], &from.0, &ETHERTYPE_WIRE.to_be_bytes(), &frame.to_bytes()].concat()
    };
    Ok((0..512).flat_map(|number| [frame(WireType::Ping, number), frame(WireType::Ended, number)]).collect())
}

#[test]
fn no_client_notices_trouble_on_the_wire() -> Result<()> {
    /// Ten times as long as a monitor needs to find a holder unresponsive.
    const A_WHILE: Duration = Duration::from_secs(3);
    const FORGED_A_SECOND: u32 = 100_000;
    nothing_moves("wirecalm", nodes(3), |cluster, watch, holder| {
        let monitor = other_than(cluster, holder)?;
        watch.step(format!("{holder} and {monitor} no longer receive each other"));
        for (at, from) in [(holder, monitor), (monitor, holder)] {
            for nic in NICS {
                let lost = Lost {
                    from: Some(cluster.member(from)?.host.mac(nic)?),
                    ethertype: Some(ETHERTYPE_WIRE),
                    share: None,
                };
                cluster.member(at)?.host.lose(nic, Way::In, lost)?;
            }
        }
        watch.let_pass(A_WHILE)?;
        watch.step("one frame of ten between monitors and holders is lost");
        let lost = Lost { ethertype: Some(ETHERTYPE_WIRE), share: Some(0.1), from: None };
        for (id, nic) in all_nics(cluster) {
            cluster.member(id)?.host.lose(nic, Way::In, lost)?;
        }
        watch.let_pass(A_WHILE)?;
        for (id, nic) in all_nics(cluster) {
            cluster.member(id)?.host.lose_nothing(nic)?;
        }

        watch.step("a rogue forges frames");
        let refused = || {
            let metrics = cluster.page(holder, "/metrics")?.good()?;
            let tag = r#"vipward_wire_frames_total{outcome="refused_tag"} "#;
            let count = metrics.lines().find_map(|line| line.strip_prefix(tag)).context("no such metric")?;
            Ok::<u64, anyhow::Error>(count.parse()?)
        };
        let before = refused()?;
        let flood = Flood::start(&cluster.rogue, SEGMENT, forged(cluster, holder)?, FORGED_A_SECOND)?;
        watch.let_pass(A_WHILE)?;
        let sent = flood.stop()?;
        watch.step(format!("it has sent {sent}"));
        wait_until(PATIENCE, "the program to have refused most of them", || {
            Ok(refused()? - before > sent / 2)
        })?;

        watch.step("all CPUs are busy");
        busy(|| watch.let_pass(A_WHILE))
    })
}

/// Does something while every CPU has something else to do.
fn busy<T>(work: impl FnOnce() -> T) -> T {
    let ends = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 * thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while !ends.load(Ordering::Relaxed) {
                    hint::spin_loop();
                }
            });
        }
        let done = work();
        ends.store(true, Ordering::Relaxed);
        done
    })
}

/// Checks that a holder whose frames to its monitors are lost is replaced. It yields to the first
/// announcement, because its program received an expiry notice before.
fn a_holder_seems_dead(name: &str, is_stopped: bool) -> Result<()> {
    scenario(name, nodes(3), |cluster| {
        let old = begin(cluster)?;
        let watch = cluster.watch(&Family::vips())?;
        if is_stopped {
            watch.step(format!("the agent on {old} is stopped"));
            cluster.member_mut(old)?.agent_mut()?.signal(Signal::SIGSTOP)?;
        }
        let mute = watch.step(format!("{old} answers no ping"));
        // An answer over any shared segment is a sign of life, so all are cut.
        let lost = Lost { ethertype: Some(ETHERTYPE_WIRE), ..Lost::default() };
        for nic in NICS {
            cluster.member(old)?.host.lose(nic, Way::Out, lost)?;
        }
        let new = cluster.wait_until_all_held_by_another(&Family::vips(), old)?;
        watch.wait_until_all_received_by(&Family::vips(), new)?;
        for nic in NICS {
            cluster.member(old)?.host.lose_nothing(nic)?;
        }
        watch.let_pass(AFTERWARDS)?;
        if is_stopped {
            cluster.member_mut(old)?.agent_mut()?.signal(Signal::SIGCONT)?;
            cluster.wait_until_renewing(old)?;
        }

        let seen = watch.stop()?;
        for vip in Family::vips() {
            seen.assert_flows_again(vip, mute, SOON);
            seen.assert_no_doubles_after_announcement(vip, new, mute);
            let wire = seen.wire.vip(vip)?;
            assert_eq!(wire.moves().len(), 1, "{seen}");
            // An agent that runs stops answering as soon as it knows that its session has ended.
            let gap = wire.longest_gap();
            assert!(!is_stopped || gap <= A_MOMENT, "its program answers until it yields: {seen}");
            assert_eq!(cluster.holder(vip)?, Some(new));
        }
        Ok(())
    })
}

#[test]
fn a_holder_that_seems_dead_answers_until_its_successor_announces() -> Result<()> {
    a_holder_seems_dead("wiremute", false)
}

#[test]
fn a_holder_whose_agent_is_stopped_too_yields_because_its_program_was_notified() -> Result<()> {
    a_holder_seems_dead("wirepause", true)
}

#[test]
fn a_holder_that_is_cut_off_from_the_segment_is_replaced_and_does_not_answer_again() -> Result<()> {
    scenario("wirecut", nodes(3), |cluster| {
        let old = begin(cluster)?;
        let watch = cluster.watch(&Family::vips())?;
        let cut = watch.step(format!("{old} is cut off from the segment, and not from the API server"));
        for way in [Way::In, Way::Out] {
            cluster.member(old)?.host.lose(SEGMENT, way, Lost::default())?;
        }
        let new = cluster.wait_until_all_held_by_another(&Family::vips(), old)?;
        watch.wait_until_all_received_by(&Family::vips(), new)?;
        watch.step("the cable is whole again");
        cluster.member(old)?.host.lose_nothing(SEGMENT)?;
        watch.let_pass(AFTERWARDS)?;

        let seen = watch.stop()?;
        for vip in Family::vips() {
            seen.assert_flows_again(vip, cut, cluster.options().failover_limit());
            seen.assert_no_doubles(vip);
            assert_eq!(cluster.holder(vip)?, Some(new));
        }
        Ok(())
    })
}

#[test]
fn a_new_key_and_a_lost_one_move_nothing() -> Result<()> {
    scenario("rotation", nodes(3), |cluster| {
        let holder = begin(cluster)?;
        let watch = cluster.watch(&Family::vips())?;

        watch.step("the key is replaced");
        let (code, said) = cluster.vipward_wire(&["rotate", "--linger", "1s"])?;
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains("has key 2 alone"), "{said}");
        let has = |offer: &Value, keys: &Value| offer["keys"] == *keys;
        cluster.wait_for_wire_offers("the new key alone", |_, offer| has(offer, &serde_json::json!([2])))?;
        watch.let_pass(AFTERWARDS)?;
        assert_eq!(cluster.wire_offer(holder)?["mode"], "notice");

        watch.step("the key is lost");
        let secret = cluster.wire_secret();
        ensure!(cluster.admin().delete(&secret)?, "{secret} is not there");
        cluster.wait_for_wire_offers("the mode off", |_, offer| offer["mode"] != "notice")?;
        watch.let_pass(AFTERWARDS)?;
        let (code, said) = cluster.vipward_wire(&["init"])?;
        assert_eq!(code, Some(0), "{said}");
        cluster.wait_until_witnessed(holder)?;
        watch.let_pass(AFTERWARDS)?;

        watch.stop()?.assert_all_seamless();
        for vip in Family::vips() {
            assert_eq!(cluster.holder(vip)?, Some(holder));
        }
        Ok(())
    })
}

/// Returns all that a node shows, each text with its name.
fn texts(cluster: &Cluster, id: NodeId) -> Result<Vec<(&'static str, String)>> {
    let agent = cluster.member(id)?.agent().context("it was started")?;
    Ok(vec![
        ("log", agent.transcript()),
        ("status", cluster.status(id)?.to_string()),
        ("metrics", cluster.page(id, "/metrics")?.good()?),
        ("debug state", cluster.page(id, "/debug/state")?.good()?),
        ("lease", cluster.leases()?.iter().map(Value::to_string).collect()),
    ])
}

#[test]
fn the_key_is_shown_nowhere() -> Result<()> {
    let env = vec![("RUST_LOG".to_owned(), "debug".to_owned())];
    scenario("secrecy", ClusterOptions { env, ..nodes(2) }, |cluster| {
        begin(cluster)?;
        let secret = cluster.wire_secret();
        let object = cluster.admin().get(&secret)?.context("it was made")?;
        let encoded = object["data"]["1"].as_str().context("it has a key")?;
        let key = decoded(encoded)?;
        ensure!(key.len() == 32, "32 digits are expected");
        let bytes: Vec<u8> = (0..16)
            .map(|place| u8::from_str_radix(&key[2 * place..2 * place + 2], 16).context("digits"))
            .collect::<Result<_>>()?;
        let words = bytes.chunks(8).map(|half| u64::from_le_bytes(half.try_into().expect("eight bytes")));
        let mut forms = vec![encoded.to_owned(), key.clone(), format!("{bytes:?}")];
        for word in words {
            forms.extend([word.to_string(), format!("{word:x}"), format!("{:x}", word.swap_bytes())]);
        }
        for id in cluster.ids() {
            for (what, text) in texts(cluster, id)? {
                assert!(!text.is_empty(), "{what}");
                let shown = forms.iter().find(|form| text.contains(form.as_str()));
                assert!(shown.is_none(), "{id}: the {what} has the key as {shown:?}");
            }
        }
        Ok(())
    })
}

/// Returns the text that a Secret has as base64.
fn decoded(text: &str) -> Result<String> {
    let k8s_openapi::ByteString(bytes) = serde_json::from_value(text.into())?;
    String::from_utf8(bytes).context("it is text")
}

/// Returns an expiry notice for a holder, by an unknown host that has the key.
fn false_end(cluster: &Cluster, holder: NodeId) -> Result<Vec<u8>> {
    let session = session_number(cluster, holder)?;
    let secret = cluster.admin().get(&cluster.wire_secret())?.context("the Secret")?;
    let text = secret["data"]["1"].as_str().context("key 1")?;
    let key = u128::from_str_radix(decoded(text)?.trim(), 16)?.to_be_bytes();
    let fields = WireFields { holder: session, ..WireFields::default() };
    let frame = WireFrame::new(WireType::Ended, 1, &fields, SipKey::from_bytes(key));
    let from = cluster.rogue.mac(SEGMENT)?;
    Ok([&holder.mac().0[..], &from.0, &ETHERTYPE_WIRE.to_be_bytes(), &frame.to_bytes()].concat())
}

/// Returns announcements of VIPs in the name of a peer, to the holder alone.
fn announced_in_a_peers_name(cluster: &Cluster, holder: NodeId) -> Result<Vec<Vec<u8>>> {
    let peer = other_than(cluster, holder)?.mac();
    Ok(vec![Arp::gratuitous_request(peer, VIP, Mac::ZERO).to(holder.mac()).to_bytes()])
}

/// Returns the value of a metric without labels, or with the labels that its name has.
fn metric(cluster: &Cluster, id: NodeId, name: &str) -> Result<u64> {
    let page = cluster.page(id, "/metrics")?.good()?;
    let value = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let value = value.with_context(|| format!("{name} is not on the page"))?;
    Ok(value.trim_end_matches(".0").parse()?)
}

fn is_ready(cluster: &Cluster, id: NodeId) -> Result<bool> {
    Ok(cluster.page(id, "/readyz")?.status == 200)
}

#[test]
fn a_forged_end_of_a_session_costs_a_second_at_most_and_two_end_wire_failover_for_a_while() -> Result<()> {
    /// A renewal, and the requests before the VIP is answered again, on a busy machine.
    const AT_MOST: Duration = Duration::from_millis(1_800);
    const FALSE_ENDS: &str = "vipward_wire_false_ends_total";
    const REFUSED: &str = r#"vipward_wire_frames_total{outcome="refused_key"}"#;
    scenario("wirelie", nodes(3), |cluster| {
        let holder = begin(cluster)?;
        let session = cluster.session(holder)?;
        let rogue = Wire::open(&cluster.rogue, SEGMENT)?;
        let end = false_end(cluster, holder)?;
        let watch = cluster.watch(&[VIP])?;

        watch.step(
            "an unknown host without the key announces the VIP in the name of a peer, ten times a second",
        );
        let flood = Flood::start(&cluster.rogue, SEGMENT, announced_in_a_peers_name(cluster, holder)?, 10)?;
        let mut calm = Vec::new();
        let mut begun = watch.step("nothing else");
        watch.let_pass(AFTERWARDS)?;
        for number in 1..=2 {
            let lies = watch.step(format!("one with the key says that the session of {holder} has ended"));
            calm.push((begun, lies));
            rogue.send(&end)?;
            wait_until(PATIENCE, "the false word to be counted", || {
                Ok(metric(cluster, holder, FALSE_ENDS)? == number)
            })?;
            wait_until(PATIENCE, "the node to be ready", || is_ready(cluster, holder))?;
            watch.let_pass(AT_MOST)?;
            begun = watch.step("it must be over by now");
            watch.let_pass(AFTERWARDS * 2)?;
            let offer = cluster.wire_offer(holder)?;
            assert_eq!(offer.is_null(), number == 2, "{number}: {offer}");
        }
        let refused = metric(cluster, holder, REFUSED)?;
        watch.step("it says so once more");
        rogue.send(&end)?;
        wait_until(PATIENCE, "the word to be refused", || Ok(metric(cluster, holder, REFUSED)? > refused))?;
        watch.let_pass(AFTERWARDS)?;
        calm.push((begun, watch.step("the end")));
        flood.stop()?;

        assert_eq!(metric(cluster, holder, FALSE_ENDS)?, 2);
        let state = r#"vipward_wire_state{state="false_ends"}"#;
        assert_eq!(metric(cluster, holder, state)?, 1);
        assert!(is_ready(cluster, holder)?);
        let seen = watch.stop()?;
        let report = seen.wire.vip(VIP)?;
        for (from, to) in calm {
            let gaps = report.between(from, to).gaps();
            assert!(gaps.is_empty(), "{gaps:?}: {seen}");
        }
        assert!(report.longest_gap() <= AT_MOST, "{seen}");
        assert_eq!((cluster.session(holder)?, cluster.holder(VIP)?), (session, Some(holder)));
        Ok(())
    })
}

#[test]
fn an_agent_that_starts_after_a_forged_end_answers_under_either_policy() -> Result<()> {
    for policy in ["hold", "stop"] {
        scenario(&format!("wirelie{policy}"), nodes(3), |cluster| {
            let holder = begin(cluster)?;
            let end = false_end(cluster, holder)?;
            cluster.kill9(holder)?;
            Wire::open(&cluster.rogue, SEGMENT)?.send(&end)?;
            cluster.set_args(&["--wire=1", "--policy", policy]);
            cluster.start_agent(holder)?;
            cluster.wait_until_renewing(holder)?;
            wait_until(PATIENCE, "the node to be ready", || is_ready(cluster, holder))?;
            let watch = cluster.watch(&[VIP])?;
            let peer = announced_in_a_peers_name(cluster, holder)?;
            let flood = Flood::start(&cluster.rogue, SEGMENT, peer, 10)?;
            watch.let_pass(AFTERWARDS)?;
            flood.stop()?;
            watch.stop()?.assert_seamless(VIP);
            assert_eq!(cluster.holder(VIP)?, Some(holder));
            Ok(())
        })?;
    }
    Ok(())
}

#[test]
fn a_flood_of_foreign_frames_costs_the_thread_that_pings_nothing() -> Result<()> {
    const A_SECOND: u32 = 65_000;
    const FLOODED: Duration = Duration::from_secs(5);
    scenario("wireflood", nodes(2), |cluster| {
        let holder = begin(cluster)?;
        let from = cluster.rogue.mac(SEGMENT)?;
        let foreign = |to: Mac, start: &[u8]| {
            [&to.0[..], &from.0, &ETHERTYPE_WIRE.to_be_bytes(), start, &[0; 52]].concat()
        };
        let frames = vec![foreign(Mac::BROADCAST, b"none"), foreign(holder.mac(), b"none")];
        let pid = cluster.member(holder)?.agent().context("it was started")?.pid()?;
        let before = thread_time(pid, "vipward-wire")?;
        let flood = Flood::start(&cluster.rogue, SEGMENT, frames, A_SECOND)?;
        thread::sleep(FLOODED);
        let sent = flood.stop()?;
        let took = thread_time(pid, "vipward-wire")?.saturating_sub(before);
        println!("{sent} frames cost {took:?} of {FLOODED:?}");
        assert!(sent > u64::from(A_SECOND), "{sent} frames are no flood");
        assert!(took < FLOODED / 50, "{took:?} of {FLOODED:?} for {sent} frames");
        Ok(())
    })
}
