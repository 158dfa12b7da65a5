use super::*;
use crate::shell::testing::TempDir;

#[test]
fn a_notification_arrives_at_a_path_and_at_an_abstract_name() {
    let temp = TempDir::new();
    let path = temp.0.join("notify").into_os_string();
    let name = format!("vipward-test-{}", process::id());
    let at_path = UnixDatagram::bind(&path).expect("a socket");
    let abstract_name = SocketAddr::from_abstract_name(&name).expect("a name");
    let at_name = UnixDatagram::bind_addr(&abstract_name).expect("a socket");
    for (socket, name) in [(at_path, path), (at_name, format!("@{name}").into())] {
        let systemd = Systemd::at(&name, None).expect("an address");
        systemd.notify("READY=1").expect("it is sent");
        let mut received = [0; 64];
        let bytes = socket.recv(&mut received).expect("it arrives");
        assert_eq!(&received[..bytes], b"READY=1", "{}", name.display());
        // A systemd that does not read holds nobody up.
        while systemd.notify("WATCHDOG=1").is_ok() {}
    }
    assert!(Systemd::at(OsStr::new("vsock:2:1"), None).is_err());
}

#[test]
fn the_watchdog_is_for_the_process_that_it_names() {
    let text = |text: &str| Some(text.to_owned());
    let table = [
        (None, None, None),
        (text("10000000"), None, Some(Duration::from_secs(10))),
        (text("10000000"), text("7"), Some(Duration::from_secs(10))),
        (text("10000000"), text("8"), None),
        (text("0"), None, None),
        (text("soon"), None, None),
    ];
    for (usec, pid, expected) in table {
        assert_eq!(watchdog(usec.clone(), pid.clone(), 7), expected, "{usec:?} {pid:?}");
    }
}
