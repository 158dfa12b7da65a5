use std::os::unix::net::UnixDatagram;

use super::*;
use crate::shell::testing::TempDir;

/// A service manager whose socket is read when a test says so.
struct Manager {
    socket: UnixDatagram,
    service: Service,
    _directory: TempDir,
}

fn at(ms: u64) -> Monotonic {
    Monotonic::from_nanos(1_000_000_000) + Duration::from_millis(ms)
}

impl Manager {
    fn start() -> Self {
        let directory = TempDir::new();
        let path = directory.0.join("notify");
        let socket = UnixDatagram::bind(&path).expect("a socket");
        socket.set_nonblocking(true).expect("a socket that does not block");
        let systemd = Systemd::at(path.as_os_str(), Some(Duration::from_secs(10))).expect("an address");
        Self { socket, service: Service::start(systemd, at(0)), _directory: directory }
    }

    fn fill(&self) {
        while self.service.systemd.notify("FULL").is_ok() {}
    }

    fn turn(&mut self, has_decided: bool, held: usize, ms: u64) {
        self.service.on_turn(|| has_decided, || Status { held, ..Status::default() }, at(ms));
    }

    /// Empties the socket, and returns what the service has sent.
    fn received(&self) -> Vec<String> {
        let mut all = Vec::new();
        let mut datagram = [0; 4_096];
        while let Ok(bytes) = self.socket.recv(&mut datagram) {
            all.push(String::from_utf8_lossy(&datagram[..bytes]).into_owned());
        }
        all.retain(|state| state != "FULL");
        all
    }
}

#[test]
fn what_a_full_socket_refuses_is_sent_within_a_second_of_room() {
    // Description, whether the VIPs are decided on, and the time of the first attempt in ms.
    for (what, has_decided, begin) in [("decided", true, 0), ("after its time", false, 10_000)] {
        let mut manager = Manager::start();
        manager.fill();
        manager.turn(has_decided, 1, begin);
        assert_eq!(manager.service.next_deadline(), Some(at(begin + 1_000)), "{what}");
        manager.turn(has_decided, 1, begin + 1_000);
        assert_eq!(manager.received(), [""; 0], "{what}: still full");
        manager.turn(has_decided, 1, begin + 1_999);
        assert_eq!(manager.received(), [""; 0], "{what}: it is not tried in each turn");
        manager.turn(has_decided, 1, begin + 2_000);
        let ready = "READY=1\nSTATUS=VIPs held: 1, waiting: 0";
        assert_eq!(manager.received(), ["WATCHDOG=1", ready], "{what}");
        assert_eq!(manager.service.next_deadline(), Some(at(begin + 7_000)), "{what}: only the ping is left");

        manager.fill();
        manager.turn(true, 2, begin + 7_000);
        assert_eq!(manager.received(), [""; 0], "{what}: full again");
        manager.turn(true, 2, begin + 8_000);
        assert_eq!(manager.received(), ["WATCHDOG=1", "STATUS=VIPs held: 2, waiting: 0"], "{what}");
        manager.turn(true, 2, begin + 13_000);
        assert_eq!(manager.received(), ["WATCHDOG=1"], "{what}: nothing has changed");
    }
}
