//! Finds the XDP object that the agent embeds, and tells the crate where it is.

use std::{
    env,
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Names the object when it is somewhere else.
const VARIABLE: &str = "VIPWARD_EBPF_OBJECT";

fn main() -> ExitCode {
    println!("cargo:rerun-if-env-changed={VARIABLE}");
    let object = env::var_os(VARIABLE).map_or_else(built_object, PathBuf::from);
    println!("cargo:rerun-if-changed={}", object.display());
    if !object.is_file() {
        eprintln!("there is no XDP object at {}: run `cargo xtask build-ebpf` first", object.display());
        return ExitCode::FAILURE;
    }
    println!("cargo:rustc-env={VARIABLE}={}", object.display());
    ExitCode::SUCCESS
}

/// Returns the object in `bpf` in the target directory, which is above `OUT_DIR` wherever
/// that is. If it is not there, returns the one in the workspace's target directory: a
/// build such as that of the fuzz targets has its own.
fn built_object() -> PathBuf {
    // cargo sets it for the invented next version.
    let is_next = env::var_os("CARGO_FEATURE_NEXT_LAYOUT").is_some();
    let object = Path::new("bpf").join(if is_next { "vipward-next.o" } else { "vipward.o" });
    let out_dir = PathBuf::from(env::var_os("OUT_DIR").expect("invariant: cargo sets OUT_DIR"));
    let above = out_dir.ancestors().map(|dir| dir.join(&object)).find(|path| path.is_file());
    above.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../target").join(object))
}
