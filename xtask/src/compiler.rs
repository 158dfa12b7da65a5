//! Chooses the compiler and the linker of the XDP program.

use std::{
    env, fmt,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};

use crate::{process, version::Version, workspace::Workspace};

pub(crate) const TARGET: &str = "bpfel-unknown-none";
/// Variable that names the rustc to use.
pub(crate) const OVERRIDE: &str = "VIPWARD_EBPF_RUSTC";
/// Oldest rustc that compiles the workspace (`rust-version` in Cargo.toml).
const MIN_RUSTC: Version = Version::new(1, 95, 0);

/// A rustc that might compile for BPF.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Candidate {
    pub(crate) rustc: PathBuf,
    pub(crate) release: Version,
    pub(crate) llvm: Version,
    /// True if compiled `core` for the target is installed.
    pub(crate) has_core: bool,
    /// True if the source of `core` is installed.
    pub(crate) has_source: bool,
}

impl Candidate {
    fn probe(rustc: PathBuf) -> Option<Self> {
        let about = process::output(Command::new(&rustc).arg("-vV")).ok()?;
        let field = |name: &str| Version::find(about.lines().find_map(|line| line.strip_prefix(name))?);
        let mut ask = Command::new(&rustc);
        let paths =
            process::output(ask.args(["--print=sysroot", "--print=target-libdir", "--target", TARGET]))
                .ok()?;
        let mut paths = paths.lines().map(Path::new);
        let (sysroot, libraries) = (paths.next()?, paths.next()?);
        Some(Self {
            release: field("release: ")?,
            llvm: field("LLVM version: ")?,
            has_core: holds_core(libraries),
            has_source: sysroot.join("lib/rustlib/src/rust/library/core/src/lib.rs").is_file(),
            rustc,
        })
    }
}

fn holds_core(libraries: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(libraries) else { return false };
    entries.flatten().any(|entry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        name.starts_with("libcore-") && Path::new(&*name).extension().is_some_and(|ext| ext == "rlib")
    })
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Core {
    /// Compiled, from the distribution's package.
    Precompiled,
    /// Built by `-Z build-std=core` from rust-src.
    FromSource,
}

/// The compiler that was chosen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Compiler {
    pub(crate) rustc: PathBuf,
    pub(crate) release: Version,
    pub(crate) llvm: Version,
    pub(crate) core: Core,
}

impl fmt::Display for Compiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let core = match self.core {
            Core::Precompiled => "core is precompiled",
            Core::FromSource => "core is built from rust-src",
        };
        write!(f, "{} ({}, LLVM {}, {core})", self.rustc.display(), self.release, self.llvm)
    }
}

/// Chooses the best of `candidates`: one with precompiled `core`, else one with its
/// source. Its LLVM must not be newer than the linker's, which could not read the bitcode.
fn pick(candidates: &[Candidate], linker_llvm: Option<Version>) -> Result<Compiler> {
    let usable = |c: &&Candidate| {
        c.release >= MIN_RUSTC
            && linker_llvm.is_none_or(|linker| c.llvm <= linker)
            && (c.has_core || c.has_source)
    };
    let choice = candidates.iter().filter(usable).min_by_key(|c| !c.has_core);
    let Some(c) = choice else { bail!("{}", refusal(candidates, linker_llvm)) };
    let core = if c.has_core { Core::Precompiled } else { Core::FromSource };
    Ok(Compiler { rustc: c.rustc.clone(), release: c.release, llvm: c.llvm, core })
}

/// Returns an error text with the fault of each candidate and the way to get a better one.
fn refusal(candidates: &[Candidate], linker_llvm: Option<Version>) -> String {
    let reason = |c: &Candidate| {
        let reason = if c.release < MIN_RUSTC {
            format!("is older than {MIN_RUSTC}")
        } else if !c.has_core && !c.has_source {
            "has neither core for the target nor rust-src".to_owned()
        } else {
            let linker = linker_llvm.map_or_else(|| "unknown".to_owned(), |linker| linker.to_string());
            format!("has LLVM {}, newer than bpf-linker's {linker}", c.llvm)
        };
        format!("  {} {} {reason}\n", c.rustc.display(), c.release)
    };
    let reasons: String = candidates.iter().map(reason).collect();
    format!(
        "no rustc here can compile for {TARGET}\n{reasons}get one with \
            `apt-get install rustc-web libstd-rust-web-dev-bpf` (Debian) or `rustup component add rust-src`, or \
            name one in {OVERRIDE}"
    )
}

/// Chooses the compiler to use with `linker`. Without a linker, any LLVM is new enough.
pub(crate) fn choose(linker: Option<&Linker>) -> Result<Compiler> {
    let linker_llvm = linker.and_then(|linker| linker.llvm);
    if let Some(rustc) = env::var_os(OVERRIDE).map(PathBuf::from) {
        let candidate = Candidate::probe(rustc.clone());
        let named = || {
            format!("{OVERRIDE} names {}, which is no working rustc: correct or unset it", rustc.display())
        };
        return pick(&[candidate.with_context(named)?], linker_llvm);
    }
    // Each toolchain of rustup takes time to start: they are probed only if the distribution's
    // compiler cannot be used.
    let distribution: Vec<_> =
        ["/usr/bin/rustc"].into_iter().map(PathBuf::from).filter_map(Candidate::probe).collect();
    if let Ok(compiler) = pick(&distribution, linker_llvm)
        && compiler.core == Core::Precompiled
    {
        return Ok(compiler);
    }
    let toolchains = rustup_rustcs().into_iter().filter_map(Candidate::probe);
    pick(&distribution.into_iter().chain(toolchains).collect::<Vec<_>>(), linker_llvm)
}

/// Fails if the user has named a compiler that cannot be used. Otherwise `setup` would install another
/// one unasked.
pub(crate) fn check_override() -> Result<()> {
    if env::var_os(OVERRIDE).is_none() {
        return Ok(());
    }
    choose(Linker::find().as_ref()).map(drop)
}

/// Returns the compilers of rustup's toolchains: stable, nightly, then numbered versions.
fn rustup_rustcs() -> Vec<PathBuf> {
    let home = env::var_os("RUSTUP_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".rustup")));
    let entries = home.and_then(|home| std::fs::read_dir(home.join("toolchains")).ok());
    let mut found: Vec<_> =
        entries.into_iter().flatten().flatten().map(|dir| dir.path().join("bin/rustc")).collect();
    found.retain(|rustc| rustc.is_file());
    found.sort();
    found.reverse();
    found
}

/// Linker that turns LLVM bitcode into a BPF object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Linker {
    pub(crate) path: PathBuf,
    pub(crate) release: Version,
    pub(crate) llvm: Option<Version>,
}

impl Linker {
    pub(crate) fn find() -> Option<Self> {
        let path = process::find("bpf-linker")?;
        let release = Version::find(&process::banner(Command::new(&path).arg("--version"))?)?;
        let llvm = llvm_of(&path);
        Some(Self { path, release, llvm })
    }
}

/// Returns the version of the LLVM that `linker` contains or loads.
///
/// The linker does not print it. LLVM writes its version into every bitcode file, so the binary
/// contains it as a string.
fn llvm_of(linker: &Path) -> Option<Version> {
    let loaded = process::output(Command::new("ldd").arg(linker)).unwrap_or_default();
    let library = loaded_llvm(&loaded).unwrap_or(linker);
    let mut grep = Command::new("grep");
    grep.args([
        "--text",
        "--only-matching",
        "--extended-regexp",
        "--max-count=1",
        r"LLVM[0-9]+\.[0-9]+\.[0-9]+",
    ]);
    Version::find(&process::output(grep.arg(library)).ok()?)
}

/// Returns the path of libLLVM in the output of ldd.
fn loaded_llvm(ldd: &str) -> Option<&Path> {
    let line = ldd.lines().find(|line| line.trim_start().starts_with("libLLVM"))?;
    line.split_whitespace().find(|word| word.starts_with('/')).map(Path::new)
}

/// A compiler and a linker that work together.
pub(crate) struct Toolchain {
    pub(crate) compiler: Compiler,
    pub(crate) linker: Linker,
}

impl Toolchain {
    pub(crate) fn find() -> Result<Self> {
        let linker = Linker::find().context("bpf-linker is not installed: run `cargo xtask setup`")?;
        let compiler = choose(Some(&linker))?;
        Ok(Self { compiler, linker })
    }

    /// Returns `cargo VERB` for the XDP program. `RUSTC_BOOTSTRAP` enables one
    /// unstable feature that the program uses, for this child process only.
    pub(crate) fn cargo(&self, workspace: &Workspace, verb: &str) -> Command {
        let mut cargo = process::cargo();
        cargo
            .current_dir(&workspace.root)
            .args([verb, "--profile=bpf", "--package=vipward-ebpf", "--target", TARGET])
            .arg("--target-dir")
            .arg(workspace.bpf())
            .env("RUSTC", &self.compiler.rustc)
            .env("RUSTC_BOOTSTRAP", "1")
            .env("RUSTFLAGS", format!("-C linker={} -C link-arg=--btf", self.linker.path.display()))
            .env_remove("CARGO_ENCODED_RUSTFLAGS")
            .env_remove("RUSTC_WRAPPER")
            .env_remove("RUSTC_WORKSPACE_WRAPPER");
        match self.compiler.core {
            Core::Precompiled => {}
            Core::FromSource => {
                cargo.args(["-Z", "build-std=core"]);
            }
        }
        cargo
    }
}

#[cfg(test)]
mod tests;
