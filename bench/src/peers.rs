//! Vipward beside what a host may run instead: keepalived, ucarp, and the kernel alone.
//!
//! A client's kernel sends a datagram every millisecond through its own neighbour cache, and an
//! observer sends ARP requests as often. Systems take turns within each run where milliseconds count.
//! Where seconds do, they run side by side, each on its own LAN.

mod daemons;
mod figures;
mod forged;
mod responders;
mod run;
mod scene;
mod scenes;
mod seen;
mod site;
mod system;

use std::time::Instant;

use anyhow::{Context, Result};
use clap::ValueEnum;

use self::{
    figures::Figures,
    run::Run,
    scene::Scene,
    site::{HOSTS, Site},
    system::System,
};
use crate::report::{Machine, Options, record, write_files};
use vipward_tests::kit::interrupt;

/// Runs of each scene, and those of a quick measurement.
const RUNS: u32 = 5;
const QUICK_RUNS: u32 = 1;

/// Arguments of the comparison.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Scenes to measure [default: all]
    scenes: Vec<Scene>,
    /// Runs of each scene [default: 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: Option<u32>,
}

/// Measures the scenes, prints the table to stdout, and writes peers.json and peers.md. Returns the
/// number of missed bars, which is zero: a comparison has none.
pub(crate) fn run(options: &Options, args: &Args) -> Result<usize> {
    vipward_tests::kit::require_root()?;
    let started = Instant::now();
    let runs = args.runs.unwrap_or(if options.quick { QUICK_RUNS } else { RUNS });
    let (systems, figures) = survey(runs)?;
    println!("{}\n", figures.machine);

    let mut scenes = args.scenes.clone();
    if scenes.is_empty() {
        scenes = Scene::value_variants().to_vec();
    }
    scenes.sort_unstable();
    scenes.dedup();
    let mut run = Run { started, runs, systems: &systems, scene: Scene::Crash, figures };
    for scene in scenes {
        interrupt::check()?;
        run.scene = scene;
        measure(scene)(&mut run).with_context(|| format!("failed to measure {scene}"))?;
    }

    let mut figures = run.figures;
    figures.seconds = started.elapsed().as_secs();
    println!("{figures}");
    let json = serde_json::to_string_pretty(&figures.json())? + "\n";
    write_files(options, &[("peers.json", json), ("peers.md", format!("{figures}\n"))])?;
    record(options, &figures.machine, figures.recorded())?;
    Ok(0)
}

/// Crashes of the holder of another system's VIP.
pub(crate) struct Crashes {
    pub(crate) name: String,
    /// Seconds until another host answers ARP.
    pub(crate) answered: Vec<f64>,
    /// Seconds until datagrams arrive there.
    pub(crate) received: Vec<f64>,
}

/// Lets the holder of keepalived's VIP crash this many times with each of its settings, if it is
/// installed.
pub(crate) fn crashes_of_keepalived(runs: u32, progress: &impl Fn(&str)) -> Result<Vec<Crashes>> {
    let mut all = Vec::new();
    for system in [System::Keepalived, System::KeepalivedFast] {
        if let Err(error) = system.version() {
            progress(&format!("{system} is skipped: {error:#}"));
            continue;
        }
        let mut crashes = Crashes { name: system.to_string(), answered: Vec::new(), received: Vec::new() };
        for number in 1..=runs {
            interrupt::check()?;
            let (answered, received) = scenes::on_site(Site::start(system, HOSTS)?, scenes::crashed)?;
            progress(&format!(
                "{system}: crash {number} of {runs}: ARP {answered:.3} s, datagrams {received:.3} s"
            ));
            crashes.answered.push(answered);
            crashes.received.push(received);
        }
        all.push(crashes);
    }
    Ok(all)
}

/// Finds the systems, and names those that are missing.
fn survey(runs: u32) -> Result<(Vec<System>, Figures)> {
    let mut figures = Figures::new(Machine::read()?, runs);
    let mut systems = Vec::new();
    for system in System::ALL {
        match system.version() {
            Ok(version) => {
                figures.versions.insert(system, version);
                systems.push(system);
            }
            Err(error) => {
                eprintln!("{system} is skipped: {error:#}");
                figures.skipped.insert(system, format!("{error:#}"));
            }
        }
    }
    Ok((systems, figures))
}

fn measure(scene: Scene) -> fn(&mut Run<'_>) -> Result<()> {
    match scene {
        Scene::Crash => scenes::crash,
        Scene::Move => scenes::planned_move,
        Scene::Kill => scenes::kill,
        Scene::Flood => responders::flood,
        Scene::Askers => responders::askers,
        Scene::Forged => forged::measure,
    }
}
