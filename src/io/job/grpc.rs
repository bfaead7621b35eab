//! The executor `grpc`: one message to a method, whose status is compared with what is expected.

use std::sync::Arc;

use tokio_rustls::rustls::ClientConfig;
use turnwheel_flow::{header_problem, GrpcRequest, IoCall, ProtoFile};
use turnwheel_jobs::{Call, Done, Executor, Settings, Span, Verdict, Work};

use super::only;
use super::tls::{self, Tls};
use crate::io::{grpc, HostIo};

/// Settings that the executor knows: those of Dkron, the text of the service's file, and metadata.
const KNOWN: [&str; 7] = ["url", "body", "timeout", "expectCode", "proto", "metadata", "debug"];

/// Seconds that a call may take if nothing is said, as of Dkron.
const TIMEOUT: u64 = 30;

/// The highest status code of gRPC.
const CODE_MAX: u32 = 16;

/// Calls methods.
#[derive(Clone, Debug)]
pub(super) struct Grpc {
    pub(super) io: HostIo,
}

/// Settings, understood.
struct Parsed {
    request: GrpcRequest,
    limit: Span,
    codes: Vec<u32>,
    tls: Option<Tls>,
}

fn parse(config: &Settings) -> Result<Parsed, String> {
    let text = |name: &str| config.get(name).map_or("", |text| text.trim());
    only("grpc", config, &[&KNOWN[..], &tls::KNOWN[..]].concat())?;
    let tls = Tls::of(config)?;
    if text("tlsNoVerifyPeer") == "true" {
        return Err(
            "tlsNoVerifyPeer: certificates are always checked here: name the authority of \
                    the server by tlsRootCAsFile"
                .to_owned(),
        );
    }
    let (host, port, is_encrypted, service, method) = address(text("url"))?;
    let arguments = match text("body") {
        "" => serde_json::json!({}),
        body => serde_json::from_str(body)
            .map_err(|error| format!("body: it is no JSON for the message: {error}"))?,
    };
    let metadata = match text("metadata") {
        "" => Vec::new(),
        fields => serde_json::from_str::<std::collections::BTreeMap<String, String>>(fields)
            .map_err(|error| format!("metadata: a JSON object of texts is wanted: {error}"))?
            .into_iter()
            .collect(),
    };
    let mut names = metadata.iter().map(|(name, _): &(String, String)| name);
    if let Some(problem) = names.find_map(|name| header_problem(name)) {
        return Err(format!("metadata: {problem}"));
    }
    let mut codes = Vec::new();
    for code in text("expectCode").split(',').map(str::trim).filter(|code| !code.is_empty()) {
        let number = code.parse().ok().filter(|code| *code <= CODE_MAX);
        codes.push(number.ok_or_else(|| {
            format!("expectCode: «{code}» is no status of gRPC: they are 0 to {CODE_MAX}")
        })?);
    }
    let limit = match text("timeout") {
        "" => Span::seconds(TIMEOUT),
        seconds => match seconds.parse::<u64>() {
            Ok(seconds) => Span::seconds(seconds),
            Err(_) => seconds.parse().map_err(|problem| format!("timeout: {problem}"))?,
        },
    };
    let file = |text: &str| ProtoFile { name: "service.proto".to_owned(), text: text.to_owned() };
    let request = GrpcRequest {
        host,
        port,
        is_tls: is_encrypted || tls.is_some(),
        protos: config
            .get("proto")
            .filter(|text| !text.is_empty())
            .map(|it| file(it))
            .into_iter()
            .collect(),
        service,
        method,
        arguments,
        metadata,
    };
    if !request.protos.is_empty() {
        grpc::check(&request).map_err(|error| format!("proto: {}", error.message))?;
    }
    Ok(Parsed { request, limit, codes, tls })
}

/// Host, port, whether there is TLS, service and method of
/// `grpc://host:port/package.Service/Method`.
fn address(url: &str) -> Result<(String, u16, bool, String, String), String> {
    let wrong = || {
        format!("url: «{url}» is no method: give one such as grpc://host:9000/shop.v1.Orders/Find")
    };
    let (scheme, rest) = url.split_once("://").unwrap_or(("grpc", url));
    let is_encrypted = match scheme {
        "grpc" | "http" => false,
        "grpcs" | "https" => true,
        _ => return Err(wrong()),
    };
    let mut parts = rest.split('/');
    let (Some(authority), Some(service), Some(method), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(wrong());
    };
    let (host, port) = authority.rsplit_once(':').ok_or_else(wrong)?;
    let port = port.parse().map_err(|_| wrong())?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let is_name = |text: &str| {
        let is_sign = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
        !text.is_empty() && text.chars().all(is_sign)
    };
    if host.is_empty() || !is_name(service) || !is_name(method) {
        return Err(wrong());
    }
    Ok((host.to_owned(), port, is_encrypted, service.to_owned(), method.to_owned()))
}

impl Executor for Grpc {
    fn check(&self, config: &Settings) -> Result<(), String> {
        parse(config).map(drop)
    }

    fn execute(&self, work: &Work, call: &Call<'_>) -> Verdict {
        Verdict::Done(self.send(work, call).unwrap_or_else(|problem| Done::failure(problem, "")))
    }
}

impl Grpc {
    fn send(&self, work: &Work, call: &Call<'_>) -> Result<Done, String> {
        let Parsed { request, limit, codes, tls } = parse(&work.config)?;
        let limit = work.timeout.map_or(limit, |other| other.min(limit));
        let call = IoCall::new(&work.key, call.cancelled()).limit(Some(limit.0));
        let tls: Option<Arc<ClientConfig>> = tls.map(|tls| tls.for_grpc(&self.io)).transpose()?;
        let answer = grpc::call(&self.io.inner.options, &request, tls, &call);
        let answer = answer.map_err(|error| error.message)?;
        let output = match answer.output.is_null() {
            true => String::new(),
            false => answer.output.to_string(),
        };
        let is_expected = match codes.is_empty() {
            true => answer.status == 0,
            false => codes.contains(&answer.status),
        };
        Ok(match is_expected {
            true => Done::success(output),
            false => {
                Done::failure(format!("the status {} is not expected", answer.error()), output)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::address;

    #[test]
    fn addresses_name_server_service_and_method() {
        let of = |url: &str| address(url).map(|(host, port, tls, ..)| (host, port, tls));
        assert_eq!(of("grpc://a.b:9000/s.v1.S/M"), Ok(("a.b".into(), 9000, false)));
        assert_eq!(of("[::1]:9/S/M"), Ok(("::1".into(), 9, false)));
        assert_eq!(of("grpcs://a:443/S/M"), Ok(("a".into(), 443, true)));
        for wrong in ["", "a:1/S", "a/S/M", "a:x/S/M", "ftp://a:1/S/M", "a:1/S/M/N", "a:1//M"] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }
}
