//! Prints commands to try on a LAN that stays up.

use super::{
    left_up::LanLeftUp,
    narrator::Narrator,
    stage::{GATEWAY, NIC, VIP},
};

/// Prints the commands, each with its purpose.
pub(super) fn print(lan: &LanLeftUp, narrator: &Narrator) {
    let LanLeftUp { namespaces, agent_pid, vipward, pin_dir, log, .. } = lan;
    let (vipward, pins) = (vipward.display(), pin_dir.display());
    let on = |host: &str| {
        let end = format!("-{host}");
        let name = namespaces.iter().find(|name| name.ends_with(&end));
        format!("ip netns exec {}", name.map_or("?", String::as_str))
    };
    let (client, node, rogue) = (on("client"), on("node-a"), on("rogue"));
    narrator.heading("The LAN stays up. Try, as root:");
    for (command, about) in [
        (format!("{client} arping -c 3 -I {NIC} {VIP}"), "ask for the VIP"),
        (format!("{rogue} arping -U -c 3 -I {NIC} {GATEWAY}"), "claim the gateway"),
        (format!("{node} ip neigh"), "what node-a believes"),
        (format!("{node} {vipward} status --pin-dir {pins}"), "what the kernel has"),
        (format!("{client} {vipward} who-has {VIP}"), "who answers, by a host without an agent"),
        (format!("{node} {vipward} explain {VIP} --pin-dir {pins}"), "why it is answered for, or why not"),
        (format!("bpftool map dump pinned {pins}/vips_v4"), "the VIPs, with named fields"),
        (format!("bpftool map dump pinned {pins}/counters"), "every frame, by outcome"),
        (format!("tail -f {}", log.display()), "what the agent says"),
        (format!("kill -9 {agent_pid}"), "and ask again"),
        ("cargo xtask demo --down".to_owned(), "remove all of it"),
    ] {
        narrator.text(&format!("# {about}"));
        narrator.text(&command);
    }
}
