//! A packet socket that receives the statements of peers about their holds.

use std::{
    io,
    os::fd::{AsRawFd, OwnedFd},
    time::Duration,
};

use nix::{
    errno::Errno,
    sys::socket::{LinkAddr, SockType, bind, recvfrom},
};
use tokio::{
    io::{Interest, unix::AsyncFd},
    time::{Instant, sleep_until},
};
use vipward_core::{
    agent::Stated,
    segment::rivals::statement::{self, ETHERTYPE, MAGIC},
};

use super::{
    packet::{PacketError, address, open},
    segment::{RETURN, attach_filter, beside, drop_frame, go_on_if_equal, load_word, step},
};

/// The longest statement.
const LONGEST: usize = 1_500;
/// The most statements that are read at once, and the time to the next reading. A flood from any host
/// must not keep the event loop busy.
const MOST: usize = 64;
const PAUSE: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub struct Statements {
    socket: AsyncFd<OwnedFd>,
    next: Instant,
}

impl Statements {
    /// Opens the socket, for all interfaces of the calling thread's network namespace.
    pub fn open() -> Result<Self, PacketError> {
        let socket = open(SockType::Raw).map_err(PacketError::Open)?;
        let mut program = [
            // Behind the Ethernet header.
            load_word(14),
            go_on_if_equal(u32::from_be_bytes(MAGIC)),
            drop_frame(),
            load_word(beside(libc::SKF_AD_PKTTYPE)),
            go_on_if_equal(libc::PACKET_HOST.into()),
            drop_frame(),
            step(RETURN, u32::try_from(LONGEST).expect("invariant: it is small"), 0, 0),
        ];
        // It is bound after the filter is set, so every frame in it has passed the filter.
        attach_filter(&socket, &mut program).map_err(PacketError::Open)?;
        bind(socket.as_raw_fd(), &address(0, ETHERTYPE)).map_err(PacketError::Open)?;
        // SAFETY: an OwnedFd returns the same descriptor always, and closes it when it is dropped.
        let registered = unsafe { AsyncFd::register_with_interest(socket, Interest::READABLE) };
        let error = |error: io::Error| Errno::from_raw(error.raw_os_error().unwrap_or_default());
        let socket = registered.map_err(|failed| PacketError::Open(error(failed.into())))?;
        Ok(Self { socket, next: Instant::now() })
    }

    /// Waits for statements. Cancel-safe.
    pub async fn receive(&mut self) -> Vec<Stated> {
        loop {
            sleep_until(self.next).await;
            let Ok(mut ready) = self.socket.readable().await else { return std::future::pending().await };
            let mut received = Vec::new();
            for _ in 0..MOST {
                let mut buffer = [0; LONGEST];
                let read = ready.try_io(|socket| Ok(recvfrom::<LinkAddr>(socket.as_raw_fd(), &mut buffer)?));
                let Ok(read) = read else { break };
                // An interface that goes down is an error, without data to read.
                let Ok((length, Some(from))) = read else { continue };
                let ifindex = u32::try_from(from.ifindex()).unwrap_or_default();
                let statement = statement::read(&buffer[..length.min(LONGEST)]);
                received.extend(statement.map(|(from, holds)| Stated { ifindex, from, holds }));
            }
            self.next = Instant::now() + PAUSE;
            if !received.is_empty() {
                return received;
            }
        }
    }
}
