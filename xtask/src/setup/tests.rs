use super::{
    install::{Host, Plan, libraries},
    probe::iputils_release,
    requirements::{REQUIREMENTS, Source},
    *,
};

fn requirement(name: &str) -> &'static Requirement {
    REQUIREMENTS.iter().find(|r| r.name == name).expect("a requirement of that name")
}

#[test]
fn debian_and_its_derivatives_are_distinguished_from_others() {
    let table = [
        ("Debian", "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nID=debian\n", Host::Debian),
        ("Ubuntu", "ID=ubuntu\nID_LIKE=debian\n", Host::Debian),
        ("Mint", "ID=linuxmint\nID_LIKE=\"ubuntu debian\"\n", Host::Debian),
        ("Fedora", "ID=fedora\nHOME_URL=\"https://example.org/debian\"\n", Host::Other),
        ("no file", "", Host::Other),
    ];
    for (what, os_release, expected) in table {
        assert_eq!(Host::of(os_release), expected, "{what}");
    }
}

#[test]
fn only_libraries_of_an_unpacked_package_are_installed() {
    let depends = "iproute2, libc6 (>= 2.34), libnl-3-200 (>= 3.2.7), libsystemd0 | libelogind0, libssl3:any";
    assert_eq!(libraries(depends), ["libc6", "libnl-3-200", "libsystemd0", "libssl3"]);
    assert_eq!(libraries("ifupdown | ifupdown-ng, net-tools"), [""; 0]);
    assert_eq!(libraries("adduser, libjs-jquery (>= 3.5.1~), libjs-moment, libc6"), ["libc6"]);
    assert_eq!(libraries(""), [""; 0]);
}

#[test]
fn a_plan_names_every_command_in_the_order_in_which_they_work() {
    let missing = ["bpf-linker", "LLVM", "arping (habets)", "tcpdump"].map(requirement);
    let commands = Plan::of(&missing, Host::Debian).commands(std::path::Path::new("/t/tools"));
    let expected = [
        "apt-get update",
        "apt-get install -y --no-install-recommends libpolly-22-dev libzstd-dev llvm-22-dev tcpdump zlib1g-dev",
        "mkdir -p /t/tools/habets-arping && cd /t/tools/habets-arping && apt-get download arping && \
         dpkg-deb -x arping_*.deb .",
        "LLVM_PREFIX=/usr/lib/llvm-22 cargo install --locked --force --version 0.13.0 --no-default-features \
         --features=llvm-22 bpf-linker",
    ];
    assert_eq!(commands, expected);
}

#[test]
fn the_two_arpings_are_distinguished() {
    assert_eq!(iputils_release("arping from iputils 20221126\nlibcap: yes"), Some("20221126"));
    assert_eq!(iputils_release("ARPing 2.23, by Thomas Habets <thomas@habets.se>"), None);
}

#[test]
fn what_conflicts_with_iputils_or_would_be_started_is_not_installed() {
    for requirement in REQUIREMENTS {
        if let Source::Apt(packages) = &requirement.source {
            assert!(!packages.contains(&"arping") && !packages.contains(&"prometheus"), "{packages:?}");
        }
    }
}

#[test]
fn the_public_workflow_runs_no_code_that_can_change_under_it() {
    let workflow = include_str!("../../../.github/workflows/ci.yml");
    let actions: Vec<_> = workflow.lines().filter_map(|line| line.split_once("uses: ")).collect();
    assert!(!actions.is_empty());
    for (_, action) in actions {
        let (name, version) = action.split_once(" # ").expect("a comment names the version");
        let commit = name.split_once('@').map(|(_, commit)| commit).unwrap_or_default();
        let is_whole = commit.len() == 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
        assert!(is_whole && version.starts_with('v'), "{action}");
    }
    assert!(
        !workflow.contains("| sh") && !workflow.contains("|\n            sh"),
        "a script is piped into a shell"
    );
    let Source::Cargo(deny) = &requirement("cargo-deny").source else { panic!("cargo installs cargo-deny") };
    let install = format!("cargo install --locked --debug cargo-deny@{}\n", deny.version);
    assert!(workflow.contains(&install), "the workflow does not run `{}`", install.trim());
}
