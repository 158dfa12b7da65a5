use super::*;
use State::{Green, NotApplicable, Red, Unknown, Yellow};

#[test]
fn the_kernel_and_what_the_agent_may_do() {
    assert_rows(
        None,
        &[
            ("new enough", |_| {}, "kernel", Green, &["6.18.44"], &[]),
            (
                "too old",
                |it| {
                    let kernel = it.machine.kernel.read_mut();
                    kernel.release = "5.4.0".to_owned();
                    kernel.lacks = Some("bpf_link for XDP (since 5.9)".to_owned());
                },
                "kernel",
                Red,
                &["5.4.0", "bpf_link for XDP"],
                &["5.12"],
            ),
            (
                "uname fails",
                |it| it.machine.kernel = Fact::failed("no uname"),
                "kernel",
                Unknown,
                &["no uname"],
                &[],
            ),
            ("type information", |_| {}, "btf", Green, &[], &[]),
            (
                "no type information",
                |it| it.machine.btf = Read(false),
                "btf",
                Red,
                &["/sys/kernel/btf/vmlinux is missing"],
                &["CONFIG_DEBUG_INFO_BTF=y", "mount /sys"],
            ),
            ("the agent has all", |_| {}, "capabilities", Green, &["the agent has", "CAP_BPF"], &[]),
            (
                "whether an agent runs is not known",
                |it| it.agent = Fact::failed("no /proc"),
                "capabilities",
                Unknown,
                &["no /proc"],
                &[],
            ),
            (
                "the agent lacks one",
                |it| it.machine.missing = Read(vec!["CAP_NET_RAW".to_owned()]),
                "capabilities",
                Red,
                &["the agent lacks CAP_NET_RAW"],
                &["AmbientCapabilities=CAP_BPF CAP_NET_ADMIN CAP_NET_RAW CAP_PERFMON", "sudo"],
            ),
            (
                "no agent, and this process lacks two",
                |it| {
                    it.agent = Read(Agent::None);
                    it.machine.missing = Read(vec!["CAP_BPF".to_owned(), "CAP_PERFMON".to_owned()]);
                },
                "capabilities",
                Red,
                &["this process lacks CAP_BPF CAP_PERFMON"],
                &["sudo"],
            ),
            (
                "no agent, and this process has all",
                |it| it.agent = Read(Agent::None),
                "capabilities",
                Green,
                &["this process has"],
                &[],
            ),
            (
                "an agent in another PID namespace",
                |it| it.agent = Read(Agent::Runs(None)),
                "capabilities",
                Unknown,
                &["an agent runs", "PID namespace"],
                &["hostPID: true"],
            ),
        ],
    );
}

#[test]
fn what_of_the_kernel_is_set_otherwise() {
    assert_rows(
        None,
        &[
            ("the cgroup counts", |_| {}, "memlock", NotApplicable, &["cgroup"], &[]),
            (
                "an old kernel, and little may be locked",
                |it| it.machine.kernel.read_mut().counts_bpf_as_locked = true,
                "memlock",
                Yellow,
                &["8388608 bytes"],
                &["LimitMEMLOCK=infinity"],
            ),
            (
                "an old kernel, and all may be locked",
                |it| {
                    it.machine.kernel.read_mut().counts_bpf_as_locked = true;
                    it.machine.memlock_bytes = Read(u64::MAX);
                },
                "memlock",
                Green,
                &[],
                &[],
            ),
            ("only root loads programs", |_| {}, "unprivileged-bpf", Green, &["=2"], &[]),
            (
                "everybody loads programs",
                |it| it.machine.unprivileged_bpf_disabled = Read(0),
                "unprivileged-bpf",
                Yellow,
                &["every user"],
                &["sysctl -w kernel.unprivileged_bpf_disabled=2"],
            ),
            ("a fast clock", |_| {}, "clock-source", Green, &["tsc"], &[]),
            (
                "a slow clock",
                |it| it.machine.clock_source = Read("hpet".to_owned()),
                "clock-source",
                Yellow,
                &["hpet"],
                &["dmesg"],
            ),
            (
                "no /sys",
                |it| it.machine.clock_source = Fact::failed("no /sys"),
                "clock-source",
                Unknown,
                &["no /sys"],
                &[],
            ),
        ],
    );
}
