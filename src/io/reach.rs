//! Servers other than those of HTTP: which of them may be reached.

use std::net::{IpAddr, SocketAddr};

use turnwheel_flow::{IoError, IoErrorKind};

use super::network::{refuse, Closed};
use super::options::IoOptions;

/// The addresses of a server that may be reached, for those who do not resolve its name again: what
/// was checked is what is connected to.
#[cfg(any(feature = "grpc", feature = "nats", feature = "rabbitmq", feature = "websocket"))]
pub(super) async fn addresses(
    options: &IoOptions,
    host: &str,
    port: u16,
) -> Result<Vec<SocketAddr>, IoError> {
    match resolved(options, host, port).await? {
        (open, Some(problem)) if open.is_empty() => forbidden(problem.to_string()),
        (open, _) => Ok(open),
    }
}

/// Refuses a server with an address that may not be reached, for those who resolve its name
/// themselves.
#[cfg(any(feature = "kafka", feature = "nats", feature = "rabbitmq"))]
pub(super) async fn check(options: &IoOptions, host: &str, port: u16) -> Result<(), IoError> {
    match resolved(options, host, port).await? {
        (_, Some(problem)) => forbidden(problem.to_string()),
        _ => Ok(()),
    }
}

fn forbidden<T>(message: String) -> Result<T, IoError> {
    Err(IoError::new(IoErrorKind::Forbidden, message))
}

/// The open addresses of a server, and why another one is closed.
async fn resolved(
    options: &IoOptions,
    host: &str,
    port: u16,
) -> Result<(Vec<SocketAddr>, Option<Closed>), IoError> {
    if !options.allows(host) {
        let message = "may not be talked to: io.http-hosts does not name it";
        return forbidden(format!("the host «{host}» {message}"));
    }
    if !options.allows_port(port) {
        let message = "may not be talked to: io.http-ports does not name it";
        return forbidden(format!("the port {port} of «{host}» {message}"));
    }
    let found: Vec<SocketAddr> = match host.parse::<IpAddr>() {
        Ok(address) => vec![SocketAddr::new(address, port)],
        Err(_) => match tokio::net::lookup_host((host, port)).await {
            Ok(found) => found.collect(),
            Err(error) => {
                let message = format!("the host «{host}» is not known: {error}");
                return Err(IoError::new(IoErrorKind::NotFound, message));
            }
        },
    };
    let (mut open, mut closed) = (Vec::new(), None);
    for address in found {
        match refuse(options, host, address.ip()) {
            Ok(()) => open.push(address),
            Err(problem) => closed = Some(problem),
        }
    }
    Ok((open, closed))
}
