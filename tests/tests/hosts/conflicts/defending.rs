//! Probes of a held VIP find rivals that only answer.

use anyhow::Result;
use vipward_tests::{
    agent::{LogLine, PATIENCE, ROGUE, Scene, VIP, net},
    frames::Mac,
    lan::{Nic, Responder},
};

use super::{begins, bound, conflicts_of, ends};
use crate::doctor::{RED, report::doctor_at};

#[test]
fn rivals_that_only_answer_by_unicast_are_all_named_and_reported_when_they_are_gone() -> Result<()> {
    let scene = Scene::new("silent")?;
    let macs = [0x41, 0x42].map(|last| Mac([2, 0, 0, 0, 0, last]));
    let hosts = macs.map(|mac| scene.lan.host("rival", Nic::new(net(mac.0[5])).mac(mac)));
    let mut agent = scene.agent(&format!(
        "{{vips: [{{address: {VIP}, force: true}}], probe: {{repeat: 1s}}, conflicts: {{quiet: 4s}}}}"
    ))?;
    // The kernel announces no address that is added in this way.
    scene.rogue.add_address("eth0", bound(VIP)?)?;
    agent.wait_for_log(PATIENCE, "the rival", |line| begins(line, "held", VIP, ROGUE))?;
    let status = agent.status()?;
    let offender = &status["offenders"][0];
    assert_eq!(
        (&offender["mac"], &offender["kind"]),
        (&ROGUE.to_string().into(), &"conflict".into()),
        "{status:#}"
    );
    let report = doctor_at(&scene.node, &agent.options.pin_dir, &[])?;
    report.assert("unknown-hosts", None, RED, &[&ROGUE.to_string(), "claims 192.0.2.10"], &["who-has"]);

    // All answer at once. The program reports one of them, and counts the others.
    let mut responders = Vec::new();
    for (host, mac) in hosts.into_iter().zip(macs) {
        let host = host?;
        responders.push((Responder::start(&host, "eth0", VIP, mac)?, host));
    }
    for mac in macs {
        let names =
            |line: &LogLine| line.has("kind", "conflict") && line.has("vip", VIP) && line.has("mac", mac);
        agent.wait_for_log(PATIENCE, &format!("that {mac} answers too"), names)?;
    }
    for (responder, _) in responders {
        responder.stop()?;
    }
    scene.rogue.delete_address("eth0", bound(VIP)?)?;
    agent.wait_for_log(PATIENCE, "the end", |line| ends(line, VIP, "no claims any more"))?;
    let notified = conflicts_of(&agent, VIP)?;
    assert_eq!(notified.len(), 4, "one conflict with three rivals: {notified:?}");
    Ok(())
}
