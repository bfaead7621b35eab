//! Calls of gRPC.

use super::fields::field;
use super::Reader;
use crate::definition::Needed;
use crate::expr::{has_expression, Template};
use crate::model::{Grpc, Kind, Scheme};
use crate::scope::Stage;
use crate::text::{Content, Node};

const EFFECT: Stage = Stage::Definition { is_effect: true };

impl Reader<'_> {
    pub(super) fn grpc(&mut self, node: &Node, with: Option<&Node>) -> Option<Kind> {
        let Some(with) = with else {
            self.wrong(node, "call: grpc must have the field «with»");
            return None;
        };
        self.needs(Needed::Grpc, node.at);
        let known = ["proto", "service", "method", "arguments"];
        let required = ["service", "method"];
        let fields = self.object(with, "the «with» of a gRPC call", &known, &required);
        let proto = match field(fields, "proto") {
            Some(node) => Some(self.resource(node, "«proto»")?),
            None => None,
        };
        let method = field(fields, "method").and_then(|node| self.name_of(node, "«method»"));
        let arguments = field(fields, "arguments");
        let arguments = arguments.map(|node| match node.content {
            // A list is the stream that a method may take.
            Content::Text(_) | Content::List(_) => self.template(node, "«arguments»", EFFECT),
            _ => self.object_template(node, "«arguments»", EFFECT),
        });
        let service = field(fields, "service")?;
        let known = ["name", "host", "port", "tls", "authentication"];
        let fields = self.object(service, "«service»", &known, &["name", "host"]);
        let name =
            field(fields, "name").and_then(|node| self.name_of(node, "the name of a service"));
        let host = field(fields, "host").and_then(|node| self.host(node));
        let port = match field(fields, "port") {
            Some(node) => Some(self.port(node)?),
            None => None,
        };
        let tls = field(fields, "tls").map(|node| self.boolean(node, "«tls»"));
        let authentication = field(fields, "authentication").and_then(|node| {
            let policy = self.authentication(node, true)?;
            if policy.scheme == Scheme::Digest {
                let hint = "gRPC has no challenges: use «basic», «bearer», «oauth2» or «oidc»";
                self.unsupported(node, "the authentication «digest» of call: grpc", hint);
                return None;
            }
            Some(policy)
        });
        Some(Kind::Grpc(Box::new(Grpc {
            proto,
            service: name?,
            host: host?,
            port,
            tls,
            authentication,
            method: method?,
            arguments,
        })))
    }

    /// A name of a service or method, which is a part of a path.
    fn name_of(&mut self, node: &Node, what: &str) -> Option<String> {
        let text = self.text(node, what)?;
        if has_expression(&text) {
            self.wrong(node, format!("{what} cannot be an expression"));
            return None;
        }
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
        if text.is_empty() || !text.chars().all(is_part) {
            let hint = "letters, digits, «_» and «.», as in the proto file";
            self.wrong_so(node, format!("«{text}» is no name of gRPC"), hint);
            return None;
        }
        Some(text)
    }

    fn host(&mut self, node: &Node) -> Option<Template> {
        let text = self.text(node, "«host»")?;
        let is_sign = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | ':');
        if !has_expression(&text) && (text.is_empty() || !text.chars().all(is_sign)) {
            let hint = "the name alone, such as api.example.com, and the port in «port»";
            self.wrong_so(node, format!("«{text}» is no name of a host"), hint);
            return None;
        }
        Some(self.text_template(node, "«host»", EFFECT))
    }

    fn port(&mut self, node: &Node) -> Option<Template> {
        if matches!(&node.content, Content::Text(text) if has_expression(text)) {
            return Some(self.template(node, "«port»", EFFECT));
        }
        let number = self.integer(node, "«port»")?;
        if number > u64::from(u16::MAX) {
            self.wrong(node, format!("«{number}» is no port: the highest one is {}", u16::MAX));
            return None;
        }
        Some(self.template(node, "«port»", EFFECT))
    }
}
