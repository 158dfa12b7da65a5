use super::*;
use State::{Green, Red, Unknown, Yellow};

fn entries(facts: &mut Facts, entries: u32) {
    facts.neighbours.as_mut().expect("read").entries = entries;
}

#[test]
fn the_neighbour_table() {
    let remedy: &[&str] = &["gc_thresh3=4096", "gc_thresh2=2048"];
    assert_rows(
        None,
        &[
            ("room", |_| {}, "neighbour-table", Green, &["12 entries", "1024"], &[]),
            ("nearly full", |it| entries(it, 800), "neighbour-table", Yellow, &["nearly full"], remedy),
            ("full", |it| entries(it, 1_020), "neighbour-table", Red, &["full", "cannot be reached"], remedy),
            (
                "it was full once",
                |it| it.neighbours.as_mut().expect("read").overflows = 3,
                "neighbour-table",
                Yellow,
                &["3 times"],
                remedy,
            ),
            (
                "tiny",
                |it| it.neighbours.as_mut().expect("read").limits = [16, 32, 64],
                "neighbour-table",
                Yellow,
                &["limits 32 and 64", "less than the kernel's default 1024"],
                remedy,
            ),
            (
                "of no room at all",
                |it| it.neighbours.as_mut().expect("read").limits = [0, 0, 0],
                "neighbour-table",
                Red,
                &["full"],
                remedy,
            ),
            (
                "a namespace has none of its own",
                |it| it.neighbours = Err(unread("only in the initial namespace")),
                "neighbour-table",
                Unknown,
                &["initial namespace"],
                &[],
            ),
        ],
    );
}

#[test]
fn other_software_that_holds_addresses() {
    assert_rows(
        None,
        &[
            ("no rival", |_| {}, "other-vip-software", Green, &["none runs here"], &[]),
            (
                "not read",
                |it| it.processes = Err(unread("no /proc")),
                "other-vip-software",
                Unknown,
                &["no /proc"],
                &[],
            ),
            (
                "in a container's PID namespace",
                |it| it.sees_all_processes = Ok(false),
                "other-vip-software",
                Unknown,
                &["none is seen", "PID namespace"],
                &["on the node itself", "hostPID: true"],
            ),
            (
                "no process knows in which",
                |it| it.sees_all_processes = Err(unread("no /proc/self")),
                "other-vip-software",
                Unknown,
                &["no /proc/self"],
                &[],
            ),
            (
                "in that namespace too",
                |it| {
                    it.sees_all_processes = Ok(false);
                    it.processes = Ok(vec![process(77, "keepalived", "keepalived")]);
                },
                "other-vip-software",
                Yellow,
                &["keepalived (pid 77)"],
                &["stop the other"],
            ),
            (
                "by its name",
                |it| it.processes = Ok(vec![process(77, "keepalived", "sh")]),
                "other-vip-software",
                Yellow,
                &["keepalived (pid 77)"],
                &["stop the other", "range"],
            ),
            (
                "by its path",
                |it| {
                    it.processes =
                        Ok(vec![process(78, "main", "speaker"), process(79, "kube-vip", "kube-vip")]);
                },
                "other-vip-software",
                Yellow,
                &["MetalLB", "(pid 78)", "kube-vip (pid 79)"],
                &[],
            ),
            (
                "ucarp",
                |it| it.processes = Ok(vec![process(80, "ucarp", "ucarp")]),
                "other-vip-software",
                Yellow,
                &["ucarp (pid 80)"],
                &[],
            ),
        ],
    );
}
