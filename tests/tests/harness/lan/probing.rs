//! The probe notices gaps, names the sources of answers, and invents nothing.

use std::time::{Duration, SystemTime};

use anyhow::Result;
use vipward_tests::{
    agent::{ip, net},
    frames::Mac,
    lan::{Host, Lan, Nic, Responder},
    measure::{ArpProbe, ProbeMode},
};

use super::PATIENCE;

const INTERVAL: Duration = Duration::from_millis(1);
const VIP_MAC: Mac = Mac([2, 0, 0, 0, 0, 0x10]);

fn client_and_server(name: &str) -> Result<(Lan, Host, Host)> {
    let lan = Lan::new(name)?;
    let client = lan.host("client", Nic::new(net(1)).mac(Mac::local(1)))?;
    let server = lan.host("server", Nic::new(net(2)).mac(Mac::local(2)))?;
    Ok((lan, client, server))
}

#[test]
fn a_gap_of_five_milliseconds_is_noticed() -> Result<()> {
    let (_lan, client, server) = client_and_server("gap")?;
    let responder = Responder::start(&server, "eth0", ip(10), VIP_MAC)?;
    let probe = ArpProbe::start(&client, "eth0", ip(10), INTERVAL, ProbeMode::Broadcast)?;
    probe.wait_for_requests(100, PATIENCE)?;
    let before = SystemTime::now();

    // On a busy machine the probe may sleep through a gap. The test
    // makes gaps until the probe sends a request in one.
    let gap = Duration::from_millis(5);
    let mut asked_in_gap = 0;
    for _ in 0..50 {
        let ignored_before = responder.counts().ignored;
        responder.pause_for(gap);
        probe.wait_for_requests(50, PATIENCE)?;
        probe.wait_for_answers(20, PATIENCE)?;
        asked_in_gap = responder.counts().ignored - ignored_before;
        if asked_in_gap >= 4 {
            break;
        }
    }
    assert!(asked_in_gap >= 4, "in no gap were there four requests; the last had {asked_in_gap}");

    let report = probe.stop()?;
    let counts = responder.stop()?;
    assert_eq!(report.answered(), counts.answered, "{report}");
    assert_eq!(report.unanswered().len(), counts.ignored, "{report}");
    assert!(report.longest_gap() >= Duration::from_millis(4), "{report}");
    assert!(report.longest_gap() <= Duration::from_millis(7), "{report}");
    assert_eq!(report.between(SystemTime::UNIX_EPOCH, before).unanswered(), [], "{report}");
    Ok(())
}
