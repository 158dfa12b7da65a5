//! Two hosts that answer, and one that hears itself.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::thread;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};
use nix::sys::signal::Signal;
use vipward_tests::{
    agent::{Agent, LogLine, NODE, PATIENCE, ROGUE, vip_status},
    frames::{Mac, Message},
    kit::wait_until,
    lan::{
        Frame, Host,
        http::{self, PAGES},
    },
    measure::{ArpProbe, ProbeMode},
};

use super::{CASES, Stage, answerers, in_each};
use crate::doctor::{GREEN, RED, report::doctor_at};

/// The time after a first take within which an answer gives the VIP back (RFC 5227, `ANNOUNCE_WAIT`).
const PROVISIONAL: Duration = Duration::from_secs(2);
/// Time in which two rounds of listening end.
const TWO_ROUNDS: Duration = Duration::from_secs(65);
/// A peer that is not on the LAN.
const PEER: Mac = Mac([2, 0, 0, 0, 0, 0x77]);
/// Time in which the announcements of two hosts are counted, and their most: one a second of each.
const COUNTED_FOR: Duration = Duration::from_secs(10);
const MOST_ANNOUNCED: usize = 20;

/// Longest time until one of two peers that hold a VIP yields it.
const SETTLED_WITHIN: Duration = Duration::from_secs(5);
/// Time for which a client asks.
const ASKED_FOR: Duration = Duration::from_secs(5);

/// Two peers, each of which holds the VIP, on a LAN that is whole again.
struct Parted {
    elder: Agent,
    younger: Agent,
    probe: ArpProbe,
}

impl Parted {
    /// Has the elder take the VIP, cuts its port, has the younger take the VIP, and lets the elder's frames
    /// pass again. Both get further lines of their configuration. `meanwhile` runs before the port passes
    /// frames.
    fn on(
        stage: &Stage,
        [elder, younger]: [&str; 2],
        meanwhile: impl FnOnce(&mut Agent) -> Result<()>,
    ) -> Result<Self> {
        let scene = &stage.scene;
        scene.add_gateway(stage.case.family)?;
        let mut elder = stage.start(&format!("peers: ['{ROGUE}']\n{elder}"))?;
        stage.wait_until_answered(NODE, &elder, PATIENCE)?;
        let port = stage.port(&scene.node)?;
        port.change(|rules| rules.blocks = true)?;
        let younger = stage.start_on(&scene.rogue, &format!("peers: ['{NODE}']\n{younger}"))?;
        let probe = stage.probe(ProbeMode::Broadcast)?;
        stage.wait_until_answered(ROGUE, &younger, PATIENCE)?;
        // Until then, the first answer of the elder gives the VIP back.
        thread::sleep(PROVISIONAL);
        meanwhile(&mut elder)?;
        port.change(|rules| rules.blocks = false)?;
        Ok(Self { elder, younger, probe })
    }

    /// Checks who answers from some time on, for as long as a client asks.
    fn check_answered_by(self, expected: &[Mac]) -> Result<[Agent; 2]> {
        thread::sleep(SETTLED_WITHIN);
        let from = SystemTime::now();
        thread::sleep(ASKED_FOR);
        let Self { elder, younger, probe } = self;
        let report = probe.stop()?;
        let found = answerers(&report, from);
        let logs = || format!("{report}\nelder:\n{}\nyounger:\n{}", elder.transcript(), younger.transcript());
        ensure!(found == expected.iter().copied().collect(), "{found:?} answered: {}", logs());
        Ok([elder, younger])
    }
}

#[test]
fn of_two_peers_that_were_parted_the_one_that_held_the_vip_first_keeps_it() -> Result<()> {
    in_each(&CASES, "doubled", |stage| {
        let parted = Parted::on(stage, ["", ""], |_| Ok(()))?;
        let [elder, younger] = parted.check_answered_by(&[NODE])?;
        let yields = |line: &LogLine| line.message().ends_with("and this node yields it");
        let logs = || format!("elder:\n{}\nyounger:\n{}", elder.transcript(), younger.transcript());
        ensure!(younger.logs()?.iter().filter(|line| yields(line)).count() == 1, "{}", logs());
        ensure!(!elder.logs()?.iter().any(yields), "{}", logs());
        drop(elder);
        stage.wait_until_answered(ROGUE, &younger, PATIENCE)
    })
}

#[test]
fn of_two_peers_one_stays_when_the_process_of_the_elder_was_stopped() -> Result<()> {
    in_each(&CASES, "paused", |stage| {
        let parted = Parted::on(stage, ["fence: {policy: hold}\n", ""], |elder| {
            elder.signal(Signal::SIGSTOP)?;
            thread::sleep(Duration::from_secs(20));
            elder.signal(Signal::SIGCONT)
        })?;
        thread::sleep(SETTLED_WITHIN);
        let from = SystemTime::now();
        thread::sleep(ASKED_FOR);
        let report = parted.probe.stop()?;
        let found = answerers(&report, from);
        let (elder, younger) = (parted.elder.transcript(), parted.younger.transcript());
        ensure!(found.len() == 1, "{found:?} answered: {report}\nelder:\n{elder}\nyounger:\n{younger}");
        Ok(())
    })
}

#[test]
fn a_vip_that_is_forced_on_one_host_stays_there() -> Result<()> {
    in_each(&CASES, "forced", |stage| {
        let parted = Parted::on(stage, ["", ""], |_| Ok(()))?;
        parted.younger.write_config(&forced(stage, NODE))?;
        parted.check_answered_by(&[ROGUE]).map(drop)
    })
}

#[test]
fn a_vip_that_is_forced_on_both_is_an_alarm_for_as_long_as_two_answer() -> Result<()> {
    in_each(&CASES, "both", |stage| {
        let mut parted = Parted::on(stage, ["", ""], |_| Ok(()))?;
        for (agent, peer) in [(&mut parted.elder, ROGUE), (&mut parted.younger, NODE)] {
            agent.write_config(&forced(stage, peer))?;
            agent.signal(Signal::SIGHUP)?;
        }
        let agents = parted.check_answered_by(&[NODE, ROGUE])?;
        let received = stage.listen(&stage.scene.client)?.capture(COUNTED_FOR)?;
        let announced = received.iter().filter_map(Frame::message).filter(Message::is_announcement).count();
        ensure!(announced <= MOST_ANNOUNCED, "{announced} announcements");
        for (agent, host) in agents.iter().zip([&stage.scene.node, &stage.scene.rogue]) {
            is_alarmed(stage, agent, host).with_context(|| agent.transcript())?;
        }
        let [elder, younger] = agents;
        drop(younger);
        wait_until(PATIENCE, "the end of the alarm", || {
            let row = vip_status(&elder, stage.vip, "eth0")?;
            let page = http::get(&stage.scene.node, PAGES, "/readyz/vips")?;
            Ok(row["answering"] == true && page.status == 200)
        })
    })
}

/// Returns the configuration of a host that holds the VIP in any case.
fn forced(Stage { case, vip, .. }: &Stage, peer: Mac) -> String {
    format!("attach: {}\nvips: [{{address: '{vip}', force: true}}]\npeers: ['{peer}']\n", case.attach)
}

fn is_alarmed(stage: &Stage, agent: &Agent, host: &Host) -> Result<()> {
    let row = vip_status(agent, stage.vip, "eth0")?;
    let words = (&row["role"], &row["answering"], &row["silent_because"]);
    ensure!(*words.0 == "held" && *words.1 == false, "{row:#}");
    ensure!(*words.2 == "doubled (another host answers too)", "{row:#}");
    let page = http::get(host, PAGES, "/readyz/vips")?;
    ensure!(page.status == 503 && page.body.contains("doubled"), "{}", page.body);
    let metrics = http::get(host, PAGES, "/metrics")?.good()?;
    ensure!(metrics.contains("\nvipward_conflicts_active 1\n"), "{metrics}");
    let doctor = doctor_at(host, &agent.options.pin_dir, &[])?;
    doctor.assert("doubled", None, RED, &[&stage.vip.to_string()], &["younger hold yields"]);
    ensure!(agent.logs()?.iter().filter(|line| line.message().starts_with("doubled: ")).count() == 1);
    Ok(())
}

#[test]
fn statements_and_claims_of_an_unknown_host_take_no_vip_away() -> Result<()> {
    in_each(&CASES, "stated", |stage| {
        let scene = &stage.scene;
        scene.add_gateway(stage.case.family)?;
        let agent = stage.start(&format!("peers: ['{PEER}']\n"))?;
        stage.wait_until_answered(NODE, &agent, PATIENCE)?;
        thread::sleep(PROVISIONAL);
        let wire = stage.listen(&scene.rogue)?;
        for _ in 0..20 {
            wire.send(&statement(stage.vip, ROGUE))?;
            // A claim in the peer's name, which the program reports as a peer's.
            wire.send(&claim(stage.vip, PEER, ROGUE))?;
            thread::sleep(Duration::from_millis(100));
        }
        ensure!(stage.holds(&agent), "{}", agent.transcript());
        // The same from the peer's MAC shows that the frames are right.
        wire.send(&statement(stage.vip, PEER))?;
        wire.send(&claim(stage.vip, PEER, PEER))?;
        wait_until(PATIENCE, "the VIP to be yielded", || Ok(!stage.holds(&agent)))
            .with_context(|| agent.transcript())
    })
}

/// Returns a statement of the greatest age but that of a forced VIP, from a MAC.
fn statement(vip: IpAddr, from: Mac) -> Vec<u8> {
    let vip = match vip {
        IpAddr::V4(vip) => vip.to_ipv6_mapped(),
        IpAddr::V6(vip) => vip,
    };
    let header = [&NODE.0[..], &from.0, &[0x88, 0xb6], b"VPH1", &[0, 1]].concat();
    [&header[..], &vip.octets(), &[0xff, 0xff, 0xff, 0xfe]].concat()
}

/// Returns an announcement of `mac` that another host may have sent.
fn claim(vip: IpAddr, mac: Mac, source: Mac) -> Vec<u8> {
    Message::announcement(mac, vip).sent_by(source).to_bytes()
}

#[test]
fn a_port_that_reflects_raises_no_alarm() -> Result<()> {
    in_each(&CASES, "reflected", |stage| {
        let scene = &stage.scene;
        scene.add_gateway(stage.case.family)?;
        stage.port(&scene.node)?.change(|rules| rules.reflects = true)?;
        let agent = stage.start("announce: {refresh: 2s}\nprobe: {repeat: 2s}\n")?;
        stage.wait_until_answered(NODE, &agent, PATIENCE)?;
        let probe = stage.probe(ProbeMode::Broadcast)?;
        thread::sleep(TWO_ROUNDS);
        let report = probe.stop()?;
        let log = || format!("{report}\nthe agent's log:\n{}", agent.transcript());
        ensure!(report.unanswered().is_empty(), "{}", log());
        ensure!(vip_status(&agent, stage.vip, "eth0")?["answering"] == true, "{}", log());
        let is_alarm = |line: &LogLine| {
            // A busy machine is no finding about the segment.
            let is_warning =
                matches!(line.level(), "WARN" | "ERROR") && line.message() != "heartbeat is late";
            is_warning || line.has("kind", "conflict")
        };
        ensure!(!agent.logs()?.iter().any(is_alarm), "{}", log());
        let doctor = doctor_at(&scene.node, &agent.options.pin_dir, &[])?;
        doctor.assert("own-frames", Some("eth0"), GREEN, &["none comes"], &[]);
        Ok(())
    })
}

/// A probe that comes back shortly before the host's answer must not hide the answer.
#[test]
fn a_vip_of_a_host_is_left_to_it_behind_a_port_that_reflects() -> Result<()> {
    in_each(&CASES, "reflected-use", |stage| {
        let scene = &stage.scene;
        scene.add_gateway(stage.case.family)?;
        stage.give_to_the_rogue()?;
        stage.port(&scene.node)?.change(|rules| rules.reflects = true)?;
        let probe = stage.probe(ProbeMode::Broadcast)?;
        let agent = stage.start("")?;
        thread::sleep(Duration::from_secs(4));
        let found = answerers(&probe.stop()?, SystemTime::UNIX_EPOCH);
        ensure!(found == BTreeSet::from([ROGUE]), "{found:?} answered: {}", agent.transcript());
        Ok(())
    })
}

#[test]
fn another_machine_with_this_hosts_mac_is_named() -> Result<()> {
    in_each(&CASES, "cloned", |stage| {
        let scene = &stage.scene;
        scene.add_gateway(stage.case.family)?;
        let clone = stage.listen(&scene.rogue)?;
        let asks = Message::request(NODE, stage.case.family.ip(77), stage.case.family.ip(78)).to_bytes();
        let agent = stage.start("")?;
        let is_named = |line: &LogLine| line.message().contains("perhaps a cloned machine");
        wait_until(TWO_ROUNDS + PATIENCE, "the clone to be named", || {
            clone.send(&asks)?;
            Ok(agent.logs()?.iter().any(is_named))
        })
        .with_context(|| agent.transcript())?;
        ensure!(agent.logs()?.iter().filter(|line| is_named(line)).count() == 1, "{}", agent.transcript());
        let doctor = doctor_at(&scene.node, &agent.options.pin_dir, &[])?;
        doctor.assert("own-frames", Some("eth0"), RED, &["a cloned machine"], &["its own MAC"]);
        Ok(())
    })
}
