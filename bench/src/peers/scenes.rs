//! Crash, planned move, and the death of a daemon whose host lives.

use std::thread;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};

use super::{
    run::Run,
    seen::Seen,
    site::{HOSTS, Holder, Site},
    system::System,
};
use crate::report::Unit;
use vipward_tests::kit::interrupt;

/// Time that a daemon is dead before it is started again.
const DEAD: Duration = Duration::from_secs(20);
/// Time after the last step in which its consequences show: longer than any system's election.
const AFTER: Duration = Duration::from_secs(8);
/// The same after a move, when another host has the VIP already.
const AFTER_MOVE: Duration = Duration::from_secs(3);

/// Figures of one run, by their names.
pub(super) type Values = Vec<(String, Unit, f64)>;

/// Measures the time from the holder's loss of power until another host has the VIP.
pub(super) fn crash(run: &mut Run<'_>) -> Result<()> {
    in_turn(run, |site, holder| {
        let (answered, received) = crashed(site, holder)?;
        Ok(vec![
            ("until datagrams arrive at another host".to_owned(), Unit::Seconds, received),
            ("until another host answers ARP".to_owned(), Unit::Seconds, answered),
        ])
    })
}

/// Takes the power from the holder. Returns the seconds until another host answers ARP, and until
/// datagrams arrive there.
pub(super) fn crashed(site: &mut Site, holder: &Holder) -> Result<(f64, f64)> {
    let watch = site.watch()?;
    let crashed = SystemTime::now();
    site.power_off(holder)?;
    watch.wait_for_another(holder, &others(holder))?;
    let seen = watch.stop()?;
    let answered = seen.answered_by_another(crashed, holder.mac).context("no other host answered")?;
    let received = seen.received_by_another(crashed, &holder.name);
    let received = received.context("no other host received a datagram")?;
    Ok((answered.as_secs_f64(), received.as_secs_f64()))
}

pub(super) fn planned_move(run: &mut Run<'_>) -> Result<()> {
    in_turn(run, |site, holder| {
        let watch = site.watch()?;
        let from = SystemTime::now();
        site.give_away(holder)?;
        watch.wait_for_another(holder, &others(holder))?;
        interrupt::pass(AFTER_MOVE)?;
        costs(&watch.stop()?, from)
    })
}

#[derive(Clone, Copy)]
enum End {
    /// SIGTERM, and no restart.
    Terminated,
    /// SIGKILL, and a restart at once.
    Killed,
    /// SIGKILL, and a restart after [`DEAD`].
    KilledForLong,
}

impl End {
    fn name(self) -> &'static str {
        match self {
            Self::Terminated => "SIGTERM",
            Self::Killed => "SIGKILL, restarted at once",
            Self::KilledForLong => "SIGKILL, restarted after 20 s",
        }
    }

    fn happen(self, site: &mut Site, holder: &Holder) -> Result<()> {
        match self {
            Self::Terminated => return site.terminate(holder),
            Self::Killed => site.kill9(holder)?,
            Self::KilledForLong => {
                site.kill9(holder)?;
                interrupt::pass(DEAD)?;
            }
        }
        site.restart(holder)
    }
}

/// Measures the end of the holder's daemon. The figures are seconds, so systems run side by side.
pub(super) fn kill(run: &mut Run<'_>) -> Result<()> {
    // Those that take equally long, as many as leave the machine idle most of the time.
    let together: [&[End]; 2] = [&[End::Terminated, End::Killed], &[End::KilledForLong]];
    for number in 1..=run.runs {
        for ends in together {
            let names = ends.iter().map(|end| end.name()).collect::<Vec<_>>().join("; ");
            run.progress(format!("run {number} of {}, systems side by side: {names}", run.runs));
            let of = |system| ends.iter().map(move |end| (system, *end));
            let subjects = failing_over(run).into_iter().flat_map(of).collect();
            for ((system, end), values) in all_at_once(subjects, |(system, end)| ended(system, end)) {
                let values = values.with_context(|| format!("of {system}, in run {number}"))?;
                run.progress(format!("  {system}, {}: {}", end.name(), shown(&values)));
                let named = |(what, unit, value)| (format!("{}: {what}", end.name()), unit, value);
                record(run, system, values.into_iter().map(named).collect());
            }
        }
    }
    Ok(())
}

fn ended(system: System, end: End) -> Result<Values> {
    on_site(Site::start(system, HOSTS)?, |site, holder| {
        let watch = site.watch()?;
        let from = SystemTime::now();
        end.happen(site, holder)?;
        interrupt::pass(AFTER)?;
        costs(&watch.stop()?, from)
    })
}

/// Returns what an event since `from` has cost.
fn costs(seen: &Seen, from: SystemTime) -> Result<Values> {
    let lost = f64::from(u32::try_from(seen.lost(from))?);
    Ok(vec![
        ("unanswered".to_owned(), Unit::Seconds, seen.silent(from).as_secs_f64()),
        ("two hosts answer".to_owned(), Unit::Seconds, seen.doubled(from).as_secs_f64()),
        ("datagrams lost".to_owned(), Unit::Count, lost),
    ])
}

/// Returns the names of the hosts besides the holder.
fn others(holder: &Holder) -> Vec<String> {
    (1..=HOSTS).map(|number| format!("n{number}")).filter(|name| *name != holder.name).collect()
}

/// Runs steps on a site with its holder. A failure shows what the daemons have printed.
pub(super) fn on_site<T>(mut site: Site, steps: impl FnOnce(&mut Site, &Holder) -> Result<T>) -> Result<T> {
    let holder = site.holder()?;
    let done = steps(&mut site, &holder);
    done.with_context(|| format!("the daemons have printed:\n{}", site.describe()))
}

/// Runs steps for every system that fails over, in each run. The sites are made side by side, which
/// takes seconds, and measured one after the other.
fn in_turn(run: &mut Run<'_>, steps: impl Fn(&mut Site, &Holder) -> Result<Values>) -> Result<()> {
    for number in 1..=run.runs {
        for (system, site) in all_at_once(failing_over(run), |system| Site::start(system, HOSTS)) {
            interrupt::check()?;
            let values = site.and_then(|site| on_site(site, &steps));
            let values = values.with_context(|| format!("of {system}, in run {number}"))?;
            run.progress(format!("run {number} of {}: {system}: {}", run.runs, shown(&values)));
            record(run, system, values);
        }
    }
    Ok(())
}

/// Runs a measurement of every subject, each on a thread of its own.
pub(super) fn all_at_once<S: Copy + Send, T: Send>(
    subjects: Vec<S>,
    measure: impl Fn(S) -> T + Sync,
) -> Vec<(S, T)> {
    thread::scope(|scope| {
        let measure = &measure;
        let started: Vec<_> =
            subjects.into_iter().map(|subject| (subject, scope.spawn(move || measure(subject)))).collect();
        let ended = started.into_iter().map(|(subject, thread)| (subject, thread.join()));
        ended.map(|(subject, value)| (subject, value.expect("invariant: nothing panics there"))).collect()
    })
}

fn failing_over(run: &Run<'_>) -> Vec<System> {
    run.systems.iter().copied().filter(|system| system.fails_over()).collect()
}

fn record(run: &mut Run<'_>, system: System, values: Values) {
    for (what, unit, value) in values {
        run.record(&what, unit, system, value);
    }
}

fn shown(values: &Values) -> String {
    let shown = values.iter().map(|(what, unit, value)| format!("{what} {}", unit.show(*value)));
    shown.collect::<Vec<_>>().join(", ")
}
