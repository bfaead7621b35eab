//! Calls of agents that speak the protocol A2A.

use super::fields::field;
use super::Reader;
use crate::model::{A2a, Kind};
use crate::scope::Stage;
use crate::text::{Content, Node};

const EFFECT: Stage = Stage::Definition { is_effect: true };

const METHODS: [&str; 11] = [
    "message/send",
    "message/stream",
    "tasks/get",
    "tasks/list",
    "tasks/cancel",
    "tasks/resubscribe",
    "tasks/pushNotificationConfig/set",
    "tasks/pushNotificationConfig/get",
    "tasks/pushNotificationConfig/list",
    "tasks/pushNotificationConfig/delete",
    "agent/getAuthenticatedExtendedCard",
];

impl Reader<'_> {
    pub(super) fn a2a(&mut self, node: &Node, with: Option<&Node>) -> Option<Kind> {
        let Some(with) = with else {
            self.wrong(node, "call: a2a must have the field «with»");
            return None;
        };
        let known = ["agentCard", "server", "method", "parameters"];
        let fields = self.object(with, "the «with» of an A2A call", &known, &["method"]);
        let method = field(fields, "method").and_then(|node| {
            self.choice(node, "«method»", &METHODS.map(|method| (method, method)))
        });
        let card = field(fields, "agentCard").map(|node| self.resource(node, "«agentCard»"));
        let server = field(fields, "server").map(|node| self.endpoint(node));
        if card.is_none() && server.is_none() {
            let hint = "«agentCard», which describes the agent, or «server»";
            self.wrong_so(with, "an A2A call must say where the agent is", hint);
            return None;
        }
        let parameters = field(fields, "parameters").map(|node| match node.content {
            Content::Text(_) => self.template(node, "«parameters»", EFFECT),
            _ => self.object_template(node, "«parameters»", EFFECT),
        });
        // Their problems were told.
        let (card, server) = (card.map_or(Some(None), |it| it.map(Some))?, server);
        let server = server.map_or(Some(None), |it| it.map(Some))?;
        Some(Kind::A2a(Box::new(A2a { card, server, method: method?, parameters })))
    }
}
