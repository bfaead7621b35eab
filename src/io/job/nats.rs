//! The executor `nats`: one message to a subject.

use std::pin::Pin;
use std::time::Duration;

use async_nats::{ConnectOptions, HeaderMap, ServerAddr};
use futures_core::Stream as _;
use turnwheel_jobs::{Call, Executor, Settings, Verdict, Work};

use super::only;
use super::reach::{allow, text, within};
use crate::io::HostIo;

/// Settings that the executor knows: those of Dkron.
const KNOWN: [&str; 6] = ["url", "subject", "message", "userName", "password", "debug"];

/// Time limit of one connection; the list may have several servers.
const CONNECT: Duration = Duration::from_secs(10);

/// Header by which a stream of the server recognises a message that comes again.
const KEY: &str = "Nats-Msg-Id";

/// Sends messages.
#[derive(Clone, Debug)]
pub(super) struct Nats {
    pub(super) io: HostIo,
}

/// The servers of the setting.
fn servers(config: &Settings) -> Result<Vec<ServerAddr>, String> {
    let parts = text(config, "url").split(',').map(str::trim).filter(|part| !part.is_empty());
    let servers: Result<Vec<ServerAddr>, String> = parts
        .map(|part| {
            part.parse().map_err(|error| format!("url: «{part}» is no address of NATS: {error}"))
        })
        .collect();
    match servers {
        Ok(servers) if servers.is_empty() => {
            Err("url: it is empty: give one such as nats://host:4222".to_owned())
        }
        servers => servers,
    }
}

impl Executor for Nats {
    fn check(&self, config: &Settings) -> Result<(), String> {
        only("nats", config, &KNOWN)?;
        let subject = text(config, "subject");
        if subject.is_empty() || subject.contains([' ', '*', '>']) {
            let advice = "give one without blanks and wildcards, such as cron.done";
            return Err(format!("subject: «{subject}» is no subject of a message: {advice}"));
        }
        servers(config).map(drop)
    }

    fn execute(&self, work: &Work, call: &Call<'_>) -> Verdict {
        within(work, call, self.send(work))
    }
}

impl Nats {
    async fn send(&self, work: &Work) -> Result<String, String> {
        let config = &work.config;
        let servers = servers(config)?;
        for server in &servers {
            allow(&self.io, server.host(), server.port())?;
        }
        let options = ConnectOptions::new().connection_timeout(CONNECT).name("turnwheel");
        // A server that others name has passed no check here.
        let options = options.ignore_discovered_servers().max_reconnects(1);
        let options = match text(config, "userName") {
            "" => options,
            user => {
                let password = config.get("password").cloned().unwrap_or_default();
                options.user_and_password(user.to_owned(), password)
            }
        };
        let failed = |error: &dyn std::fmt::Display| format!("NATS: {error}");
        let client = options.connect(servers).await.map_err(|error| failed(&error))?;
        // A message to itself comes back when the server has taken the one before it.
        let inbox = client.new_inbox();
        let echo = client.subscribe(inbox.clone()).await;
        let mut echo = echo.map_err(|error| failed(&error))?;
        let (subject, mut headers) = (text(config, "subject").to_owned(), HeaderMap::new());
        headers.insert(KEY, work.key.as_str());
        let message = config.get("message").cloned().unwrap_or_default();
        let sent = client.publish_with_headers(subject.clone(), headers, message.into()).await;
        sent.map_err(|error| failed(&error))?;
        client.publish(inbox, Default::default()).await.map_err(|error| failed(&error))?;
        client.flush().await.map_err(|error| failed(&error))?;
        let back = std::future::poll_fn(|cx| Pin::new(&mut echo).poll_next(cx)).await;
        back.map(|_| format!("sent to {subject}"))
            .ok_or_else(|| "NATS: the server has closed the connection".to_owned())
    }
}
