//! Calls of AsyncAPI: messages that are published or received over HTTP or at a broker.

use super::fields::{field, Fields};
use super::Reader;
use crate::definition::Needed;
use crate::expr::{has_expression, Template};
use crate::limits::SUBSCRIPTION_MESSAGES_MAX;
use crate::model::{AsyncApi, Consume, Kind, Span, Subscription, Transport};
use crate::scope::Stage;
use crate::text::{Content, Node};

const EFFECT: Stage = Stage::Definition { is_effect: true };

/// Protocols of the DSL.
const PROTOCOLS: [&str; 20] = [
    "amqp",
    "amqp1",
    "anypointmq",
    "googlepubsub",
    "http",
    "https",
    "ibmmq",
    "jms",
    "kafka",
    "mercure",
    "mqtt",
    "mqtt5",
    "nats",
    "pulsar",
    "redis",
    "sns",
    "solace",
    "sqs",
    "stomp",
    "ws",
];

impl Reader<'_> {
    pub(super) fn asyncapi(
        &mut self,
        node: &Node,
        with: Option<&Node>,
        pointer: &str,
    ) -> Option<Kind> {
        let Some(with) = with else {
            self.wrong(node, "call: asyncapi must have the field «with»");
            return None;
        };
        let known = [
            "document",
            "channel",
            "operation",
            "server",
            "protocol",
            "message",
            "subscription",
            "authentication",
        ];
        let fields = self.object(with, "the «with» of an AsyncAPI call", &known, &["document"]);
        let protocol = field(fields, "protocol").and_then(|node| self.protocol(node));
        let document = field(fields, "document").and_then(|node| self.resource(node, "«document»"));
        let place = self.place(with, fields);
        let (server, variables) = self.server(fields);
        let (message, subscription) = (field(fields, "message"), field(fields, "subscription"));
        if message.is_some() == subscription.is_some() {
            let hint = "a «message» to publish, or a «subscription»";
            self.wrong_so(with, "an AsyncAPI call must have one thing to do", hint);
            return None;
        }
        let each = subscription.and_then(|node| node.get("foreach"));
        let subscription = match subscription {
            Some(node) => Some(self.subscription(node)?),
            None => None,
        };
        let fields_of_message = match message {
            Some(message) => self.object(message, "«message»", &["payload", "headers"], &[]),
            None => &[],
        };
        let payload = field(fields_of_message, "payload");
        let payload = payload.map(|node| self.template(node, "«payload»", EFFECT));
        let headers = field(fields_of_message, "headers");
        let headers = headers.map(|node| self.object_template(node, "«headers»", EFFECT));
        let authentication = field(fields, "authentication");
        let authentication = authentication.and_then(|node| self.authentication(node, true));
        let (document, (place, is_channel)) = (document?, place?);
        let kind = Kind::AsyncApi(Box::new(AsyncApi {
            document,
            place,
            is_channel,
            protocol,
            server,
            variables,
            payload,
            headers,
            authentication,
            subscription,
        }));
        Some(match each {
            Some(each) => self.consume(with, kind, each, pointer),
            None => kind,
        })
    }

    /// A subscription whose messages are processed: a task of its own takes each of them.
    fn consume(&mut self, with: &Node, kind: Kind, each: &Node, pointer: &str) -> Kind {
        let each = self.for_each(each, &format!("{pointer}/with/subscription"));
        let source = self.tasks.len();
        self.reserve(1);
        let task = &mut self.tasks[source];
        task.pointer = format!("{pointer}/with");
        "the next message".clone_into(&mut task.name);
        task.definition = with.to_value();
        task.kind = kind;
        // Extensions of calls are around all of them.
        task.is_of_extension = true;
        Kind::Consume(Box::new(Consume { source, each }))
    }

    /// Messages that are taken one by one share the time of the task around.
    pub(super) fn limit_messages(&mut self, kind: Option<&Kind>, limit: Option<&Span>) {
        let Some(Kind::Consume(it)) = kind else { return };
        if let Kind::AsyncApi(call) = &mut self.tasks[it.source].kind {
            if let Some(subscription) = &mut call.subscription {
                subscription.limit = limit.cloned();
            }
        }
    }

    fn subscription(&mut self, node: &Node) -> Option<Subscription> {
        let known = ["filter", "consume", "foreach"];
        let fields = self.object(node, "«subscription»", &known, &["consume"]);
        let is_single = field(fields, "foreach").is_some();
        // Of messages that are processed they are looked at between those.
        let stage = if is_single { Stage::Definition { is_effect: false } } else { EFFECT };
        let filter = field(fields, "filter");
        let filter = filter.and_then(|node| self.expression(node, "«filter»", EFFECT));
        let consume = field(fields, "consume")?;
        let known = ["amount", "for", "while", "until"];
        let fields = self.object(consume, "«consume»", &known, &[]);
        if fields.is_empty() {
            let hint = "«amount», «for», «while» or «until»";
            self.wrong_so(consume, "«consume» does not say when it ends", hint);
            return None;
        }
        let amount = field(fields, "amount").and_then(|node| {
            let amount = self.integer(node, "«amount»")?;
            if amount > SUBSCRIPTION_MESSAGES_MAX {
                self.wrong(node, format!("«amount» can be at most {SUBSCRIPTION_MESSAGES_MAX}"));
            }
            Some(amount)
        });
        let during = field(fields, "for").and_then(|node| self.span(node, "«for»", EFFECT));
        let mut condition = |name: &str| {
            let node = field(fields, name)?;
            self.expression(node, &format!("«{name}»"), stage)
        };
        let (whilst, until) = (condition("while"), condition("until"));
        Some(Subscription { filter, amount, during, whilst, until, is_single, limit: None })
    }

    /// The name of a channel or operation, and whether it is a channel.
    fn place(&mut self, with: &Node, fields: Fields<'_>) -> Option<(String, bool)> {
        let mut name = |name: &str| {
            let node = field(fields, name)?;
            let text = self.text(node, &format!("«{name}»"))?;
            if has_expression(&text) {
                self.wrong(node, format!("«{name}» cannot be an expression"));
            }
            Some(text)
        };
        let (channel, operation) = (name("channel"), name("operation"));
        match (channel, operation) {
            (Some(channel), None) => Some((channel, true)),
            (None, Some(operation)) => Some((operation, false)),
            _ => {
                self.wrong(
                    with,
                    "an AsyncAPI call must have «operation» or «channel», and one of them",
                );
                None
            }
        }
    }

    /// The name of a server, and its variables.
    fn server(&mut self, fields: Fields<'_>) -> (Option<String>, Option<Template>) {
        let Some(node) = field(fields, "server") else { return (None, None) };
        let fields = self.object(node, "«server»", &["name", "variables"], &["name"]);
        let name = field(fields, "name").and_then(|node| self.text(node, "the name of a server"));
        let variables = field(fields, "variables");
        (name, variables.map(|node| self.object_template(node, "«variables»", EFFECT)))
    }

    fn protocol(&mut self, node: &Node) -> Option<Transport> {
        let Content::Text(name) = &node.content else {
            self.wrong(node, "«protocol» must be a text");
            return None;
        };
        if !PROTOCOLS.contains(&name.as_str()) {
            self.wrong(node, format!("«{name}» is no protocol of AsyncAPI"));
            return None;
        }
        let known = Transport::of(name);
        match known {
            Some(Transport::Broker(protocol)) => self.needs(Needed::Broker(protocol), node.at),
            Some(Transport::Http) => {}
            None => {
                let what = format!("call: asyncapi with the protocol {name}");
                self.unsupported(node, &what, "«http», «ws», «nats» and «amqp» are");
            }
        }
        known
    }
}
