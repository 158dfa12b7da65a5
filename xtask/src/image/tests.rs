use clap::Parser as _;
use object::{Architecture, BinaryFormat, Endianness, write::Object};

use super::{binary::is_static, *};

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
fn an_engine_is_one_of_three() {
    for (name, is_one) in [("buildah", true), ("podman", true), ("docker", true), ("kaniko", false)] {
        assert_eq!(Cli::try_parse_from(["image", "--engine", name]).is_ok(), is_one, "{name}");
    }
    let both = Cli::try_parse_from(["image", "--binary-only", "--archive", "image.tar"]);
    assert!(both.is_err(), "an archive of no image");
}
