//! NATS: messages to subjects and from them.
//!
//! The server delivers a message once, to those who listen at that time. A stream of the server
//! (JetStream) that pushes to the subject wants each message acknowledged by an answer, and
//! delivers it again without one.

use std::future::{poll_fn, Future};
use std::pin::Pin;
use std::sync::Arc;

use async_nats::{Client, ConnectOptions, Event, HeaderMap, Message, ServerAddr, Subscriber};
use futures_core::Stream as _;
use parking_lot::Mutex;
use tokio::sync::Notify;
use turnwheel_flow::{BrokerChannel, BrokerMessage, IoError, IoErrorKind};

use super::{Acknowledge, Reception, CONNECT, LATE};

/// Header by which a stream of the server recognises a message that comes again.
const KEY: &str = "Nats-Msg-Id";

/// Header with the type of a message.
const TYPE: &str = "Content-Type";

/// Subjects that a stream wants its acknowledgements at begin with this.
const ACKNOWLEDGED_AT: &str = "$JS.ACK.";

/// An acknowledgement of a stream.
const ACKNOWLEDGEMENT: &str = "+ACK";

/// Answer for a message that is to come again.
const REFUSAL: &str = "-NAK";

/// Identity for a server.
#[derive(Clone)]
pub(in crate::io) enum Login {
    /// Nobody in particular.
    Nobody,
    /// A name and a password.
    Name(String, String),
    /// A token.
    Token(String),
}

/// A connection, and what went wrong with it.
pub(in crate::io) struct Session {
    client: Client,
    trouble: Arc<Trouble>,
}

#[derive(Debug, Default)]
struct Trouble {
    first: Mutex<Option<String>>,
    came: Notify,
}

impl Trouble {
    fn note(&self, event: &Event) {
        let problem = match event {
            Event::Disconnected | Event::Closed => "the connection was lost".to_owned(),
            Event::SlowConsumer(_) => {
                "messages were lost, which came faster than they were taken".to_owned()
            }
            Event::ServerError(error) => format!("the server says: {error}"),
            Event::ClientError(error) => error.to_string(),
            _ => return,
        };
        self.first.lock().get_or_insert(problem);
        self.came.notify_one();
    }

    fn take(&self) -> Option<String> {
        self.first.lock().take()
    }

    /// Waits for something to go wrong.
    async fn wait(&self) -> String {
        loop {
            if let Some(problem) = self.take() {
                return problem;
            }
            self.came.notified().await;
        }
    }
}

/// Connects to one of the servers.
pub(in crate::io) async fn connect(
    servers: Vec<ServerAddr>,
    login: Login,
) -> Result<Session, String> {
    let trouble = Arc::new(Trouble::default());
    let told = Arc::clone(&trouble);
    let options = ConnectOptions::new().connection_timeout(CONNECT).name("turnwheel");
    // A server that others name has passed no check here.
    let options = options.ignore_discovered_servers().max_reconnects(servers.len());
    let options = options.event_callback(move |event| {
        told.note(&event);
        async {}
    });
    let options = match login {
        Login::Nobody => options,
        Login::Name(name, password) => options.user_and_password(name, password),
        Login::Token(token) => options.token(token),
    };
    let client = options.connect(servers).await.map_err(|error| error.to_string())?;
    Ok(Session { client, trouble })
}

impl Session {
    /// Sends a message, and waits until the server has it.
    pub(in crate::io) async fn send(
        &self,
        subject: &str,
        key: &str,
        mut headers: HeaderMap,
        body: Vec<u8>,
    ) -> Result<(), String> {
        fn told(error: impl ToString) -> String {
            error.to_string()
        }
        headers.insert(KEY, key);
        // A message to itself comes back when the server has taken the one before it.
        let inbox = self.client.new_inbox();
        let mut echo = self.client.subscribe(inbox.clone()).await.map_err(told)?;
        let sent = self.client.publish_with_headers(subject.to_owned(), headers, body.into()).await;
        sent.map_err(told)?;
        self.client.publish(inbox, Default::default()).await.map_err(told)?;
        self.client.flush().await.map_err(told)?;
        let back = poll_fn(|cx| Pin::new(&mut echo).poll_next(cx)).await;
        // A refusal has come before it, and is told by a task of its own.
        tokio::task::yield_now().await;
        match (back, self.trouble.take()) {
            (_, Some(problem)) => Err(problem),
            (None, None) => Err("the server has closed the connection".to_owned()),
            (Some(_), None) => Ok(()),
        }
    }
}

/// Sends a message of a flow.
pub(super) async fn publish(
    channel: &BrokerChannel,
    hosts: &[String],
    message: &BrokerMessage,
    key: &str,
) -> Result<(), IoError> {
    let failed = |problem: String| told(channel, &problem);
    let session = connect(servers(channel, hosts)?, login(channel)).await.map_err(failed)?;
    let mut headers = HeaderMap::new();
    for (name, value) in &message.headers {
        headers.insert(name.as_str(), value.as_str());
    }
    if let Some(kind) = &message.content_type {
        headers.insert(TYPE, kind.as_str());
    }
    session.send(&channel.address, key, headers, message.body.clone()).await.map_err(failed)
}

/// Receives messages for a flow.
pub(super) async fn receive(
    channel: &BrokerChannel,
    hosts: &[String],
    reception: &mut Reception<'_>,
) -> Result<Option<Acknowledge>, IoError> {
    let failed = |problem: String| told(channel, &problem);
    let Session { client, trouble } =
        connect(servers(channel, hosts)?, login(channel)).await.map_err(failed)?;
    let subject = channel.address.clone();
    let coming = match &channel.queue {
        Some(group) => client.queue_subscribe(subject, group.clone()).await,
        None => client.subscribe(subject).await,
    };
    let mut coming = coming.map_err(|error| failed(error.to_string()))?;
    let mut wanted = Vec::new();
    loop {
        let next = next_or(poll_fn(|cx| Pin::new(&mut coming).poll_next(cx)), &trouble);
        let Some(next) = reception.next(next).await? else { break };
        let message = next.map_err(failed)?;
        wanted.extend(message.reply.clone().filter(|at| at.starts_with(ACKNOWLEDGED_AT)));
        if reception.take(&of(message))? {
            break;
        }
    }
    give_back(&client, coming).await;
    if wanted.is_empty() {
        return Ok(None);
    }
    Ok(Some(Box::pin(async move {
        for at in wanted {
            let sent = client.publish(at, ACKNOWLEDGEMENT.into()).await;
            sent.map_err(|error| error.to_string())?;
        }
        client.flush().await.map_err(|error| error.to_string())
    })))
}

/// Ends the subscription, and then refuses what a stream has pushed and nobody has taken: others get
/// it at once, and not after the time that the stream gives for an acknowledgement. A message that
/// is on its way at that moment comes in that time.
async fn give_back(client: &Client, mut coming: Subscriber) {
    let work = async {
        // Refused before that, it would come here once more.
        let _lost = coming.drain().await;
        while let Some(message) = poll_fn(|cx| Pin::new(&mut coming).poll_next(cx)).await {
            if let Some(at) = message.reply.filter(|at| at.starts_with(ACKNOWLEDGED_AT)) {
                // If it is lost, the stream sends the message again in its own time.
                let _lost = client.publish(at, REFUSAL.into()).await;
            }
        }
        client.flush().await
    };
    let _late = tokio::time::timeout(LATE / 2, work).await;
}

/// The next message, or what went wrong. Messages that are there come first.
async fn next_or(
    next: impl Future<Output = Option<Message>>,
    trouble: &Trouble,
) -> Result<Message, String> {
    tokio::select! {
        biased;
        message = next => message.ok_or_else(|| "the server has closed the connection".to_owned()),
        problem = trouble.wait() => Err(problem),
    }
}

fn told(channel: &BrokerChannel, problem: &str) -> IoError {
    let refused = ["authorization violation", "permissions violation", "authentication"];
    let text = problem.to_ascii_lowercase();
    let kind = match refused.iter().any(|known| text.contains(known)) {
        true => IoErrorKind::Forbidden,
        false => IoErrorKind::Communication,
    };
    IoError::new(kind, format!("{}: {problem}", channel.shown()))
}

fn servers(channel: &BrokerChannel, hosts: &[String]) -> Result<Vec<ServerAddr>, IoError> {
    let scheme = if channel.is_tls { "tls" } else { "nats" };
    let address = |host: &String| {
        let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
        let address = format!("{scheme}://{host}:{}", channel.port);
        address.parse().map_err(|error| {
            let message = format!("{} is no address of NATS: {error}", channel.shown());
            IoError::new(IoErrorKind::Unsupported, message)
        })
    };
    hosts.iter().map(address).collect()
}

fn login(channel: &BrokerChannel) -> Login {
    match (&channel.login, &channel.token) {
        (Some((name, password)), _) => Login::Name(name.clone(), password.clone()),
        (None, Some(token)) => Login::Token(token.clone()),
        (None, None) => Login::Nobody,
    }
}

fn of(message: Message) -> BrokerMessage {
    let (mut headers, mut content_type) = (Vec::new(), None);
    for (name, values) in message.headers.iter().flat_map(HeaderMap::iter) {
        let values: Vec<&str> = values.iter().map(|value| value.as_str()).collect();
        let (name, value) = (name.to_string(), values.join(", "));
        match name.eq_ignore_ascii_case(TYPE) {
            true => content_type = Some(value),
            false => headers.push((name, value)),
        }
    }
    BrokerMessage { headers, content_type, correlation: None, body: message.payload.to_vec() }
}
