//! Measurement of thousands of Services: their load on three
//! agents and the API server, and the time that each change takes.
//!
//! The API server is in this process, or the real one of `KUBECONFIG`. It shares the machine with
//! the agents: what it needs is part of every time. The measurements are the chapters of one
//! cluster's life, each on what the one before has left. A real API server's requests cannot be
//! counted, so only the cold start is measured there.

mod bare;
mod calm;
mod changes;
pub(crate) mod death;
mod health;
mod objects;
mod pins;
pub(crate) mod pools;
pub(crate) mod rest;
mod scene;
mod starts;
mod survey;

use std::time::Instant;

use anyhow::{Context, Result, ensure};

use self::scene::{Effort, Noticed, Scene};
use crate::report::{Options, Report};
use vipward_tests::kit::interrupt;

/// Measures everything, prints the table to stdout, and writes the file. Returns how many bars were
/// missed.
pub(crate) fn run(options: &Options, services: Option<u32>) -> Result<usize> {
    let started = Instant::now();
    let mut effort = if options.quick { Effort::QUICK } else { Effort::WHOLE };
    effort.services = services.unwrap_or(effort.services);
    let mut report = Report::begin(options)?;

    let progress = |what: &str| eprintln!("[{:>3} s] {what}", started.elapsed().as_secs());
    progress("the cluster and its objects");
    let mut scene = Scene::new(effort, Noticed::ByTheLease)?;
    let is_real = scene.server().is_err();
    ensure!(!(is_real && options.record), "--record needs the benchmark's API server: unset KUBECONFIG");
    let measurements = MEASUREMENTS.into_iter().filter(|(_, on, _)| !is_real || *on == On::Any);
    for (what, _, measure) in measurements {
        interrupt::check()?;
        progress(what);
        let measured = measure(&mut scene, &mut report).with_context(|| format!("failed to measure {what}"));
        if let Err(error) = measured {
            eprintln!("{}", scene.logs());
            return Err(error);
        }
    }
    drop(scene);
    report.finish(started, options, "kubernetes.json")
}

type Measure = fn(&mut Scene, &mut Report) -> Result<()>;

/// The API servers on which something can be measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum On {
    Any,
    InProcess,
}

const MEASUREMENTS: [(&str, On, Measure); 7] = [
    ("cold start: Services exist, and nothing of Vipward's", On::Any, starts::cold),
    ("calm: nothing happens", On::InProcess, calm::measure),
    ("changes: one Service after the other gets another VIP", On::InProcess, changes::measure),
    ("warm start: claims and pins exist", On::InProcess, starts::with_pins),
    ("warm start: claims exist, and the pins are lost", On::InProcess, starts::without_pins),
    ("death of a node that holds a third", On::InProcess, death::measure),
    ("a bare client that creates the same claims", On::Any, bare::measure),
];
