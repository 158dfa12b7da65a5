use super::*;

#[test]
fn versions_are_found_in_what_tools_print() {
    let table = [
        ("rustc", "rustc 1.96.0 (ac68faa20 2026-05-25) (built from a source tarball)", Some((1, 96, 0))),
        ("rustc -vV", "LLVM version: 22.1.8", Some((22, 1, 8))),
        ("a producer string", "LLVM22.1.8", Some((22, 1, 8))),
        ("bpftool", "bpftool v7.1.0\nusing libbpf v1.1", Some((7, 1, 0))),
        ("ip", "ip utility, iproute2-6.1.0, libbpf 1.1.2", Some((6, 1, 0))),
        ("a v before", "nftables v1.0.6 (Lester Gooch #5)", Some((1, 0, 6))),
        ("two parts", "tool 1.5 - Jan  3 2023", Some((1, 5, 0))),
        ("four parts", "tool 1.2.3.4", Some((1, 2, 3))),
        ("a full stop follows", "the version is 3.1.", Some((3, 1, 0))),
        ("single numbers are no version", "arping from iputils 20221126", None),
        ("a number that is too large", "99999999999.1 then 2.5", Some((2, 5, 0))),
        ("nothing", "", None),
    ];
    for (what, text, expected) in table {
        let expected = expected.map(|(major, minor, patch)| Version::new(major, minor, patch));
        assert_eq!(Version::find(text), expected, "{what}");
    }
}
