use super::*;

const LLVM_21: Version = Version::new(21, 1, 0);
const LLVM_22: Version = Version::new(22, 1, 8);
const LLVM_23: Version = Version::new(23, 1, 0);

fn candidate(rustc: &str, release: Version, llvm: Version, core: bool, source: bool) -> Candidate {
    Candidate { rustc: rustc.into(), release, llvm, has_core: core, has_source: source }
}

type Row<'a> = (&'a str, &'a [&'a Candidate], Option<Version>, Option<(&'a str, Core)>);

#[test]
fn the_best_compiler_that_the_linker_understands_is_chosen() {
    let new = Version::new(1, 96, 0);
    let distribution = candidate("/usr/bin/rustc", new, LLVM_22, true, false);
    let source = candidate("/rustup/rustc", new, LLVM_22, false, true);
    let newer_source = candidate("/nightly/rustc", new, LLVM_23, false, true);
    let plain = candidate("/plain/rustc", new, LLVM_22, false, false);
    let old = candidate("/old/rustc", Version::new(1, 85, 0), LLVM_21, true, true);
    let table: [Row<'_>; 8] = [
        ("precompiled alone", &[&distribution], Some(LLVM_22), Some(("/usr/bin/rustc", Core::Precompiled))),
        (
            "precompiled comes late",
            &[&source, &distribution],
            Some(LLVM_22),
            Some(("/usr/bin/rustc", Core::Precompiled)),
        ),
        (
            "source when nothing is precompiled",
            &[&plain, &source],
            Some(LLVM_22),
            Some(("/rustup/rustc", Core::FromSource)),
        ),
        ("the linker is older", &[&distribution], Some(LLVM_21), None),
        (
            "one is too new",
            &[&newer_source, &source],
            Some(LLVM_22),
            Some(("/rustup/rustc", Core::FromSource)),
        ),
        ("the linker reports no version", &[&newer_source], None, Some(("/nightly/rustc", Core::FromSource))),
        ("too old", &[&old], Some(LLVM_22), None),
        ("nothing there", &[], Some(LLVM_22), None),
    ];
    for (what, candidates, linker, expected) in table {
        let candidates: Vec<_> = candidates.iter().copied().cloned().collect();
        let chosen = pick(&candidates, linker).ok();
        let chosen = chosen.as_ref().map(|c| (c.rustc.to_str().expect("ASCII"), c.core));
        assert_eq!(chosen, expected, "{what}");
    }
}

#[test]
fn a_refusal_gives_the_reason_for_each_compiler_and_the_way_out() {
    let candidates = [
        candidate("/old/rustc", Version::new(1, 85, 0), LLVM_21, true, false),
        candidate("/plain/rustc", Version::new(1, 96, 0), LLVM_22, false, false),
        candidate("/new/rustc", Version::new(1, 99, 0), LLVM_23, true, false),
    ];
    let text = pick(&candidates, Some(LLVM_22)).expect_err("none will do").to_string();
    for expected in [
        "/old/rustc 1.85.0 is older than 1.95.0",
        "/plain/rustc 1.96.0 has neither core for the target nor rust-src",
        "/new/rustc 1.99.0 has LLVM 23.1.0, newer than bpf-linker's 22.1.8",
        "libstd-rust-web-dev-bpf",
        "rustup component add rust-src",
        OVERRIDE,
    ] {
        assert!(text.contains(expected), "{expected:?} is not in {text}");
    }
}

#[test]
fn the_linkers_llvm_is_found_in_what_ldd_prints() {
    let dynamic =
        "\tlinux-vdso.so.1 (0x1)\n\tlibLLVM.so.22.1 => /usr/lib/llvm-22/lib/libLLVM.so.22.1 (0x7f)\n";
    assert_eq!(loaded_llvm(dynamic), Some(Path::new("/usr/lib/llvm-22/lib/libLLVM.so.22.1")));
    assert_eq!(loaded_llvm("\tlibLLVM.so.22.1 => not found\n"), None);
    assert_eq!(loaded_llvm("\tstatically linked\n"), None);
}
