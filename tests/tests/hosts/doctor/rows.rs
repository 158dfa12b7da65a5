//! Rows that no other test turns, several on one host. And the list of the tests that turn each row.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;
use vipward_common::Counters;
use vipward_core::diagnosis::doctor::CHECKS;
use vipward_tests::{
    agent::{
        Agent, AgentOptions, Attachment, NODE, Node, PATIENCE, ROGUE, Scene, VIP, counter, ip, overwrite,
        start_agent,
    },
    frames::{Arp, Family, Mac},
    kit::{output_of, wait_until},
    lan::Wire,
};

use super::{
    RED, YELLOW,
    report::{Report, doctor, doctor_at},
};

/// Returns the report of a doctor before whom a shell's line has put false files in a mount namespace of its
/// own. `run` is the command that becomes the doctor.
fn doctor_behind(mut command: Command, before: &str, run: &str, pin_dir: &Path) -> Result<Report> {
    command.args(["--mount", "--propagation", "private", "sh", "-e", "-c"]);
    command.arg(format!("{before}\nexec {run} \"$@\"")).arg("sh");
    command.arg(Agent::default_binary()).args(["doctor", "-o", "json", "--pin-dir"]).arg(pin_dir);
    Report::of(command)
}

#[test]
fn faults_of_the_machine_are_found() -> Result<()> {
    const CLOCK: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let directory = TempDir::new()?;
    let fake = |name: &str, text: &str| -> Result<String> {
        let path = directory.path().join(name);
        fs::write(&path, text)?;
        Ok(path.display().to_string())
    };
    let (clock, zero) = (fake("clock", "hpet\n")?, fake("zero", "0\n")?);
    let limit = fake("limit", "1024\n")?;
    // The machine's first network namespace alone shows its neighbour table.
    let examine = |entries: u32| {
        let cache = fake("cache", &format!("entries table_fulls\n{entries:08x} 00000000\n"))?;
        let before = format!(
            "mount --bind {clock} {CLOCK}\n\
             mount --bind {zero} /proc/sys/kernel/unprivileged_bpf_disabled\n\
             mount -t tmpfs none /sys/kernel/btf\n\
             for limit in 1 2 3; do mount --bind {limit} /proc/sys/net/ipv4/neigh/default/gc_thresh$limit; done\n\
             mount -t tmpfs none /proc/$$/net\n\
             mkdir /proc/$$/net/stat\n\
             cp {cache} /proc/$$/net/stat/arp_cache"
        );
        let run = "prlimit --memlock=65536:65536 setarch \"$(uname -m)\" --uname-2.6";
        let command = Command::new("unshare");
        doctor_behind(command, &before, run, &directory.path().join("pins"))
    };
    let report = examine(800)?;
    report.assert("kernel", None, RED, &["2.6."], &["5.12 or newer"]);
    report.assert("btf", None, RED, &["is missing"], &["CONFIG_DEBUG_INFO_BTF"]);
    report.assert("memlock", None, YELLOW, &["65536 bytes"], &["LimitMEMLOCK=infinity"]);
    report.assert("unprivileged-bpf", None, YELLOW, &["every user"], &["unprivileged_bpf_disabled=2"]);
    report.assert("clock-source", None, YELLOW, &["hpet"], &["clocksource=tsc"]);
    report.assert("neighbour-table", None, YELLOW, &["800 entries", "nearly full"], &["gc_thresh3=4096"]);
    let report = examine(1_020)?;
    report.assert("neighbour-table", None, RED, &["1020 entries", "cannot be reached"], &["gc_thresh3=4096"]);
    Ok(())
}

#[test]
fn full_maps_lost_events_left_addresses_and_another_owner_are_found() -> Result<()> {
    let scene = Scene::new("maps")?;
    let vips = |number: u8| -> String {
        let vip = |last: u8| format!("{{address: {}, bind: lo}}", ip(last));
        let vips: Vec<_> = (10..10 + number).map(vip).collect();
        format!("interfaces: [eth0]\nvips: [{}]\n", vips.join(", "))
    };
    let options = AgentOptions { max_vips: Some(5), ..AgentOptions::new(scene.bpffs.pin_dir("node")) };
    let mut agent = start_agent(&scene.node, &vips(4), options)?;
    let pin_dir = agent.options.pin_dir.clone();
    let examine = || doctor_at(&scene.node, &pin_dir, &[]);
    let has = |number: usize| {
        let what = format!("{number} entries");
        wait_until(PATIENCE, &what, || Ok(agent.status()?["entries"] == number))
    };
    has(4)?;
    examine()?.assert("map-fill", None, YELLOW, &["vip_state 4 of 5"], &["--max-vips"]);
    agent.write_config(&vips(5))?;
    has(5)?;
    let counters = Counters { events_lost: 3, ..Counters::default() };
    overwrite(&agent, "counters", &[0; 4], bytemuck::bytes_of(&counters))?;
    let report = examine()?;
    report.assert("map-fill", None, RED, &["vip_state 5 of 5"], &["--max-vips"]);
    report.assert("events-lost", None, YELLOW, &["events"], &[]);

    agent.kill9()?;
    let mut gone = Command::new("rm");
    output_of({
        gone.arg("-r").arg(&pin_dir);
        gone
    })?;
    fs::create_dir(&pin_dir)?;
    chown(&pin_dir, Some(65_534), None)?;
    let report = examine()?;
    report.assert("bound-elsewhere", None, RED, &["192.0.2.10/32 on lo", "no program"], &["vipward unload"]);
    report.assert("bpffs", None, YELLOW, &["65534"], &[]);
    Ok(())
}

#[test]
fn what_an_interface_is_and_lacks_is_found() -> Result<()> {
    let yaml = "vips: [{address: 192.0.2.10}, {address: 192.0.2.20, mac: '02:00:00:00:00:09'}]\n";
    let node = Node::start_in(Family::V4, "interface", Attachment::Generic, yaml)?;
    node.wait_until_answered(VIP, NODE)?;
    let wire = Wire::open(&node.client, "eth0")?;
    wire.send(&Arp::gratuitous_reply(ROGUE, ip(20), Mac::BROADCAST).to_bytes())?;
    wait_until(PATIENCE, "the claim to be counted", || Ok(counter(&node.agent, "claim_conflict")? > 0))?;
    let before = "mount -t tmpfs none /sys/class/net\n\
        mkdir -p /sys/class/net/eth0/phy80211\n\
        echo 0x1003 > /sys/class/net/eth0/flags";
    let report = doctor_behind(node.host.command("unshare"), before, "", &node.agent.options.pin_dir)?;
    let firmware = ["much firmware drops requests"];
    report.assert("wireless", Some("eth0"), YELLOW, &firmware, &["ip link set eth0 promisc on"]);
    // The VIP is another host's, and so no client of this host is in danger.
    let claims = format!("{ROGUE} ");
    report.assert("unknown-hosts", None, YELLOW, &[&claims, "claims 192.0.2.20"], &["who-has 192.0.2.20"]);
    Ok(())
}

#[test]
fn without_ipv6_on_the_interface_no_group_is_reported() -> Result<()> {
    let vip = Family::V6.vip();
    let node =
        Node::start_in(Family::V6, "six-off", Attachment::Auto, &format!("vips: [{{address: '{vip}'}}]\n"))?;
    node.wait_until_answered(vip, NODE)?;
    let before = "mount -t tmpfs none /proc/sys/net/ipv6/conf\n\
        mkdir /proc/sys/net/ipv6/conf/eth0\n\
        cd /proc/sys/net/ipv6/conf/eth0\n\
        echo 1 > disable_ipv6; echo 1 > accept_dad; echo 0 > drop_unsolicited_na";
    let report = doctor_behind(node.host.command("unshare"), before, "", &node.agent.options.pin_dir)?;
    report.assert("multicast", Some("eth0"), YELLOW, &["IPv6 is off"], &["disable_ipv6=0"]);
    doctor(&node, &[])?.row("multicast", Some("eth0"));
    Ok(())
}

/// The function of a test, by its file in `tests/tests`, that expects a check to have a state.
type Turned = (&'static str, &'static str, &'static str, &'static str);

/// Each check with a state other than green, and who turns it.
const TURNED: [Turned; 44] = [
    ("kernel", RED, "hosts/doctor/rows.rs", "faults_of_the_machine_are_found"),
    ("btf", RED, "hosts/doctor/rows.rs", "faults_of_the_machine_are_found"),
    ("capabilities", RED, "hosts/doctor/unreadable.rs", "capabilities_that_are_missing_are_named"),
    ("memlock", YELLOW, "hosts/doctor/rows.rs", "faults_of_the_machine_are_found"),
    ("unprivileged-bpf", YELLOW, "hosts/doctor/rows.rs", "faults_of_the_machine_are_found"),
    ("clock-source", YELLOW, "hosts/doctor/rows.rs", "faults_of_the_machine_are_found"),
    (
        "bpffs",
        YELLOW,
        "hosts/doctor/rows.rs",
        "full_maps_lost_events_left_addresses_and_another_owner_are_found",
    ),
    ("bpffs", RED, "hosts/doctor.rs", "a_pin_directory_that_is_on_no_bpffs_is_red"),
    ("agent", YELLOW, "hosts/doctor.rs", "a_pin_directory_that_is_on_no_bpffs_is_red"),
    ("pins", RED, "hosts/doctor.rs", "pins_that_were_removed_are_named"),
    ("lease-deadline", YELLOW, "hosts/doctor/lease_deadline.rs", "a_grace_period_is_yellow"),
    (
        "lease-deadline",
        RED,
        "hosts/doctor/lease_deadline.rs",
        "when_the_agent_is_killed_the_lease_deadline_passes_and_is_red",
    ),
    (
        "map-fill",
        YELLOW,
        "hosts/doctor/rows.rs",
        "full_maps_lost_events_left_addresses_and_another_owner_are_found",
    ),
    (
        "map-fill",
        RED,
        "hosts/doctor/rows.rs",
        "full_maps_lost_events_left_addresses_and_another_owner_are_found",
    ),
    (
        "events-lost",
        YELLOW,
        "hosts/doctor/rows.rs",
        "full_maps_lost_events_left_addresses_and_another_owner_are_found",
    ),
    (
        "other-pins",
        YELLOW,
        "hosts/life/elsewhere.rs",
        "the_pins_of_a_trial_run_are_named_and_removed_and_those_of_a_running_agent_are_not",
    ),
    (
        "other-pins",
        RED,
        "hosts/life/elsewhere.rs",
        "the_pins_of_a_trial_run_are_named_and_removed_and_those_of_a_running_agent_are_not",
    ),
    ("config", YELLOW, "hosts/reload/refused.rs", "assert_shown"),
    ("wire", YELLOW, "kubernetes/wire/status.rs", "voters_keys_and_answers_are_shown_by_commands_and_pages"),
    ("link", RED, "hosts/doctor.rs", "an_interface_that_is_down_or_has_no_carrier_is_red"),
    ("wireless", YELLOW, "hosts/doctor/rows.rs", "what_an_interface_is_and_lacks_is_found"),
    ("program", RED, "hosts/doctor.rs", "a_link_that_was_detached_behind_our_back_is_red"),
    ("proof", RED, "hosts/proving.rs", "a_program_that_takes_the_frames_before_it_makes_it_blind"),
    ("egress", RED, "hosts/proof/egress.rs", "assert_unheard"),
    ("own-frames", RED, "hosts/proof/doubled.rs", "another_machine_with_this_hosts_mac_is_named"),
    ("other-xdp", YELLOW, "hosts/doctor.rs", "another_xdp_program_is_named_and_what_it_means"),
    ("tc", YELLOW, "hosts/doctor.rs", "a_program_of_traffic_control_that_may_answer_is_named"),
    (
        "veth-peer",
        RED,
        "hosts/doctor.rs",
        "native_on_a_veth_is_red_when_the_other_end_is_seen_to_run_no_program",
    ),
    (
        "member",
        YELLOW,
        "hosts/doctor.rs",
        "a_bridge_is_attached_to_traffic_control_and_the_remedy_for_a_member_is_the_bridge",
    ),
    ("multicast", YELLOW, "hosts/doctor/rows.rs", "without_ipv6_on_the_interface_no_group_is_reported"),
    (
        "multicast",
        RED,
        "hosts/doctor.rs",
        "on_a_host_with_an_ipv6_vip_the_groups_and_the_settings_are_examined",
    ),
    (
        "neighbour-discovery",
        YELLOW,
        "hosts/doctor.rs",
        "on_a_host_with_an_ipv6_vip_the_groups_and_the_settings_are_examined",
    ),
    ("bound-elsewhere", YELLOW, "hosts/doctor.rs", "addresses_that_others_put_here_are_reported"),
    (
        "bound-elsewhere",
        RED,
        "hosts/doctor/rows.rs",
        "full_maps_lost_events_left_addresses_and_another_owner_are_found",
    ),
    ("labelled-addresses", YELLOW, "hosts/doctor.rs", "addresses_that_others_put_here_are_reported"),
    (
        "arp-ignore",
        YELLOW,
        "hosts/doctor.rs",
        "a_bound_vip_that_the_kernel_answers_for_elsewhere_is_reported_and_the_remedy_helps",
    ),
    (
        "arp-announce",
        YELLOW,
        "hosts/doctor.rs",
        "a_bound_vip_that_the_kernel_answers_for_elsewhere_is_reported_and_the_remedy_helps",
    ),
    (
        "rp-filter",
        YELLOW,
        "hosts/doctor.rs",
        "a_bound_vip_that_the_kernel_answers_for_elsewhere_is_reported_and_the_remedy_helps",
    ),
    ("neighbour-table", YELLOW, "hosts/doctor/rows.rs", "faults_of_the_machine_are_found"),
    ("neighbour-table", RED, "hosts/doctor/rows.rs", "faults_of_the_machine_are_found"),
    (
        "other-vip-software",
        YELLOW,
        "hosts/doctor/unreadable.rs",
        "a_process_that_holds_addresses_too_is_named_where_it_runs_and_nowhere_else",
    ),
    ("doubled", RED, "hosts/proof/doubled.rs", "is_alarmed"),
    ("unknown-hosts", YELLOW, "hosts/doctor/rows.rs", "what_an_interface_is_and_lacks_is_found"),
    ("unknown-hosts", RED, "hosts/doctor.rs", "a_host_that_claims_a_vip_is_named"),
];

/// Checks that no host in a network namespace turns. Unit tests of the core do.
const UNTURNED: [(&str, &str); 3] = [
    // Only a card's driver refuses native XDP, and only a bond runs it on its ports.
    ("program", YELLOW),
    ("mtu", YELLOW),
    // It needs a VLAN device, and not each kernel of a test has 8021q.
    ("vlan-offload", YELLOW),
];

#[test]
fn each_row_has_a_test_that_turns_it() -> Result<()> {
    let turned = TURNED.iter().map(|(check, state, ..)| (*check, *state)).chain(UNTURNED);
    let turned: BTreeSet<_> = turned.collect();
    let wanted = CHECKS.iter().flat_map(|check| {
        let yellow = check.yellow.map(|_| (check.name, YELLOW));
        yellow.into_iter().chain(check.red.map(|_| (check.name, RED)))
    });
    assert_eq!(turned, wanted.collect());
    for (check, state, file, function) in TURNED {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(file);
        let source = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let begin =
            source.find(&format!("fn {function}(")).with_context(|| format!("no {function} in {file}"))?;
        let body = &source[begin..];
        let body = &body[..body.find("\n}\n").unwrap_or(body.len())];
        let expects = body.contains(&format!("\"{check}\"")) && body.to_lowercase().contains(state);
        ensure!(expects, "{function} in {file} does not expect {check} to be {state}");
    }
    Ok(())
}
