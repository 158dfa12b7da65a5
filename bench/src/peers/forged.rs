//! A rogue that claims the VIP, by the frames of a host that announces it.
//!
//! The rogue only claims: it answers no request. Its kernel takes what a deceived client sends to
//! it, and so counts it.

use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result};

use super::{
    daemons::NIC,
    run::Run,
    scenes::{Values, all_at_once},
    seen::{right_after, share_at},
    site::{Site, TARGET},
    system::System,
};
use crate::report::Unit;
use vipward_tests::{
    agent::{PATIENCE, VIP},
    frames::{Arp, Mac},
    kit::interrupt,
    lan::Wire,
    measure::{Datagrams, bind_locally},
};

/// Shortest time in which the rogue claims.
const CLAIMING: Duration = Duration::from_secs(26);
/// Range of the random time after that: the longest interval between two broadcast requests of the
/// client's kernel, which counts it from the first claim.
const PHASE: Duration = Duration::from_secs(8);
/// Longest time until a client is right again: its kernel believes an entry for a minute at most.
const RIGHT_LIMIT: Duration = Duration::from_secs(90);
/// Time after which a client that is right stays so, as no host claims any more.
const LASTING: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    /// Gratuitous reply to everybody, with tha = sha.
    Reply,
    /// Gratuitous request to everybody.
    Request,
}

/// Holder, claims, and whether the holder's daemon was killed just before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Subject {
    system: System,
    killed: bool,
    form: Form,
    per_second: u32,
}

/// Measures all subjects at the same time, in each run: the figures are seconds and shares.
pub(super) fn measure(run: &mut Run<'_>) -> Result<()> {
    for number in 1..=run.runs {
        let subjects = subjects(run.systems);
        run.progress(format!(
            "run {number} of {}: {} s of claims, {} LANs side by side",
            run.runs,
            (CLAIMING + PHASE).as_secs(),
            subjects.len()
        ));
        for (subject, values) in all_at_once(subjects, claims) {
            let values = values.with_context(|| format!("of {subject:?}, in run {number}"))?;
            for (what, unit, value) in values {
                run.record(&what, unit, subject.system, value);
            }
        }
    }
    Ok(())
}

/// Returns the subjects. The interval of keepalived's advertisements changes nothing here.
fn subjects(systems: &[System]) -> Vec<Subject> {
    let mut subjects = Vec::new();
    for killed in [false, true] {
        for form in [Form::Reply, Form::Request] {
            for per_second in [1, 10] {
                for system in systems.iter().copied().filter(|system| *system != System::KeepalivedFast) {
                    if killed && system != System::Vipward {
                        continue;
                    }
                    subjects.push(Subject { system, killed, form, per_second });
                }
            }
        }
    }
    subjects
}

/// Claims the VIP for a while, and returns where the client's datagrams went.
fn claims(subject: Subject) -> Result<Values> {
    let mut site = Site::start(subject.system, 1)?;
    let holder = site.holder()?;
    let rogue = site.rogue().clone();
    // Its kernel has the address and answers no request for it.
    rogue.set_sysctl("net/ipv4/conf/all/arp_ignore", "8")?;
    bind_locally(&rogue, VIP)?;
    let flow = {
        let mut receivers = site.hosts()?;
        receivers.push(&rogue);
        Datagrams::start(site.client(), TARGET, &receivers)?
    };
    flow.wait_until_received_by(&holder.name, PATIENCE)?;
    if subject.killed {
        site.kill9(&holder)?;
    }

    let wire = Wire::open(&rogue, NIC)?;
    let frame = subject.form.claim(rogue.mac(NIC)?).to_bytes();
    let (from, began) = (SystemTime::now(), Instant::now());
    let end = began + CLAIMING + PHASE.mul_f64(fastrand::f64());
    let pause = Duration::from_secs(1) / subject.per_second;
    let mut due = began;
    let mut last = from;
    while due < end {
        interrupt::check()?;
        thread::sleep(due.saturating_duration_since(Instant::now()));
        last = SystemTime::now();
        wire.send(&frame)?;
        due += pause;
    }
    thread::sleep(end.saturating_duration_since(Instant::now()));
    let until = SystemTime::now();
    flow.wait_until_received_by(&holder.name, RIGHT_LIMIT)?;
    interrupt::pass(LASTING)?;
    let felt = flow.stop()?;

    let right = right_after(&felt, &holder.name, last).context("the client never was right again")?;
    let what = subject.name();
    Ok(vec![
        (format!("{what}: datagrams at the rogue"), Unit::Share, share_at(&felt, rogue.name(), from, until)),
        (format!("{what}: right after the last"), Unit::Seconds, right.as_secs_f64()),
    ])
}

impl Form {
    fn claim(self, mac: Mac) -> Arp {
        match self {
            Self::Reply => Arp::gratuitous_reply(mac, VIP, mac),
            Self::Request => Arp::gratuitous_request(mac, VIP, Mac::ZERO),
        }
    }
}

impl Subject {
    /// Returns what is done, for the name of a row.
    fn name(self) -> String {
        let form = match self.form {
            Form::Reply => "replies",
            Form::Request => "requests",
        };
        let killed = if self.killed { "agent killed, " } else { "" };
        format!("{killed}{form}, {} a second", self.per_second)
    }
}
