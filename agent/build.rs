//! Finds the XDP object that the agent embeds, and passes its path to the crate.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Names the object when it is somewhere else.
const VARIABLE: &str = "VIPWARD_EBPF_OBJECT";
/// Set to 1, it embeds an empty object: for editors, without LLVM. Such an agent does not start.
const STUB: &str = "VIPWARD_EBPF_STUB";

fn main() -> ExitCode {
    println!("cargo:rerun-if-env-changed={VARIABLE}");
    println!("cargo:rerun-if-env-changed={STUB}");
    let object = if env::var_os(STUB).is_some_and(|value| value == "1") {
        stub()
    } else {
        let object = env::var_os(VARIABLE).map_or_else(built_object, PathBuf::from);
        println!("cargo:rerun-if-changed={}", object.display());
        object
    };
    if !object.is_file() {
        eprintln!(
            "there is no XDP object at {}: run `cargo xtask build-ebpf` first, or set {STUB}=1 for checks alone",
            object.display()
        );
        return ExitCode::FAILURE;
    }
    println!("cargo:rustc-env={VARIABLE}={}", object.display());
    ExitCode::SUCCESS
}

fn out_dir() -> PathBuf {
    PathBuf::from(env::var_os("OUT_DIR").expect("invariant: cargo sets OUT_DIR"))
}

/// Writes the empty object.
fn stub() -> PathBuf {
    let path = out_dir().join("stub.o");
    fs::write(&path, []).expect("invariant: OUT_DIR can be written");
    path
}

/// Returns the object in `bpf` in the target directory, which is above `OUT_DIR` wherever that is. If
/// it is not there, returns the one in the workspace's target directory: a build of the fuzz targets
/// has its own target directory.
fn built_object() -> PathBuf {
    // cargo sets it for the invented next version.
    let is_next = env::var_os("CARGO_FEATURE_NEXT_LAYOUT").is_some();
    let object = Path::new("bpf").join(if is_next { "vipward-next.o" } else { "vipward.o" });
    let out_dir = out_dir();
    let above = out_dir.ancestors().map(|dir| dir.join(&object)).find(|path| path.is_file());
    above.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../target").join(object))
}
