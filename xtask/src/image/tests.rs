use std::{env, process};

use object::{Architecture, BinaryFormat, Endianness, write::Object};

use super::{
    binary::{glibc_release, is_static},
    *,
};

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
fn an_image_has_the_binary_and_every_licence() {
    let workspace = Workspace::discover().expect("this workspace");
    let context = env::temp_dir().join(format!("vipward-image-{}", process::id()));
    let own = PathBuf::from("/proc/self/exe");
    let binary = Binary { path: own.clone(), library_notices: own, glibc: "GNU libc 2.41".to_owned() };
    fill(&context, &workspace, &binary).expect("the files are there");

    let containerfile = include_str!("../../../deploy/image/Containerfile");
    let copied = containerfile.lines().filter_map(|line| line.strip_prefix("COPY ")).map(|line| {
        let (from, to) = line.split_once(' ').expect("a file or directory, and its place");
        (context.join(from), to)
    });
    let mut files = Vec::new();
    for (from, to) in copied {
        match fs::read_dir(&from) {
            Ok(entries) => files.extend(entries.map(|entry| {
                let name = entry.expect("a readable directory").file_name();
                format!("{to}/{}", name.to_string_lossy())
            })),
            Err(_) if from.is_file() => files.push(to.to_owned()),
            Err(error) => panic!("{}: {error}", from.display()),
        }
    }
    fs::remove_dir_all(&context).expect("it was made here");
    files.sort();
    let expected = [
        "/licenses/GLIBC.txt",
        "/licenses/LICENSE-APACHE",
        "/licenses/LICENSE-MIT",
        "/licenses/RUST-LIBRARY.html",
        "/licenses/THIRD-PARTY.txt",
        "/vipward",
    ];
    assert_eq!(files, expected);
}

#[test]
fn the_note_about_glibc_names_both_releases_the_licence_and_the_way_to_link_anew() {
    let note = glibc_note("Debian GLIBC 2.36-9+deb12u14", "0.1.0");
    for words in [
        "vipward 0.1.0",
        "Debian GLIBC 2.36-9+deb12u14",
        "GNU Lesser General Public License, version 2.1",
        "THIRD-PARTY.txt",
        "cargo xtask image",
    ] {
        assert!(note.contains(words), "{words}: {note}");
    }
    assert!(include_str!("../../../THIRD-PARTY.txt").contains("GNU LESSER GENERAL PUBLIC LICENSE"));
}

#[test]
fn the_release_of_glibc_is_read_from_its_banner() {
    let debians = "GNU C Library (Debian GLIBC 2.36-9+deb12u14) stable release version 2.36.\n";
    for (what, banner, expected) in [
        ("Debian's", debians, Some("Debian GLIBC 2.36-9+deb12u14")),
        ("its authors'", "GNU C Library (GNU libc) stable release version 2.41.\n", Some("GNU libc 2.41")),
        ("cut off", "GNU C Library (GNU libc) stable release", None),
        ("musl", "1.2.5\0", None),
    ] {
        let archive =
            [b"!<arch>\n\0\x7fELF\0".as_slice(), banner.as_bytes(), b"Copyright (C) 2022\n\0"].concat();
        assert_eq!(glibc_release(&archive).as_deref(), expected, "{what}");
    }
}
