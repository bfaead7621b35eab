//! Messages to systemd (`sd_notify`): the server is ready, stops, lives.
//!
//! They are datagrams to the socket that `NOTIFY_SOCKET` names. Nothing is sent without it, and a
//! message that cannot be sent changes nothing for the server.

use std::convert::Infallible;
use std::time::Duration;

/// The process that has started this one and wants to know its state.
#[derive(Debug)]
pub(super) struct Supervisor {
    #[cfg(target_os = "linux")]
    socket: Option<std::os::unix::net::UnixDatagram>,
    /// Time between two signs of life, if some are wanted.
    watchdog: Option<Duration>,
}

impl Supervisor {
    /// The one that the environment names.
    pub(super) fn of_environment() -> Self {
        let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
        let own = u64::from(std::process::id());
        let is_meant = number("WATCHDOG_PID").is_none_or(|pid| pid == own);
        let limit_us = number("WATCHDOG_USEC").filter(|us| is_meant && *us > 0);
        Self {
            #[cfg(target_os = "linux")]
            socket: socket(),
            // Half of the limit, as sd_watchdog_enabled(3) advises.
            watchdog: limit_us.map(|us| Duration::from_micros((us / 2).max(1))),
        }
    }

    /// The server listens.
    pub(super) fn ready(&self) {
        self.tell("READY=1\nSTATUS=serving");
    }

    /// Tokens and certificates are read again; [`ready`](Self::ready) ends that.
    pub(super) fn reloading(&self) {
        self.tell("STATUS=reading tokens and certificates again");
    }

    /// The server stops in order.
    pub(super) fn stopping(&self) {
        self.tell("STOPPING=1\nSTATUS=stopping");
    }

    /// Signs of life, as long as the runtime of the server runs tasks.
    pub(super) async fn live(&self) -> Infallible {
        let Some(pause) = self.watchdog else { return std::future::pending().await };
        loop {
            self.tell("WATCHDOG=1");
            tokio::time::sleep(pause).await;
        }
    }

    #[cfg(target_os = "linux")]
    fn tell(&self, state: &str) {
        let Some(socket) = &self.socket else { return };
        if let Err(error) = socket.send(state.as_bytes()) {
            tracing::debug!(%error, "the supervisor is not told");
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn tell(&self, _: &str) {}
}

#[cfg(target_os = "linux")]
fn socket() -> Option<std::os::unix::net::UnixDatagram> {
    use std::os::linux::net::SocketAddrExt as _;
    use std::os::unix::net::{SocketAddr, UnixDatagram};

    let name = std::env::var("NOTIFY_SOCKET").ok()?;
    let address = match name.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(&name),
    };
    let connect = |address| {
        let socket = UnixDatagram::unbound()?;
        // A supervisor that does not read must not hold the server up.
        socket.set_nonblocking(true)?;
        socket.connect_addr(&address)?;
        Ok(socket)
    };
    match address.and_then(connect) {
        Ok(socket) => Some(socket),
        Err(error) => {
            tracing::warn!(name, %error, "NOTIFY_SOCKET cannot be used: nobody is told of the state");
            None
        }
    }
}
