//! Calls.

use super::fields::{field, Fields};
use super::Reader;
use crate::expr::{has_expression, Template};
use crate::model::{
    Authentication, Endpoint, Http, HttpOutput, Kind, OpenApi, Properties, Scheme, WorkerCall,
};
use crate::scope::Stage;
use crate::text::{Content, Node};

const EFFECT: Stage = Stage::Definition { is_effect: true };

const OUTPUTS: [(&str, HttpOutput); 3] = [
    ("content", HttpOutput::Content),
    ("raw", HttpOutput::Raw),
    ("response", HttpOutput::Response),
];

impl Reader<'_> {
    pub(super) fn call(
        &mut self,
        node: &Node,
        with: Option<&Node>,
        pointer: &str,
        stage: Stage,
    ) -> Option<Kind> {
        let name = self.text(node, "«call»")?;
        match name.as_str() {
            "http" => self.http(node, with),
            "openapi" => self.openapi(node, with),
            // A function of this name was there first.
            "worker" if !self.functions.contains_key("worker") => self.worker(node, with),
            "mcp" => self.mcp(node, with),
            "asyncapi" => self.asyncapi(node, with, pointer),
            "grpc" => self.grpc(node, with),
            "a2a" => self.a2a(node, with),
            _ => {
                let task = match name.contains('@') || name.contains("://") {
                    true => self.external_function(node, &name),
                    false => self.known(node, &name, "function", |reader| &reader.functions),
                };
                let stage = match stage {
                    Stage::Definition { .. } => Stage::Definition { is_effect: false },
                    other => other,
                };
                let with = with.map(|node| self.object_template(node, "«with»", stage));
                Some(Kind::Function { task: task?, with })
            }
        }
    }

    fn http(&mut self, node: &Node, with: Option<&Node>) -> Option<Kind> {
        let Some(with) = with else {
            self.wrong(node, "call: http must have the field «with»");
            return None;
        };
        let known = ["method", "endpoint", "headers", "query", "body", "output", "redirect"];
        let fields =
            self.object(with, "the «with» of an HTTP call", &known, &["method", "endpoint"]);
        let method = field(fields, "method").map(|n| self.text_template(n, "«method»", EFFECT));
        if let Some(Template::Fixed(method)) = &method {
            let text = method.as_str().unwrap_or_default();
            if !text.chars().all(|c| c.is_ascii_alphabetic()) || text.is_empty() {
                let at = field(fields, "method").unwrap_or(with);
                self.wrong(at, format!("«{text}» is no method of HTTP"));
            }
        }
        let endpoint = field(fields, "endpoint").and_then(|node| self.endpoint(node));
        let mut object = |name: &str| {
            let node = field(fields, name)?;
            Some(self.object_template(node, &format!("«{name}»"), EFFECT))
        };
        let (headers, query) = (object("headers"), object("query"));
        let body = field(fields, "body").map(|node| self.template(node, "«body»", EFFECT));
        let (output, redirects) = self.answer(fields);
        let (method, endpoint) = (method?, endpoint?);
        let http = Http { method, endpoint, headers, query, body, output, redirects };
        Some(Kind::Http(Box::new(http)))
    }

    fn worker(&mut self, node: &Node, with: Option<&Node>) -> Option<Kind> {
        let Some(with) = with else {
            self.wrong(node, "call: worker must have the field «with»");
            return None;
        };
        let stage = Stage::Definition { is_effect: false };
        let known = ["topic", "input", "attempts"];
        let fields = self.object(with, "the «with» of a worker's call", &known, &["topic"]);
        let topic = field(fields, "topic").map(|n| self.text_template(n, "«topic»", stage));
        let input = field(fields, "input").map(|node| self.template(node, "«input»", stage));
        let attempts = field(fields, "attempts").and_then(|node| {
            let number = self.integer(node, "«attempts»")?;
            let attempts = u32::try_from(number).ok().filter(|number| *number > 0);
            if attempts.is_none() {
                self.wrong(node, "«attempts» must be at least 1");
            }
            attempts
        });
        Some(Kind::Worker(Box::new(WorkerCall { topic: topic?, input, attempts })))
    }

    fn answer(&mut self, fields: Fields<'_>) -> (HttpOutput, bool) {
        let output = field(fields, "output").and_then(|n| self.choice(n, "«output»", &OUTPUTS));
        let redirects = field(fields, "redirect").is_some_and(|n| self.boolean(n, "«redirect»"));
        (output.unwrap_or_default(), redirects)
    }

    fn openapi(&mut self, node: &Node, with: Option<&Node>) -> Option<Kind> {
        let Some(with) = with else {
            self.wrong(node, "call: openapi must have the field «with»");
            return None;
        };
        let known =
            ["document", "operationId", "parameters", "authentication", "output", "redirect"];
        let required = ["document", "operationId"];
        let fields = self.object(with, "the «with» of an OpenAPI call", &known, &required);
        let document = field(fields, "document").and_then(|node| self.resource(node, "«document»"));
        let operation = field(fields, "operationId").and_then(|node| {
            let text = self.text(node, "«operationId»")?;
            if has_expression(&text) {
                self.wrong(node, "«operationId» cannot be an expression");
            }
            Some(text)
        });
        let parameters = field(fields, "parameters");
        let parameters = parameters.map(|n| self.object_template(n, "«parameters»", EFFECT));
        let authentication = field(fields, "authentication");
        let authentication = authentication.and_then(|node| self.authentication(node, true));
        let (output, redirects) = self.answer(fields);
        let (document, operation) = (document?, operation?);
        Some(Kind::OpenApi(Box::new(OpenApi {
            document,
            operation,
            parameters,
            authentication,
            output,
            redirects,
        })))
    }

    /// `{ name: …, endpoint: … }`.
    pub(super) fn resource(&mut self, node: &Node, what: &str) -> Option<Endpoint> {
        let fields = self.object(node, what, &["name", "endpoint"], &["endpoint"]);
        if let Some(name) = field(fields, "name") {
            self.text(name, "the name of a resource");
        }
        field(fields, "endpoint").and_then(|node| self.endpoint(node))
    }

    pub(super) fn endpoint(&mut self, node: &Node) -> Option<Endpoint> {
        if let Content::Map(_) = node.content {
            let fields = self.object(node, "an endpoint", &["uri", "authentication"], &["uri"]);
            let authentication = field(fields, "authentication");
            let authentication = authentication.and_then(|node| self.authentication(node, true));
            let uri = self.uri(field(fields, "uri")?)?;
            return Some(Endpoint { uri, authentication });
        }
        Some(Endpoint { uri: self.uri(node)?, authentication: None })
    }

    fn uri(&mut self, node: &Node) -> Option<Template> {
        let text = self.text(node, "a URI")?;
        if !text.contains("://") && !text.contains("${") {
            let hint = "such as https://example.com/items/{id}";
            self.wrong_so(node, format!("«{text}» is no absolute URI"), hint);
            return None;
        }
        Some(self.template(node, "a URI", EFFECT))
    }

    /// An authentication policy, or the name of one.
    pub(super) fn authentication(&mut self, node: &Node, may_use: bool) -> Option<Authentication> {
        if let (true, Content::Text(name)) = (may_use, &node.content) {
            return self.known(node, name, "authentication", |reader| &reader.authentications);
        }
        let schemes = ["use", "basic", "bearer", "certificate", "digest", "oauth2", "oidc"];
        let fields = self.object(node, "an authentication", &schemes, &[]);
        let [(name, _, body)] = fields else {
            if matches!(node.content, Content::Map(_)) {
                let hint = "«use», «basic», «bearer», «digest», «oauth2» or «oidc»";
                self.wrong_so(node, "an authentication must have one scheme", hint);
            }
            return None;
        };
        let (scheme, known, required): (_, &[&str], &[&str]) = match name.as_str() {
            "use" if may_use => {
                let name = self.text(body, "the name of an authentication")?;
                return self.known(body, &name, "authentication", |reader| &reader.authentications);
            }
            "basic" => (Scheme::Basic, &["username", "password"], &["username", "password"]),
            "digest" => (Scheme::Digest, &["username", "password"], &["username", "password"]),
            "bearer" => (Scheme::Bearer, &["token"], &["token"]),
            "oauth2" => (Scheme::OAuth2, &OAUTH2, &["authority", "grant"]),
            "oidc" => (Scheme::Oidc, &OAUTH2, &["authority", "grant"]),
            other => {
                let what = format!("the authentication «{other}» here");
                self.unsupported(
                    node,
                    &what,
                    "use «basic», «bearer», «digest», «oauth2» or «oidc»",
                );
                return None;
            }
        };
        if let Some(secret) = body.get("use") {
            self.object(body, &format!("«{name}»"), &["use"], &[]);
            let secret_name = self.text(secret, "the name of a secret")?;
            if !self.secrets.contains(&secret_name) {
                let hint = "add it to «use.secrets»";
                self.wrong_so(secret, format!("there is no secret «{secret_name}» in «use»"), hint);
            }
            return Some(Authentication { scheme, properties: Properties::Secret(secret_name) });
        }
        let what = format!("«{name}»");
        if let (Scheme::Bearer, Content::Text(_)) = (scheme, &body.content) {
            // A short form that the specification uses in an example.
            let token = self.text_template(body, &what, EFFECT);
            let properties = Template::Object(vec![("token".to_owned(), token)]);
            return Some(Authentication { scheme, properties: Properties::Written(properties) });
        }
        let fields = self.object(body, &what, known, required);
        if matches!(scheme, Scheme::OAuth2 | Scheme::Oidc) {
            self.oauth2(fields);
        } else {
            fields.iter().for_each(|(_, _, node)| {
                self.text(node, &what);
            });
        }
        let properties = Properties::Written(self.template(body, &what, EFFECT));
        Some(Authentication { scheme, properties })
    }

    fn oauth2(&mut self, fields: Fields<'_>) {
        if let Some(grant) = field(fields, "grant") {
            let grants = [
                ("client_credentials", ()),
                ("password", ()),
                ("refresh_token", ()),
                ("urn:ietf:params:oauth:grant-type:token-exchange", ()),
            ];
            if matches!(&grant.content, Content::Text(text) if text == "authorization_code") {
                let hint = "nobody is there to be asked: use «client_credentials»";
                self.unsupported(grant, "the grant «authorization_code»", hint);
            } else {
                self.choice(grant, "«grant»", &grants);
            }
        }
        if let Some(client) = field(fields, "client") {
            let known = ["id", "secret", "assertion", "authentication"];
            let client = self.object(client, "«client»", &known, &[]);
            if let Some(way) = field(client, "authentication") {
                let text = self.text(way, "«client.authentication»").unwrap_or_default();
                if text == "client_secret_jwt" {
                    let hint = "«client_secret_basic», «client_secret_post», «private_key_jwt» with an «assertion», or «none»";
                    self.unsupported(way, "client.authentication: client_secret_jwt", hint);
                } else {
                    let ways =
                        ["client_secret_basic", "client_secret_post", "private_key_jwt", "none"];
                    self.choice(way, "«client.authentication»", &ways.map(|way| (way, ())));
                }
            }
        }
        if let Some(request) = field(fields, "request") {
            let request = self.object(request, "«request»", &["encoding"], &[]);
            if let Some(encoding) = field(request, "encoding") {
                let known = ["application/x-www-form-urlencoded", "application/json"];
                self.choice(encoding, "«request.encoding»", &known.map(|name| (name, ())));
            }
        }
        if let Some(endpoints) = field(fields, "endpoints") {
            let known = ["token", "revocation", "introspection"];
            self.object(endpoints, "«endpoints»", &known, &[]);
        }
    }
}

/// The fields of OAuth 2 and OpenID Connect.
const OAUTH2: [&str; 12] = [
    "authority",
    "endpoints",
    "grant",
    "client",
    "request",
    "issuers",
    "scopes",
    "audiences",
    "username",
    "password",
    "subject",
    "actor",
];
