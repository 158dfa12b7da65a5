//! Ports that drop what names a VIP as its sender: port security, ARP inspection, spoof filters. A VIP that
//! no host can hear is not called answered, and a host that answers only some senders is no such filter.

use std::net::{IpAddr, Ipv4Addr};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use ipnet::IpNet;
use vipward_tests::{
    agent::{Agent, CLIENT, LogLine, NODE, PATIENCE, ask, vip_status},
    frames::{Family, Message},
    kit::{output_of, wait_until},
    lan::{
        Frame, Host,
        http::{self, PAGES},
    },
};

use super::{CASES, Case, Stage, in_each};
use crate::doctor::{
    GREEN, RED,
    report::{ILL, Report, doctor_at},
};

/// Longest time from a take to the finding.
const AT_A_TAKE: Duration = Duration::from_secs(5);
/// Longest time to the finding for a VIP that is held: it is looked for once a minute.
const WHILE_HELD: Duration = Duration::from_secs(65);
/// Time in which an agent has asked twice about a new VIP.
const TWICE: Duration = Duration::from_secs(6);
const UNHEARD: &str = "unheard: the network drops what this host sends from it";
/// Address in no subnet of the LAN.
const FAR: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 10));

/// Makes the node's port pass only what comes from the node's own addresses. The kernel makes the link-local one
/// a while after the link came up.
fn secure_the_port(stage: &Stage) -> Result<()> {
    let node = stage.scene.node.namespace();
    let is_link_local = |own: &IpNet| matches!(own, IpNet::V6(own) if own.addr().is_unicast_link_local());
    if stage.case.family == Family::V6 {
        wait_until(PATIENCE, "a link-local address", || {
            Ok(node.addresses("eth0")?.iter().any(is_link_local))
        })?;
    }
    let own = node.addresses("eth0")?;
    let allowed = own.iter().map(IpNet::addr).filter(|own| *own != stage.vip).collect();
    stage.port(&stage.scene.node)?.change(|rules| rules.senders = Some(allowed))
}

fn open_the_port(stage: &Stage) -> Result<()> {
    stage.port(&stage.scene.node)?.change(|rules| rules.senders = None)
}

fn answers(agent: &Agent, vip: IpAddr) -> Result<String> {
    let status = vip_status(agent, vip, "eth0")?;
    Ok(status["answers"].as_str().context("no state")?.to_owned())
}

/// Waits until `status` has this state of the VIP, for at most `limit` after `began`.
fn wait_for_answers(
    stage: &Stage,
    agent: &Agent,
    expected: &str,
    (began, limit): (Instant, Duration),
) -> Result<()> {
    let wait = || wait_until(limit + PATIENCE, expected, || Ok(answers(agent, stage.vip)? == expected));
    wait().with_context(|| {
        format!("{:#}; the agent's log:\n{}", agent.status().unwrap_or_default(), agent.transcript())
    })?;
    let took = began.elapsed();
    ensure!(took < limit, "it took {took:?} until {expected}; the agent's log:\n{}", agent.transcript());
    Ok(())
}

/// Returns the number of findings in the log.
fn findings(agent: &Agent) -> Result<usize> {
    let is_one = |line: &&LogLine| line.message().starts_with("unheard: a host answers");
    Ok(agent.logs()?.iter().filter(is_one).count())
}

fn doctor(stage: &Stage, agent: &Agent) -> Result<Report> {
    doctor_at(&stage.scene.node, &agent.options.pin_dir, &[])
}

fn get(stage: &Stage, page: &str) -> Result<http::Answer> {
    http::get(&stage.scene.node, PAGES, page)
}

/// Checks that all that users look at says that the VIP is unheard.
fn assert_unheard(stage: &Stage, agent: &Agent) -> Result<()> {
    let vip = stage.vip.to_string();
    let status = vip_status(agent, stage.vip, "eth0")?;
    ensure!(status["role"] == "held" && status["answering"] == false, "{status:#}");
    ensure!(status["silent_because"] == UNHEARD, "{status:#}");
    let mut table = agent.vipward("status")?;
    table.args(["-o", "table"]);
    let table = output_of(table)?;
    ensure!(table.contains("no: unheard"), "{table}");
    let report = doctor(stage, agent)?;
    let words = ["allowed_address_pairs", "forged transmits", "docs/network.md"];
    report.assert("egress", Some("eth0"), RED, &[&vip], &words);
    ensure!(report.code == ILL, "{report}");
    wait_until(PATIENCE, "no readiness", || {
        let page = get(stage, "/readyz/vips")?;
        Ok(page.status == 503 && page.body.contains(UNHEARD))
    })?;
    let page = get(stage, "/metrics")?.good()?;
    ensure!(page.contains("vipward_vips_unreached{fault=\"unheard\"} 1.0"), "{page}");
    let mut explain = agent.vipward("explain")?;
    let explained = explain.arg(&vip).output().context("failed to run vipward explain")?;
    let explained = String::from_utf8_lossy(&explained.stdout).into_owned();
    ensure!(explained.contains("unheard") && explained.contains("forged transmits"), "{explained}");
    Ok(())
}

fn assert_heard(stage: &Stage, agent: &Agent) -> Result<()> {
    wait_until(PATIENCE, "readiness", || Ok(get(stage, "/readyz")?.status == 200))?;
    doctor(stage, agent)?.assert("egress", Some("eth0"), GREEN, &[], &[]);
    let page = get(stage, "/metrics")?.good()?;
    ensure!(page.contains("vipward_vips_unreached{fault=\"unheard\"} 0.0"), "{page}");
    Ok(())
}

#[test]
fn a_vip_that_is_taken_behind_a_filter_is_found_unheard_also_by_the_next_agent() -> Result<()> {
    in_each(&CASES, "unheard-take", |stage| {
        stage.scene.add_gateway(stage.case.family)?;
        secure_the_port(stage)?;
        let mut agent = stage.start("")?;
        wait_until(PATIENCE, "the VIP to be held", || Ok(stage.holds(&agent)))?;
        let began = Instant::now();
        ensure!(ask(&stage.scene.client, "eth0", stage.vip)?.is_none(), "the filter has no effect");
        wait_for_answers(stage, &agent, "unheard", (began, AT_A_TAKE))?;
        assert_unheard(stage, &agent)?;
        ensure!(findings(&agent)? == 1, "{}", agent.transcript());

        // The next agent does not forget it before it has looked.
        agent.kill9()?;
        ensure!(answers(&agent, stage.vip)? == "unheard", "the pins have it");
        agent.restart()?;
        ensure!(answers(&agent, stage.vip)? == "unheard", "the next agent has it");
        open_the_port(stage)?;
        wait_for_answers(stage, &agent, "yes", (Instant::now(), WHILE_HELD))?;
        assert_heard(stage, &agent)
    })
}

#[test]
fn a_vip_that_is_filtered_later_is_found_unheard_until_the_filter_is_gone() -> Result<()> {
    in_each(&CASES, "unheard-later", |stage| {
        stage.scene.add_gateway(stage.case.family)?;
        let agent = stage.start("")?;
        stage.wait_until_answered(NODE, &agent, PATIENCE)?;
        thread::sleep(TWICE);
        ensure!(answers(&agent, stage.vip)? == "yes", "{}", agent.transcript());
        secure_the_port(stage)?;
        wait_for_answers(stage, &agent, "unheard", (Instant::now(), WHILE_HELD))?;
        assert_unheard(stage, &agent)?;
        open_the_port(stage)?;
        stage.wait_until_answered(NODE, &agent, PATIENCE)?;
        wait_for_answers(stage, &agent, "yes", (Instant::now(), WHILE_HELD))?;
        assert_heard(stage, &agent)?;
        ensure!(findings(&agent)? == 1, "{}", agent.transcript());
        Ok(())
    })
}

/// Setting of a gateway, and true if it answers the VIP then.
type Row = (&'static str, fn(&Host) -> Result<()>, bool);

fn ipv4(setting: &str, value: &str) -> impl Fn(&Host) -> Result<()> {
    let key = format!("net/ipv4/conf/eth0/{setting}");
    let value = value.to_owned();
    move |host| host.set_sysctl(&key, &value)
}

/// Gives a host an address for which others answer, as service proxies do.
fn have(host: &Host, address: IpAddr) -> Result<()> {
    host.set_sysctl("net/ipv4/conf/all/arp_ignore", "1")?;
    host.add_address("lo", IpNet::from(address))
}

/// Returns true if a frame is a question of the node to the client alone, in the name of this address.
fn is_asked_as(frame: &Message, source: IpAddr) -> bool {
    let is_from = frame.sender_address() == Some(source) && frame.sender() == NODE;
    is_from && frame.eth_dst() == CLIENT && frame.asks_for().is_some()
}

/// Returns true if a frame is another host's answer to that question.
fn is_answered_as(frame: &Message, source: IpAddr) -> bool {
    let to = match frame {
        Message::Arp(arp) => IpAddr::from(arp.tpa),
        Message::Nd(nd) => nd.destination.into(),
    };
    frame.answers_for().is_some() && to == source && frame.eth_dst() == NODE
}

/// Checks that the agent asks in the VIP's name, whether it is answered, and that it draws no conclusion.
fn is_no_filter(stage: &Stage, vip: IpAddr, further: &str, answers_vip: bool) -> Result<()> {
    let (at_client, at_node) = (stage.listen(&stage.scene.client)?, stage.listen(&stage.scene.node)?);
    let yaml = format!("vips: [{{address: '{vip}', interface: eth0}}]\n{further}");
    let agent = stage.scene.agent(&yaml)?;
    at_client.expect(PATIENCE, "a question in the VIP's name", |message| is_asked_as(message, vip))?;
    thread::sleep(TWICE);
    let answered = at_node.drain()?.iter().filter_map(Frame::message).any(|it| is_answered_as(&it, vip));
    let log = agent.transcript();
    ensure!(answered == answers_vip, "answered: {answered}; the agent's log:\n{log}");
    ensure!(answers(&agent, vip)? == "yes" && findings(&agent)? == 0, "{log}");
    Ok(())
}

fn are_no_filters(family: Family, vip: IpAddr, rows: &[Row]) -> Result<()> {
    for (what, set, answers_vip) in rows {
        in_each(&[Case { family, attach: "tc" }], "no-filter", |stage| {
            stage.scene.add_gateway(family)?;
            set(&stage.scene.client)?;
            is_no_filter(stage, vip, "", *answers_vip).context(*what)
        })?;
    }
    Ok(())
}

#[test]
fn a_gateway_without_a_route_to_the_vip_is_no_filter() -> Result<()> {
    let rows: [Row; 7] = [
        ("no filter, no route", |_| Ok(()), true),
        ("rp_filter 1, no route", |it| ipv4("rp_filter", "1")(it), false),
        ("rp_filter 2, no route", |it| ipv4("rp_filter", "2")(it), false),
        ("arp_filter, no route", |it| ipv4("arp_filter", "1")(it), false),
        ("arp_ignore 1", |it| ipv4("arp_ignore", "1")(it), true),
        ("arp_ignore 2", |it| ipv4("arp_ignore", "2")(it), false),
        ("the gateway has the VIP", |it| have(it, FAR), false),
    ];
    are_no_filters(Family::V4, FAR, &rows)
}

#[test]
fn a_gateway_with_another_prefix_is_no_filter() -> Result<()> {
    const FAR: &str = "2001:db8:f::10";
    let rows: [Row; 2] = [
        ("no route", |_| Ok(()), true),
        ("the gateway has the VIP", |it| it.add_address("lo", IpNet::from(FAR.parse::<IpAddr>()?)), true),
    ];
    are_no_filters(Family::V6, FAR.parse()?, &rows)
}

#[test]
fn a_neighbour_that_has_the_vip_itself_is_no_filter() -> Result<()> {
    in_each(&[CASES[0]], "neighbour-has-it", |stage| {
        // The service proxy of another host has it, and does not answer for it. The node knows both hosts.
        for (host, last) in [(&stage.scene.client, 1), (&stage.scene.rogue, 3)] {
            have(host, stage.vip)?;
            stage.scene.node.resolve(Ipv4Addr::new(192, 0, 2, last))?;
        }
        is_no_filter(stage, stage.vip, "", false)
    })
}

#[test]
fn a_gateway_that_is_a_peer_and_has_the_vip_is_no_filter() -> Result<()> {
    in_each(&[CASES[0]], "peer-has-it", |stage| {
        // Routes to the pods of nodes have the nodes as gateways, whose service proxies have the VIPs.
        stage.scene.add_gateway(Family::V4)?;
        have(&stage.scene.client, stage.vip)?;
        is_no_filter(stage, stage.vip, &format!("peers: ['{CLIENT}']\n"), false)
    })
}
