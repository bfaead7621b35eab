//! Calls of gRPC, as data.

use std::fmt;

use serde_json::Value;

/// A call of a gRPC method.
#[derive(Clone, PartialEq)]
pub struct GrpcRequest {
    /// Name or address of the server.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Whether the connection has TLS.
    pub is_tls: bool,
    /// The files that describe the service, the first one with the service itself; without any the
    /// server is asked by its reflection service.
    pub protos: Vec<ProtoFile>,
    /// The service with its package, such as `shop.v1.Orders`.
    pub service: String,
    /// Name of the method.
    pub method: String,
    /// The message, by the JSON mapping of Protocol Buffers; a list of them for a method that takes
    /// a stream.
    pub arguments: Value,
    /// Metadata; authentication is among them.
    pub metadata: Vec<(String, String)>,
}

/// The text of a `.proto` file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProtoFile {
    /// The name by which others import it.
    pub name: String,
    /// Its text.
    pub text: String,
}

impl GrpcRequest {
    /// The address of the method, for people.
    pub fn shown(&self) -> String {
        let scheme = if self.is_tls { "grpcs" } else { "grpc" };
        let Self { host, port, service, method, .. } = self;
        match host.contains(':') {
            true => format!("{scheme}://[{host}]:{port}/{service}/{method}"),
            false => format!("{scheme}://{host}:{port}/{service}/{method}"),
        }
    }
}

impl fmt::Debug for GrpcRequest {
    /// Without message and metadata, which may have secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("GrpcRequest").field(&self.shown()).finish()
    }
}

/// The end of a call of a gRPC method, and its messages.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GrpcResponse {
    /// The status code of gRPC; 0 is success.
    pub status: u32,
    /// The server's words about the status.
    pub message: String,
    /// Details of an error, by the JSON mapping.
    pub details: Vec<Value>,
    /// The message; a list of them for a method that streams. Nothing after an error.
    pub output: Value,
}

/// Name and nearest status of HTTP of each status code, in the order of the codes.
const STATUSES: [(&str, u16); 17] = [
    ("OK", 200),
    ("CANCELLED", 499),
    ("UNKNOWN", 500),
    ("INVALID_ARGUMENT", 400),
    ("DEADLINE_EXCEEDED", 504),
    ("NOT_FOUND", 404),
    ("ALREADY_EXISTS", 409),
    ("PERMISSION_DENIED", 403),
    ("RESOURCE_EXHAUSTED", 429),
    ("FAILED_PRECONDITION", 400),
    ("ABORTED", 409),
    ("OUT_OF_RANGE", 400),
    ("UNIMPLEMENTED", 501),
    ("INTERNAL", 500),
    ("UNAVAILABLE", 503),
    ("DATA_LOSS", 500),
    ("UNAUTHENTICATED", 401),
];

impl GrpcResponse {
    fn known(&self) -> (&'static str, u16) {
        let known = usize::try_from(self.status).ok().and_then(|code| STATUSES.get(code));
        known.copied().unwrap_or(("UNKNOWN", 500))
    }

    /// The status of HTTP that is nearest to its code.
    pub fn http_status(&self) -> u16 {
        self.known().1
    }

    /// An error for people: name and number of its code, message and details.
    pub fn error(&self) -> String {
        let mut text = format!("{} ({})", self.known().0, self.status);
        for part in [Some(self.message.clone()).filter(|text| !text.is_empty()), self.detail()] {
            text.extend(part.map(|part| format!(": {part}")));
        }
        text
    }

    fn detail(&self) -> Option<String> {
        (!self.details.is_empty()).then(|| Value::Array(self.details.clone()).to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_has_a_name_and_a_status_of_http() {
        let response = |status| GrpcResponse { status, ..GrpcResponse::default() };
        assert_eq!((response(5).http_status(), response(5).error()), (404, "NOT_FOUND (5)".into()));
        assert_eq!(
            (response(99).http_status(), response(99).error()),
            (500, "UNKNOWN (99)".into())
        );
        let message = GrpcResponse { message: "no pet".into(), ..response(16) };
        assert_eq!(message.error(), "UNAUTHENTICATED (16): no pet");
        let details = vec![serde_json::json!({ "reason": "X" })];
        let full = GrpcResponse { details, ..message };
        assert_eq!(full.error(), "UNAUTHENTICATED (16): no pet: [{\"reason\":\"X\"}]");
    }
}
