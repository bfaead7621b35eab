//! The executor `nats`: one message to a subject.

use async_nats::{HeaderMap, ServerAddr};
use turnwheel_jobs::{Call, Executor, Settings, Verdict, Work};

use super::only;
use super::reach::{allow, text, within};
use crate::io::broker::nats::{connect, Login};
use crate::io::HostIo;

/// Settings that the executor knows: those of Dkron.
const KNOWN: [&str; 6] = ["url", "subject", "message", "userName", "password", "debug"];

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
            allow(&self.io, server.host(), server.port()).await?;
        }
        let login = match text(config, "userName") {
            "" => Login::Nobody,
            user => {
                let password = config.get("password").cloned().unwrap_or_default();
                Login::Name(user.to_owned(), password)
            }
        };
        let failed = |problem: String| format!("NATS: {problem}");
        let session = connect(servers, login).await.map_err(failed)?;
        let subject = text(config, "subject");
        let message = config.get("message").cloned().unwrap_or_default();
        let sent = session.send(subject, &work.key, HeaderMap::new(), message.into_bytes()).await;
        sent.map_err(failed)?;
        Ok(format!("sent to {subject}"))
    }
}
