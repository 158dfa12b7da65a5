use super::program;

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
