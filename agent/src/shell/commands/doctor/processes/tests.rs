use super::{locked_bytes, policy, program};

#[test]
fn a_program_is_the_last_part_of_its_path() {
    let table: [(&[u8], &str); 6] = [
        (b"/usr/sbin/keepalived\0--dont-fork\0", "keepalived"),
        (b"/speaker\0", "speaker"),
        (b"kube-vip\0manager\0", "kube-vip"),
        (b"keepalived: worker\0", "keepalived"),
        (b"", ""),
        (b"/bin/\xff\0", "\u{fffd}"),
    ];
    for (line, expected) in table {
        assert_eq!(program(line), expected, "{line:?}");
    }
}

#[test]
fn the_policy_of_a_thread_and_the_locked_memory_of_its_process_are_read() {
    let fields: Vec<String> = (3..=52).map(|field| field.to_string()).collect();
    let stat = format!("4711 (a) thread) {}", fields.join(" "));
    assert_eq!(policy(&stat), Some(41));
    assert_eq!(policy("4711 (short) S 1"), None);
    assert_eq!(locked_bytes("VmPeak:\t  9 kB\nVmLck:\t     12 kB\n"), 12 * 1024);
    assert_eq!(locked_bytes(""), 0);
}
