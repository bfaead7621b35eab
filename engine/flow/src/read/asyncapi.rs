//! Calls of AsyncAPI: messages that are published over HTTP.

use super::fields::{field, Fields};
use super::Reader;
use crate::expr::{has_expression, Template};
use crate::model::{AsyncApi, Kind};
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
    pub(super) fn asyncapi(&mut self, node: &Node, with: Option<&Node>) -> Option<Kind> {
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
        if let Some(node) = field(fields, "subscription") {
            let hint =
                "let the service send its messages as CloudEvents, and wait for them by «listen»";
            self.unsupported(node, "call: asyncapi with a subscription", hint);
            return None;
        }
        if let Some(node) = field(fields, "protocol") {
            self.protocol(node);
        }
        let document = field(fields, "document").and_then(|node| self.resource(node, "«document»"));
        let mut name = |name: &str| {
            let node = field(fields, name)?;
            let text = self.text(node, &format!("«{name}»"))?;
            if has_expression(&text) {
                self.wrong(node, format!("«{name}» cannot be an expression"));
            }
            Some(text)
        };
        let (channel, operation) = (name("channel"), name("operation"));
        let place = match (channel, operation) {
            (Some(channel), None) => Some((channel, true)),
            (None, Some(operation)) => Some((operation, false)),
            _ => {
                self.wrong(
                    with,
                    "an AsyncAPI call must have «operation» or «channel», and one of them",
                );
                None
            }
        };
        let (server, variables) = self.server(fields);
        let Some(message) = field(fields, "message") else {
            self.wrong(with, "an AsyncAPI call must have a «message» to publish");
            return None;
        };
        let fields_of_message = self.object(message, "«message»", &["payload", "headers"], &[]);
        let payload = field(fields_of_message, "payload");
        let payload = payload.map(|node| self.template(node, "«payload»", EFFECT));
        let headers = field(fields_of_message, "headers");
        let headers = headers.map(|node| self.object_template(node, "«headers»", EFFECT));
        let authentication = field(fields, "authentication");
        let authentication = authentication.and_then(|node| self.authentication(node, true));
        let (document, (place, is_channel)) = (document?, place?);
        Some(Kind::AsyncApi(Box::new(AsyncApi {
            document,
            place,
            is_channel,
            server,
            variables,
            payload,
            headers,
            authentication,
        })))
    }

    /// The name of a server, and its variables.
    fn server(&mut self, fields: Fields<'_>) -> (Option<String>, Option<Template>) {
        let Some(node) = field(fields, "server") else { return (None, None) };
        let fields = self.object(node, "«server»", &["name", "variables"], &["name"]);
        let name = field(fields, "name").and_then(|node| self.text(node, "the name of a server"));
        let variables = field(fields, "variables");
        (name, variables.map(|node| self.object_template(node, "«variables»", EFFECT)))
    }

    fn protocol(&mut self, node: &Node) {
        let Content::Text(name) = &node.content else {
            self.wrong(node, "«protocol» must be a text");
            return;
        };
        match name.as_str() {
            "http" | "https" => {}
            name if PROTOCOLS.contains(&name) => {
                let what = format!("call: asyncapi with the protocol {name}");
                self.unsupported(node, &what, "only «http» is");
            }
            name => self.wrong(node, format!("«{name}» is no protocol of AsyncAPI")),
        }
    }
}
