use clap::Parser as _;
use object::{Architecture, BinaryFormat, Endianness, write::Object};

use super::{
    binary::{Target, is_static},
    *,
};

#[derive(clap::Parser)]
struct Cli {
    #[command(flatten)]
    args: Args,
}

#[test]
fn sizes_are_rounded_to_a_tenth() {
    for (bytes, expected) in [
        (0, "0.0 MiB"),
        (1 << 20, "1.0 MiB"),
        ((1 << 20) * 3 / 2, "1.5 MiB"),
        ((1 << 20) - 1, "1.0 MiB"),
        (13_000_000, "12.4 MiB"),
    ] {
        assert_eq!(mebibytes(bytes), expected, "{bytes} bytes");
    }
}

#[test]
fn this_test_program_is_not_static_and_what_is_no_program_is_an_error() {
    let own = fs::read("/proc/self/exe").expect("a process can read its program");
    assert!(!is_static(&own).expect("it is a program"));
    let object = Object::new(BinaryFormat::Elf, Architecture::X86_64, Endianness::Little);
    assert!(is_static(&object.write().expect("a valid object")).expect("it asks for no loader"));
    for (what, bytes) in
        [("nothing", &b""[..]), ("a script", b"#!/bin/sh\n"), ("half a header", b"\x7fELF\x02")]
    {
        assert!(is_static(bytes).is_err(), "{what}");
    }
}

#[test]
fn musl_is_used_where_it_is_usable_and_the_machines_own_target_elsewhere() {
    let chosen = |host: &str, usable: bool| format!("{:?}", Target::choose(host, |_| usable));
    for (host, usable, triple, is_told_to_be_static) in [
        ("x86_64-unknown-linux-gnu", true, "x86_64-unknown-linux-musl", false),
        ("x86_64-unknown-linux-gnu", false, "x86_64-unknown-linux-gnu", true),
        ("aarch64-unknown-linux-gnu", true, "aarch64-unknown-linux-musl", false),
        ("x86_64-unknown-linux-musl", true, "x86_64-unknown-linux-musl", false),
    ] {
        let target = chosen(host, usable);
        assert!(target.contains(&format!("{triple:?}")), "{host}: {target}");
        assert_eq!(target.contains("crt-static"), is_told_to_be_static, "{host}: {target}");
    }
}

#[test]
fn an_engine_is_one_of_three() {
    for (name, is_one) in [("buildah", true), ("podman", true), ("docker", true), ("kaniko", false)] {
        assert_eq!(Cli::try_parse_from(["image", "--engine", name]).is_ok(), is_one, "{name}");
    }
    let both = Cli::try_parse_from(["image", "--binary-only", "--archive", "image.tar"]);
    assert!(both.is_err(), "an archive of no image");
}
