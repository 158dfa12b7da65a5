use super::*;
use crate::shell::testing::in_namespaces;
use nix::sched::CloneFlags;

const LACKS: &str = "run it as root (sudo), or with AmbientCapabilities=CAP_BPF CAP_NET_ADMIN CAP_NET_RAW \
                     CAP_PERFMON in a systemd unit, or after setcap \
                     cap_bpf,cap_net_admin,cap_net_raw,cap_perfmon+ep on the binary";

#[test]
fn a_release_is_read_whatever_a_distribution_has_appended() {
    let release = |major, minor| Some(Release { major, minor });
    let table = [
        ("6.18.44-fc-v657", release(6, 18)),
        ("5.11.0-rc1", release(5, 11)),
        ("5.11-rc1", release(5, 11)),
        ("5.11+", release(5, 11)),
        ("6.1.0-18-amd64", release(6, 1)),
        ("4.18.0-553.el8_10.x86_64", release(4, 18)),
        ("5.10.16.3-microsoft-standard-WSL2\n", release(5, 10)),
        ("10.0", release(10, 0)),
        ("6", None),
        ("6.", None),
        (".6", None),
        ("", None),
        ("six.one", None),
        ("6.x", None),
        ("99999999999.1", None),
    ];
    for (text, expected) in table {
        assert_eq!(Release::parse(text), expected, "{text:?}");
    }
}

#[test]
fn a_kernel_that_is_too_old_is_refused_with_what_it_lacks() {
    let swap = "BPF compare-and-exchange (since 5.12)";
    let coarse = "bpf_ktime_get_coarse_ns (since 5.11)";
    let link = "bpf_link for XDP (since 5.9)";
    let ring = "the BPF ring buffer and CAP_BPF (since 5.8)";
    let table = [
        ("6.1.0", None),
        ("5.12.0", None),
        ("5.11.0", Some(format!("kernel 5.11.0 is too old: it lacks {swap}"))),
        ("unknown", None),
        ("5.10.0-28-amd64", Some(format!("kernel 5.10.0-28-amd64 is too old: it lacks {coarse}, {swap}"))),
        ("5.8.1", Some(format!("kernel 5.8.1 is too old: it lacks {link}, {coarse}, {swap}"))),
        ("4.19.0", Some(format!("kernel 4.19.0 is too old: it lacks {ring}, {link}, {coarse}, {swap}"))),
    ];
    for (release, expected) in table {
        let error = check_release(release).err().map(|error| error.to_string());
        assert_eq!(error, expected, "{release}");
    }
}

#[test]
fn a_kernel_without_btf_is_named() {
    let error = check_btf(Path::new("/sys/kernel/btf/none")).expect_err("it is not there");
    assert_eq!(
        error.to_string(),
        "/sys/kernel/btf/none is missing: the kernel must be built with CONFIG_DEBUG_INFO_BTF=y (those of current \
         distributions are), and /sys must be mounted"
    );
}

#[test]
fn the_kernel_that_runs_this_test_is_good_enough() {
    check_kernel().expect("a kernel that can run the agent");
}

#[test]
fn only_the_kernels_own_boot_clock_passes() {
    let table = [
        ("no time namespaces", "", 0),
        ("the host's", "monotonic           0         0\nboottime            0         0\n", 0),
        ("another monotonic clock", "monotonic  7 0\nboottime  0 0\n", 0),
        ("ahead", "monotonic           0         0\nboottime       100000         0\n", 100_000),
        ("behind", "monotonic 0 0\nboottime -5 0\n", -5),
        ("by a part of a second", "monotonic 0 0\nboottime 0 250\n", 1),
    ];
    for (what, offsets, expected) in table {
        assert_eq!(boot_clock_offset(offsets), expected, "{what}");
    }
}

#[test]
fn missing_capabilities_are_named_and_sys_admin_stands_for_those_split_off_it() {
    use Capability::{CAP_BPF, CAP_NET_ADMIN, CAP_NET_RAW, CAP_PERFMON, CAP_SYS_ADMIN};
    let table = [
        (vec![CAP_BPF, CAP_NET_ADMIN, CAP_NET_RAW, CAP_PERFMON], ""),
        (vec![CAP_SYS_ADMIN, CAP_NET_ADMIN, CAP_NET_RAW], ""),
        (vec![CAP_SYS_ADMIN], "CAP_NET_ADMIN CAP_NET_RAW"),
        (vec![CAP_BPF, CAP_NET_ADMIN], "CAP_NET_RAW CAP_PERFMON"),
        (vec![], "CAP_BPF CAP_NET_ADMIN CAP_NET_RAW CAP_PERFMON"),
    ];
    for (effective, expected) in table {
        let missing = missing_capabilities(&effective.iter().copied().collect());
        assert_eq!(missing.to_string(), expected, "{effective:?}");
    }
}

#[test]
fn missing_capabilities_are_named_with_how_to_get_them() {
    in_namespaces(CloneFlags::empty(), || {
        caps::set(None, CapSet::Effective, &NEEDED.into()).expect("fewer capabilities");
        check_capabilities().expect("the four are enough");
        caps::drop(None, CapSet::Effective, Capability::CAP_NET_RAW).expect("dropped");
        let error = check_capabilities().expect_err("one is missing");
        assert_eq!(error.to_string(), format!("this process lacks CAP_NET_RAW: {LACKS}"));
    });
}
