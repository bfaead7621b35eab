//! Calls of servers that speak the Model Context Protocol.

use super::fields::field;
use super::Reader;
use crate::definition::Needed;
use crate::expr::Template;
use crate::model::{Kind, Mcp, McpTransport};
use crate::scope::Stage;
use crate::text::{Content, Node};

const EFFECT: Stage = Stage::Definition { is_effect: true };

/// The version of the protocol that is asked for if nothing is said.
const VERSION: &str = "2025-06-18";

const METHODS: [&str; 7] = [
    "tools/list",
    "tools/call",
    "prompts/list",
    "prompts/get",
    "resources/list",
    "resources/read",
    "resources/templates/list",
];

impl Reader<'_> {
    pub(super) fn mcp(&mut self, node: &Node, with: Option<&Node>) -> Option<Kind> {
        let Some(with) = with else {
            self.wrong(node, "call: mcp must have the field «with»");
            return None;
        };
        let known = ["protocolVersion", "method", "parameters", "timeout", "transport", "client"];
        let fields =
            self.object(with, "the «with» of an MCP call", &known, &["method", "transport"]);
        let version = field(fields, "protocolVersion");
        let version = version.and_then(|node| self.text(node, "«protocolVersion»"));
        let method = field(fields, "method").and_then(|node| {
            self.choice(node, "«method»", &METHODS.map(|method| (method, method)))
        });
        let parameters = field(fields, "parameters").map(|node| match node.content {
            Content::Text(_) => self.template(node, "«parameters»", EFFECT),
            _ => self.object_template(node, "«parameters»", EFFECT),
        });
        let timeout =
            field(fields, "timeout").and_then(|node| self.span(node, "«timeout»", EFFECT));
        let client = field(fields, "client").map(|node| self.mcp_client(node));
        let transport = field(fields, "transport").and_then(|node| self.mcp_transport(node))?;
        let own = || ("turnwheel".to_owned(), env!("CARGO_PKG_VERSION").to_owned());
        Some(Kind::Mcp(Box::new(Mcp {
            version: version.unwrap_or_else(|| VERSION.to_owned()),
            method: method?.to_owned(),
            parameters,
            timeout,
            transport,
            client: client.unwrap_or_else(own),
        })))
    }

    /// How the client names itself.
    fn mcp_client(&mut self, node: &Node) -> (String, String) {
        let fields = self.object(node, "«client»", &["name", "version", "description"], &["name"]);
        let mut text = |name: &str| {
            field(fields, name).and_then(|node| self.text(node, &format!("«client.{name}»")))
        };
        text("description");
        let version = text("version").unwrap_or_else(|| env!("CARGO_PKG_VERSION").to_owned());
        (text("name").unwrap_or_default(), version)
    }

    fn mcp_transport(&mut self, node: &Node) -> Option<McpTransport> {
        let fields = self.object(node, "«transport»", &["http", "stdio", "options"], &[]);
        let hint = "no option of a transport is known";
        self.unsupported_field(fields, "options", "«transport.options»", hint);
        match (field(fields, "http"), field(fields, "stdio")) {
            (Some(http), None) => {
                let fields = self.object(http, "«http»", &["endpoint", "headers"], &["endpoint"]);
                let endpoint = field(fields, "endpoint").and_then(|node| self.endpoint(node));
                let headers = field(fields, "headers");
                let headers = headers.map(|n| self.object_template(n, "«headers»", EFFECT));
                Some(McpTransport::Http { endpoint: endpoint?, headers })
            }
            (None, Some(stdio)) => {
                let known = ["command", "arguments", "environment"];
                let fields = self.object(stdio, "«stdio»", &known, &["command"]);
                self.needs(Needed::Shell, stdio.at);
                let command = field(fields, "command");
                let command = command.map(|n| self.text_template(n, "«command»", EFFECT));
                let arguments = field(fields, "arguments").map(|n| self.list_of_texts(n));
                let environment = field(fields, "environment");
                let environment =
                    environment.map(|n| self.object_template(n, "«environment»", EFFECT));
                Some(McpTransport::Stdio { command: command?, arguments, environment })
            }
            _ => {
                let hint = "«http», or «stdio»";
                self.wrong_so(node, "«transport» must have one way to the server", hint);
                None
            }
        }
    }

    fn list_of_texts(&mut self, node: &Node) -> Template {
        self.list(node, "«arguments»");
        self.template(node, "«arguments»", EFFECT)
    }
}
