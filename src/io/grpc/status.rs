//! End of an exchange: the status, and the details that servers add to errors.

use std::sync::OnceLock;

use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::Engine as _;
use http::HeaderMap;
use prost_reflect::{DescriptorPool, DynamicMessage};
use serde_json::{json, Value};
use turnwheel_flow::GrpcResponse;

use super::super::target::decoded;
use super::{describe, written};

/// Servers leave the padding out, and some do not.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The status with details, and the kinds of details that servers usually send.
const STATUS: &str = r#"
syntax = "proto3";
package google.rpc;
import "google/protobuf/any.proto";
import "google/protobuf/duration.proto";
message Status { int32 code = 1; string message = 2; repeated google.protobuf.Any details = 3; }
message ErrorInfo { string reason = 1; string domain = 2; map<string, string> metadata = 3; }
message RetryInfo { google.protobuf.Duration retry_delay = 1; }
message DebugInfo { repeated string stack_entries = 1; string detail = 2; }
message QuotaFailure {
  message Violation { string subject = 1; string description = 2; }
  repeated Violation violations = 1;
}
message PreconditionFailure {
  message Violation { string type = 1; string subject = 2; string description = 3; }
  repeated Violation violations = 1;
}
message BadRequest {
  message FieldViolation { string field = 1; string description = 2; string reason = 3; }
  repeated FieldViolation field_violations = 1;
}
message RequestInfo { string request_id = 1; string serving_data = 2; }
message ResourceInfo {
  string resource_type = 1; string resource_name = 2; string owner = 3; string description = 4;
}
message Help {
  message Link { string description = 1; string url = 2; }
  repeated Link links = 1;
}
message LocalizedMessage { string locale = 1; string message = 2; }
"#;

/// A status, as the last headers of an exchange have it.
#[derive(Debug)]
pub(super) struct Status {
    pub(super) code: u32,
    message: String,
    details: Vec<Value>,
}

impl Status {
    /// Nothing if the headers have no status.
    pub(super) fn of(headers: &HeaderMap) -> Option<Self> {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let code = headers.get("grpc-status")?.to_str().ok().and_then(|code| code.parse().ok());
        let message = text("grpc-message").map(decoded).unwrap_or_default();
        let details = text("grpc-status-details-bin").map(details).unwrap_or_default();
        // The message is not cut here: what is shown of it is masked first.
        // A code that is no number is an unknown one.
        Some(Self { code: code.unwrap_or(2), message, details })
    }

    pub(super) fn response(self) -> GrpcResponse {
        let Self { code: status, message, details } = self;
        GrpcResponse { status, message, details, output: Value::Null }
    }
}

fn pool() -> Option<&'static DescriptorPool> {
    static POOL: OnceLock<Option<DescriptorPool>> = OnceLock::new();
    POOL.get_or_init(|| describe::compiled_text("status.proto", STATUS).ok()).as_ref()
}

/// Details of an error; of a kind that is not known the name alone.
fn details(header: &str) -> Vec<Value> {
    let decode = || {
        let kind = pool()?.get_message_by_name("google.rpc.Status")?;
        let bytes = BASE64.decode(header).ok()?;
        let status = DynamicMessage::decode(kind, bytes.as_slice()).ok()?;
        let details = status.get_field_by_name("details")?;
        Some(details.as_list()?.iter().filter_map(|it| it.as_message().map(detail)).collect())
    };
    decode().unwrap_or_default()
}

fn detail(any: &DynamicMessage) -> Value {
    written(any).unwrap_or_else(|_| {
        let name = any.get_field_by_name("type_url");
        json!({ "@type": name.as_deref().and_then(prost_reflect::Value::as_str) })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn details_of_errors_are_read_and_unknown_ones_are_named() {
        // A Status with a known detail and one that nobody knows.
        let info = b"\n\x06CLOSED\x12\x04shop";
        let known =
            [b"\n(type.googleapis.com/google.rpc.ErrorInfo\x12\x0e".as_slice(), info].concat();
        let other = b"\n\x0ctypes/a.Note\x12\x00".to_vec();
        let mut status = b"\x08\x09".to_vec();
        for any in [&known, &other] {
            status.extend([0x1a, u8::try_from(any.len()).expect("short")]);
            status.extend(any);
        }
        let mut headers = HeaderMap::new();
        headers.insert("grpc-status", "9".parse().expect("a value"));
        headers.insert("grpc-message", "no%20more".parse().expect("a value"));
        let encoded = BASE64.encode(&status);
        headers.insert("grpc-status-details-bin", encoded.parse().expect("a value"));
        let status = Status::of(&headers).expect("a status");
        assert_eq!((status.code, status.message.as_str()), (9, "no more"));
        let info = json!({
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": "CLOSED", "domain": "shop", "metadata": {},
        });
        assert_eq!(status.details[0], info);
        assert_eq!(status.details[1], json!({ "@type": "types/a.Note" }));
    }
}
