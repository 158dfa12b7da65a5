//! An exchange with the kernel over rtnetlink: a dump, or a change and its acknowledgement.
//!
//! The kernel serves rtnetlink inside the system call, so nothing waits and no task is needed. Each
//! exchange has its own socket: notifications cannot crowd out its answers, and the rest of a
//! cancelled dump is closed with it. The namespace is the calling thread's.

use std::io;

use nix::sys::{socket::setsockopt, socket::sockopt::ReceiveTimeout, time::TimeVal};
use rtnetlink::packet_core::{
    NLM_F_ACK, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NLMSG_DONE, NLMSG_ERROR, NetlinkMessage,
};
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};

use super::messages::{self, Malformed};

/// Length of the receive buffer. The kernel fills at most 32 KiB
/// with one part of a dump (`netlink_dump`).
pub(super) const DATAGRAM_BYTES: usize = 64 * 1024;
/// Number of parts of a dump before other tasks may run. A change can interrupt a dump between two
/// parts, so only tables of many thousands of entries pause.
const PARTS_BETWEEN_YIELDS: usize = 64;
const ANSWER_TIMEOUT: TimeVal = TimeVal::new(1, 0);
const KERNEL: u32 = 0;

#[derive(Debug, thiserror::Error)]
pub enum ExchangeError {
    #[error("failed to open an rtnetlink socket")]
    Open(#[source] io::Error),
    #[error("failed to send an rtnetlink request")]
    Send(#[source] io::Error),
    #[error("failed to receive the answer to an rtnetlink request")]
    Receive(#[source] io::Error),
    #[error("the kernel refused an rtnetlink request")]
    Refused(#[source] io::Error),
    #[error("the kernel's answer has {length} bytes, more than the {DATAGRAM_BYTES} there is room for")]
    TooLong { length: usize },
    #[error("a change interrupted the answer; try again")]
    Interrupted,
    #[error(transparent)]
    Malformed(#[from] Malformed),
}

impl ExchangeError {
    /// Returns the kernel's error number, if it refused.
    pub(crate) fn refusal(&self) -> Option<i32> {
        match self {
            Self::Refused(error) => error.raw_os_error(),
            Self::Open(_)
            | Self::Send(_)
            | Self::Receive(_)
            | Self::TooLong { .. }
            | Self::Interrupted
            | Self::Malformed(_) => None,
        }
    }
}

pub(crate) struct Exchange {
    socket: Socket,
    sequence: u32,
    datagram: Vec<u8>,
}

impl Exchange {
    pub(crate) fn open() -> Result<Self, ExchangeError> {
        let socket = Socket::new(NETLINK_ROUTE).map_err(ExchangeError::Open)?;
        setsockopt(&socket, ReceiveTimeout, &ANSWER_TIMEOUT)
            .map_err(|errno| ExchangeError::Open(errno.into()))?;
        // Without this option the kernel ignores the filter of a dump.
        socket.set_netlink_get_strict_chk(true).map_err(ExchangeError::Open)?;
        Ok(Self { socket, sequence: 0, datagram: Vec::with_capacity(DATAGRAM_BYTES) })
    }

    /// Passes every message of the answer to `each`. Lets other tasks run during a long answer.
    ///
    /// Cancel-safe if this exchange is dropped too.
    pub(super) async fn dump(
        &mut self,
        request: RouteNetlinkMessage,
        mut each: impl FnMut(&[u8]) -> Result<(), Malformed>,
    ) -> Result<(), ExchangeError> {
        self.send(request, NLM_F_DUMP)?;
        let mut interrupted = false;
        let mut parts = 0;
        loop {
            self.receive()?;
            parts += 1;
            for message in messages::messages(&self.datagram).filter(|m| m.sequence == self.sequence) {
                interrupted |= message.flags & NLM_F_DUMP_INTR != 0;
                match message.kind {
                    NLMSG_DONE | NLMSG_ERROR => {
                        verdict(message.payload)?;
                        return if interrupted { Err(ExchangeError::Interrupted) } else { Ok(()) };
                    }
                    _ => each(message.payload)?,
                }
            }
            if parts % PARTS_BETWEEN_YIELDS == 0 {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Requests a change. `flags` are added to `NLM_F_REQUEST` and `NLM_F_ACK`.
    pub(crate) fn change(&mut self, request: RouteNetlinkMessage, flags: u16) -> Result<(), ExchangeError> {
        self.send(request, NLM_F_ACK | flags)?;
        loop {
            self.receive()?;
            let answer = messages::messages(&self.datagram)
                .find(|message| message.sequence == self.sequence && message.kind == NLMSG_ERROR);
            if let Some(message) = answer {
                return verdict(message.payload);
            }
        }
    }

    fn send(&mut self, request: RouteNetlinkMessage, flags: u16) -> Result<(), ExchangeError> {
        self.sequence += 1;
        let mut message = NetlinkMessage::from(request);
        message.header.flags = NLM_F_REQUEST | flags;
        message.header.sequence_number = self.sequence;
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.socket.send_to(&bytes, &SocketAddr::new(KERNEL, 0), 0).map_err(ExchangeError::Send)?;
        Ok(())
    }

    fn receive(&mut self) -> Result<(), ExchangeError> {
        loop {
            self.datagram.clear();
            match self.socket.recv_from(&mut self.datagram, libc::MSG_TRUNC) {
                Ok((length, _)) if length > self.datagram.len() => {
                    return Err(ExchangeError::TooLong { length });
                }
                Ok((_, from)) if from.port_number() == KERNEL => return Ok(()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(ExchangeError::Receive(error)),
            }
        }
    }
}

/// Returns the result code at the start of an acknowledgement or of the end of a dump.
fn verdict(payload: &[u8]) -> Result<(), ExchangeError> {
    match payload.first_chunk().map_or(0, |bytes| i32::from_ne_bytes(*bytes)) {
        0 => Ok(()),
        errno => Err(ExchangeError::Refused(io::Error::from_raw_os_error(errno.saturating_neg()))),
    }
}
