//! The descriptions of the checks: what each reads, and when it is yellow or red. For the reference, and for
//! `vipward doctor --checks`.

use super::lease_deadline::LEASE_DEADLINE;

/// A check with its texts. Each row is about the host, or about one interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Check {
    pub name: &'static str,
    /// The subject of this check and of those after it. None if it is that of the check before.
    subject: Option<&'static str>,
    pub reads: &'static str,
    /// None if the check is never yellow.
    pub yellow: Option<&'static str>,
    /// None if the check is never red.
    pub red: Option<&'static str>,
    /// When the check is unknown or does not apply, or how to read its row.
    pub note: Option<&'static str>,
}

impl Check {
    const fn of(name: &'static str, reads: &'static str) -> Self {
        Self { name, subject: None, reads, yellow: None, red: None, note: None }
    }

    const fn begins(self, subject: &'static str) -> Self {
        Self { subject: Some(subject), ..self }
    }

    const fn yellow(self, when: &'static str) -> Self {
        Self { yellow: Some(when), ..self }
    }

    const fn red(self, when: &'static str) -> Self {
        Self { red: Some(when), ..self }
    }

    const fn note(self, note: &'static str) -> Self {
        Self { note: Some(note), ..self }
    }
}

/// Returns the names of the checks by their subjects, in the order of the report.
pub fn subjects() -> Vec<(&'static str, Vec<&'static str>)> {
    let mut subjects: Vec<(&'static str, Vec<&'static str>)> = Vec::new();
    for check in CHECKS {
        if let Some(subject) = check.subject {
            subjects.push((subject, Vec::new()));
        }
        if let Some((_, names)) = subjects.last_mut() {
            names.push(check.name);
        }
    }
    subjects
}

/// Every check, in the order of the report.
pub const CHECKS: [Check; 39] = [
    Check::of("kernel", "the release of the kernel").red("it lacks something that the program needs; Linux 5.12 \
        has all").begins("host"),
    Check::of("btf", "/sys/kernel/btf/vmlinux").red("it is missing"),
    Check::of(
        "capabilities",
        "the capabilities of the agent's process, or of this one if no agent runs: CAP_BPF, CAP_NET_ADMIN, \
         CAP_NET_RAW and CAP_PERFMON",
    )
    .red("one of them is missing")
    .note("unknown if an agent runs and its process is out of sight, in another PID namespace"),
    Check::of("memlock", "how much memory this process may lock")
        .yellow("less than 256 MiB, on a kernel before 5.11")
        .note("later kernels count the memory of maps in the cgroup: the check does not apply"),
    Check::of("unprivileged-bpf", "kernel.unprivileged_bpf_disabled").yellow("0: every user may load BPF programs"),
    Check::of("clock-source", "the kernel's current clock source")
        .yellow("slow to read: acpi_pm, hpet, jiffies, pit or refined-jiffies"),
    Check::of("bpffs", "the pin directory's file system, owner and mode")
        .begins("agent and pins")
        .yellow("another user owns it, and no agent runs")
        .red("it is not on a bpffs, or others than its owner may write it"),
    Check::of("agent", "whether an agent uses the pin directory").yellow("no agent does"),
    Check::of("pins", "the pinned maps and links")
        .red("a pin is missing, or an agent runs and nothing is pinned")
        .note("does not apply if nothing is pinned and no agent runs"),
    Check::of("other-pins", "the programs of Vipward that run here, and every bpffs in sight")
        .yellow("another agent's program runs on an interface here, or one without pins in sight")
        .red("a program of another pin directory runs here without an agent"),
    Check::of(
        LEASE_DEADLINE,
        "the lease deadline, and the end of the grace period. While the deadline lies ahead, the doctor waits 3 s at \
         most for the next heartbeat, which in a cluster is a renewal of the Lease. The age of the last one is \
         exact to 50 ms",
    )
    .yellow(
        "the agent has not extended the deadline in time, and the grace period runs; or the deadline lies \
         ahead, and no \
         heartbeat came within 3 s",
    )
    .red(
        "the program answers no longer; or, in the grace period, a node of a cluster answers on an interface \
         where it knows no peer: two nodes may answer",
    ),
    Check::of("map-fill", "the entries of the maps `vip_state` (--max-vips) and `peers`")
        .yellow("one of them is 80 % full")
        .red("one of them is full"),
    Check::of("events-lost", "the program's count of lost events, since the maps were made")
        .yellow("events found the ring buffer full: their claims were dropped, but not reported"),
    Check::of(
        "wire",
        "the failure detector: its voters, its pings, and the rights of its thread, from the agent on 127.0.0.1:9647",
    )
    .yellow(
        "it is off for a reason that can be mended; or an interface has no two-way link with peers that live \
         there; or of 200 or more pings to a peer, more than 2 % were lost",
    )
    .note(
        "`never answered` counts since the agent began. All agents should have the same --wire. Missing real-time \
         priority is no fault. Unknown if the agent listens elsewhere. Does not apply under the policy `stop`, with \
         --wire off, without an agent, and to the VIPs of a file",
    ),
    Check::of("config", "whether an agent of a file has taken it")
        .yellow("the file was refused: the agent runs with an earlier one, and its next start fails"),
    Check::of("link", "the interface, its carrier and its driver")
        .begins("interfaces")
        .red("it is down, without carrier or missing; or no interface could have VIPs"),
    Check::of("wireless", "whether the interface is wireless, and promiscuous")
        .yellow("it is wireless and not promiscuous: much firmware drops requests for VIPs"),
    Check::of("program", "the pinned link, and the program on the interface")
        .yellow(
            "the driver offers native XDP and has refused it; or the mode is generic, where tc would do; or \
             native on a bond, where the program runs on the ports",
        )
        .red("a link is pinned, and its program is not on the interface")
        .note("does not apply if the program is not attached; the row has the mode that an agent would choose"),
    Check::of("proof", "whether the program sees the frames of ARP and neighbour discovery that the kernel receives")
        .red("it is bypassed: the kernel receives frames that the program does not see, so that VIPs are not \
            answered")
        .note("does not apply while unproven, when no such frame has come, or if the program is not attached"),
    Check::of("egress", "whether the network takes what this host sends from its VIPs, and passes requests")
        .red("a host answers the interface's own address, and a VIP not; or another node asks in vain")
        .note("the row of `proof` tells when no request for a VIP has come"),
    Check::of("own-frames", "frames with this host's own MAC that come from the network")
        .red("a loop repeats this host's frames, or another machine has its MAC: perhaps a clone"),
    Check::of("other-xdp", "the XDP programs on the interface").yellow(
        "another one is attached: tc sees only what it passes on, and for native and generic XDP there is no room",
    ),
    Check::of("tc", "the BPF programs of traffic control on the interface (tc, tcx)")
        .yellow(
            "a program at the ingress runs before Vipward's, or may answer requests: Cilium's, or one whose \
             name cannot be read",
        )
        .note("names of programs need CAP_SYS_ADMIN"),
    Check::of("vlan-offload", "whether the card removes VLAN tags before XDP").yellow(
        "it does, the interface has a VLAN device, and the mode is not tc: the frames of that VLAN look \
         untagged to XDP",
    ),
    Check::of("veth-peer", "the other end of a veth")
        .red("the mode is native, and the other end runs no XDP program: no request is answered")
        .note("unknown if the other end is in another network namespace. Does not apply to other interfaces"),
    Check::of("member", "whether the interface is a port of another one")
        .yellow("it is a port of a bond or bridge, through which the host sends"),
    Check::of("mtu", "the MTU").yellow(
        "more than 3,498 bytes, and the program is not native although the driver offers it: many drivers refuse",
    ),
    Check::of("multicast", "the groups for solicitations of the IPv6 VIPs that this node holds here, and MLD")
        .yellow("IPv6 is off on the interface, so that the kernel reports no group by MLD")
        .red("a group is not joined")
        .note("the row has the number of MLD queries that came: a switch that snoops needs a querier"),
    Check::of("neighbour-discovery", "the kernel's settings of neighbour discovery where IPv6 VIPs are").yellow(
        "drop_unsolicited_na is set, and the host keeps the former holder's MAC; or accept_dad is 2, which may \
         switch IPv6 off",
    ),
    Check::of("kube-proxy", "whether kube-proxy runs, and whether in IPVS mode")
        .begins("addresses")
        .note("never yellow or red"),
    Check::of("bound-elsewhere", "the host's addresses that are VIPs")
        .yellow(
            "an address here is a VIP of another node (on kube-ipvs0, that is right), or one that Vipward \
             answers for here and that another program added",
        )
        .red("nothing is pinned, and an address is left that an agent bound: the kernel answers for it"),
    Check::of("labelled-addresses", "the labels of the host's IPv4 addresses")
        .yellow("an address has another program's label; keepalived and scripts set them"),
    Check::of("arp-ignore", "arp_ignore of each interface with carrier, if an IPv4 VIP is an address of this \
        host").yellow(
        "it is 0 on an interface where the program does not run, or has no entry of the VIP: the kernel answers \
         there",
    ),
    Check::of("arp-announce", "arp_announce of the interface, if an IPv4 VIP is an address of this host")
        .yellow("it is less than 2: the kernel may send requests with the VIP as sender, which are claims"),
    Check::of("rp-filter", "rp_filter of the interface").yellow(
        "it is strict (1), and other interfaces have addresses: requests of clients behind those are dropped",
    ),
    Check::of("neighbour-table", "the entries and limits of the kernel's IPv4 neighbour table")
        .begins("surroundings")
        .yellow("75 % full, or full at some time since boot, or its limit is below the kernel's default of 1,024")
        .red("95 % full")
        .note("does not apply outside of the first network namespace, which alone shows the limits"),
    Check::of(
        "other-vip-software",
        "the processes of this network namespace: keepalived, kube-vip, a speaker of MetalLB or OpenELB, ucarp, \
         vrrpd, PureLB's node agent, pacemaker",
    )
    .yellow("one of them runs")
    .note("unknown if processes are out of sight and none is seen, as in a Pod without hostPID: true"),
    Check::of("doubled", "the program's records of peers' claims on VIPs that this node holds")
        .red("a peer has claimed one in the last 7 seconds, so that two hosts answer"),
    Check::of("unknown-hosts", "the program's records of claims on VIPs by unknown hosts")
        .yellow("an unknown host has claimed a VIP in the last 5 minutes")
        .red("it has claimed one that this node holds in the last 10 seconds")
        .note(
            "a host that claims several may be a node without an agent, with kube-proxy in IPVS mode and without \
             strictARP",
        ),
];
