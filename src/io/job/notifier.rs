//! Notifications of jobs: webhooks by the client of flows, mail by SMTP.

use std::time::Duration;

use lettre::message::Mailbox;
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Tls, TlsParameters};
use lettre::{SmtpTransport, Transport};
use turnwheel_flow::{header_problem, HttpRequest, Io, IoCall};
use turnwheel_jobs::{Message, Notifier, Notify};

use crate::io::HostIo;

/// Time limit of a webhook, and of each step of a mail. Some servers of mail greet after 6 s only.
const PATIENCE: Duration = Duration::from_secs(10);

/// A server of mail, for notifications of jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mail {
    /// Its name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// How the connection is encrypted.
    pub tls: MailTls,
    /// Name and password.
    pub login: Option<(String, String)>,
    /// The address of the sender.
    pub from: String,
    /// Text before each subject.
    pub subject_prefix: String,
}

/// Encryption of a connection for mail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MailTls {
    /// It begins in clear and must change to TLS.
    #[default]
    StartTls,
    /// TLS from the begin.
    Tls,
    /// None.
    None,
}

/// Sends notifications.
#[derive(Clone, Debug)]
pub(super) struct Sender {
    pub(super) io: HostIo,
}

fn header(line: &str) -> (String, String) {
    let (name, value) = line.split_once(':').unwrap_or((line, ""));
    (name.trim().to_owned(), value.trim().to_owned())
}

impl Notifier for Sender {
    fn check(&self, notify: &Notify) -> Result<(), String> {
        if !notify.webhook.is_empty() {
            let is_http = ["http://", "https://"].iter().any(|it| notify.webhook.starts_with(it));
            let problem = || format!("webhook: «{}» is no address of HTTP", notify.webhook);
            is_http.then_some(()).ok_or_else(problem)?;
            let mut names = notify.headers.iter().map(|line| header(line).0);
            let wrong = names.find_map(|name| header_problem(&name));
            return wrong.map_or(Ok(()), |problem| Err(format!("headers: {problem}")));
        }
        if self.io.inner.options.mail.is_none() {
            return Err(
                "mail: no server of mail is set: set jobs.mail-host and jobs.mail-from".to_owned()
            );
        }
        for address in notify.mail.iter().filter(|address| *address != "owner") {
            let parsed = address.parse::<Mailbox>();
            parsed.map_err(|error| format!("mail: «{address}»: {error}"))?;
        }
        Ok(())
    }

    fn send(
        &self,
        message: &Message,
        is_cancelled: &(dyn Fn() -> bool + Sync),
    ) -> Result<(), String> {
        match message.webhook.is_empty() {
            true => self.mail(message),
            false => self.webhook(message, is_cancelled),
        }
    }
}

impl Sender {
    fn webhook(
        &self,
        message: &Message,
        is_cancelled: &(dyn Fn() -> bool + Sync),
    ) -> Result<(), String> {
        let mut headers: Vec<(String, String)> =
            message.headers.iter().map(|line| header(line)).collect();
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type")) {
            headers.push(("content-type".to_owned(), "application/json".to_owned()));
        }
        let request = HttpRequest {
            method: "POST".to_owned(),
            uri: message.webhook.clone(),
            headers,
            body: Some(message.body.clone().into_bytes()),
            follows_redirects: true,
            digest: None,
        };
        let call = IoCall::new(&message.key, is_cancelled).limit(Some(PATIENCE));
        let answer = self.io.http(&request, &call).map_err(|error| error.message)?;
        match answer.status {
            200..=299 => Ok(()),
            status => Err(format!("the webhook of {} answers {status}", message.job)),
        }
    }

    fn mail(&self, message: &Message) -> Result<(), String> {
        let mail = self.io.inner.options.mail.as_ref();
        let mail = mail.ok_or("no server of mail is set: set jobs.mail-host")?;
        let mailbox = |text: &str| {
            text.parse::<Mailbox>().map_err(|error| format!("the address «{text}»: {error}"))
        };
        let subject = format!("{}{}", mail.subject_prefix, message.subject);
        let mut letter = lettre::Message::builder().from(mailbox(&mail.from)?).subject(subject);
        for address in &message.mail {
            letter = letter.to(mailbox(address)?);
        }
        let letter = letter.body(message.body.clone()).map_err(|error| error.to_string())?;
        let told = |error: lettre::transport::smtp::Error| {
            format!("the server of mail {}:{}: {error}", mail.host, mail.port)
        };
        let tls = || TlsParameters::new(mail.host.clone()).map_err(told);
        let tls = match mail.tls {
            MailTls::None => Tls::None,
            MailTls::StartTls => Tls::Required(tls()?),
            MailTls::Tls => Tls::Wrapper(tls()?),
        };
        let server = SmtpTransport::builder_dangerous(&mail.host).port(mail.port).tls(tls);
        let server = server.timeout(Some(PATIENCE));
        let server = match &mail.login {
            Some((name, password)) => {
                server.credentials(Credentials::new(name.clone(), password.clone()))
            }
            None => server,
        };
        server.build().send(&letter).map(drop).map_err(told)
    }
}
