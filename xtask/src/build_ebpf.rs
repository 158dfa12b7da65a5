//! `build-ebpf`: builds and checks the XDP objects, and puts them into `target/bpf`.

use anyhow::{Context as _, Result};
use vipward_common::maps;

use crate::{
    compiler::{TARGET, Toolchain},
    object::Report,
    process::{self, Stopwatch},
    setup::{self, Need},
    table,
    workspace::Workspace,
};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Build with optimisation; always on, because the verifier refuses an unoptimised program
    #[arg(long)]
    release: bool,
}

/// One build of the XDP program.
struct Object {
    file: &'static str,
    features: &'static [&'static str],
    about: &'static str,
}

const EMBEDDED: Object = Object { file: "vipward.o", features: &[], about: "embedded in the agent" };

/// The objects that tests and benchmark load.
const OTHERS: [Object; 3] = [
    Object {
        file: "vipward-bench.o",
        features: &["--features=bench"],
        about: "with baselines and generators",
    },
    Object { file: "vipward-nolog.o", features: &["--no-default-features"], about: "without log lines" },
    NEXT,
];

/// The object that the agent of the invented next version embeds.
const NEXT: Object =
    Object { file: "vipward-next.o", features: &["--features=next-layout"], about: "with another layout" };

/// Programs that every object must have.
const PROGRAMS: &[&str] = &["vipward", "vipward_plain", "vipward_ports", "vipward_tc"];

pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    // Optimisation needs no flag.
    let Args { release: _ } = args;
    setup::ensure(workspace, &[Need::Build])?;
    let rows = build_all(workspace)?;
    println!(
        "{}",
        table::render(["OBJECT", "PROGRAM", "SECTION", "BYTES", "INSTRUCTIONS", "WIDE"], &[3, 4, 5], &rows)
    );
    Ok(())
}

/// Builds and checks the object that the agent embeds.
pub(crate) fn build_embedded(workspace: &Workspace) -> Result<()> {
    build(workspace, &[&EMBEDDED]).map(drop)
}

/// Builds and checks that object, and the one that the agent of the invented next version embeds.
pub(crate) fn build_versions(workspace: &Workspace) -> Result<()> {
    build(workspace, &[&EMBEDDED, &NEXT]).map(drop)
}

/// Builds and checks all objects. Returns a table of their programs.
pub(crate) fn build_all(workspace: &Workspace) -> Result<Vec<[String; 6]>> {
    let objects: Vec<_> = [&EMBEDDED].into_iter().chain(&OTHERS).collect();
    build(workspace, &objects)
}

fn build(workspace: &Workspace, objects: &[&Object]) -> Result<Vec<[String; 6]>> {
    let toolchain = Toolchain::find()?;
    process::step(&format!("building the XDP program with {}", toolchain.compiler));
    let watch = Stopwatch::start();
    let bpf = workspace.bpf();
    let built = bpf.join(TARGET).join("bpf/vipward");
    let mut rows = Vec::new();
    for object in objects {
        let mut cargo = toolchain.cargo(workspace, "build");
        process::run(cargo.args(object.features))?;
        let bytes = std::fs::read(&built).with_context(|| format!("failed to read {}", built.display()))?;
        let report = Report::read(&bytes).and_then(|report| {
            report.check(PROGRAMS, &maps::all().collect::<Vec<_>>())?;
            Ok(report)
        });
        let report = report.with_context(|| format!("{} ({}) is unusable", object.file, object.about))?;
        process::write_if_changed(&bpf.join(object.file), &bytes)?;
        rows.extend(describe(object, &report));
    }
    process::step(&format!("the XDP program is in {} ({:.1} s)", bpf.display(), watch.seconds()));
    Ok(rows)
}

/// Returns a row for each program, one for the functions that programs call, and one for the file.
fn describe(object: &Object, report: &Report) -> Vec<[String; 6]> {
    let row = |name: &str, section: &str, bytes: usize, instructions: String, wide: String| {
        [object.file.to_owned(), name.to_owned(), section.to_owned(), bytes.to_string(), instructions, wide]
    };
    let (called, programs): (Vec<_>, Vec<_>) =
        report.programs.iter().partition(|program| program.is_called());
    let counted = |name: &str, section: &str, of: &[&crate::object::Program]| {
        let sum = |field: fn(&crate::object::Program) -> usize| of.iter().map(|p| field(p)).sum::<usize>();
        row(name, section, sum(|p| p.bytes), sum(|p| p.instructions).to_string(), sum(|p| p.wide).to_string())
    };
    let mut rows: Vec<_> = programs.iter().map(|p| counted(&p.name, &p.section, &[*p])).collect();
    if !called.is_empty() {
        rows.push(counted(&format!("({} functions called)", called.len()), ".text", &called));
    }
    let whole = format!("({}, {} maps, BTF)", object.about, report.maps.len());
    rows.push(row(&whole, "file", report.bytes, String::new(), String::new()));
    rows
}
