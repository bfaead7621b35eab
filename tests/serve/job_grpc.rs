//! The executor `grpc` of jobs, against a server on loopback.

use std::fs;
use std::sync::Arc;

use serde_json::{json, Value};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::ServerConfig;

use super::grpc_server::{GrpcServer, Reflection, PETS};
use super::jobs::over;
use crate::serve_common::{Place, Serve};

fn call(server: &Serve, job: &str, config: &Value) -> (Value, String) {
    let body = json!({"schedule": "@manually", "executor": "grpc", "config": config});
    let path = format!("/api/v1/jobs/{job}");
    server.send("PUT", &path, &[], Some(&body.to_string())).ok();
    server.post(&format!("{path}/run"), &json!({})).ok();
    let launch = over(server, job);
    let output = server.get(&format!("{path}/launches/1/output")).ok();
    (launch, output["output"].as_str().expect("a text").to_owned())
}

/// The file of the service without the import of another one.
fn proto() -> String {
    PETS.replace("import \"test/v1/kinds.proto\";", "enum Kind { CAT = 0; DOG = 1; }")
}

#[test]
fn a_job_calls_a_method_by_reflection_or_by_the_file_and_compares_its_status() {
    let (place, pets) = (Place::new(), GrpcServer::begin(Reflection::V1));
    let server = place.serve(&[]);
    let url = format!("grpc://{}/test.v1.Pets/Find", pets.address);
    for (job, name, proto, codes, state, said) in [
        ("reflected", "Rex", String::new(), "", "succeeded", "\"name\":\"Rex\""),
        ("described", "Rex", proto(), "0,5", "succeeded", "\"name\":\"Rex\""),
        ("expected", "missing", String::new(), "5", "succeeded", ""),
        ("unexpected", "missing", String::new(), "", "failed", ""),
        ("only_an_error", "Rex", String::new(), "5", "failed", "Rex"),
        ("broken", "reset", String::new(), "", "failed", ""),
    ] {
        let body = json!({"name": name, "id": "7"}).to_string();
        let metadata = "{\"authorization\": \"Bearer t-1\"}";
        let config = json!({"url": url, "body": body, "proto": proto, "expectCode": codes,
            "metadata": metadata, "timeout": "10"});
        let (launch, output) = call(&server, job, &config);
        assert_eq!(launch["state"], state, "{job}: {launch}");
        assert!(output.contains(said), "{job}: {output}");
        if job == "reflected" {
            assert!(
                output.contains("Bearer t-1") && output.contains("idempotency-key"),
                "{output}"
            );
        }
        if job == "unexpected" {
            assert!(launch.to_string().contains("NOT_FOUND (5): no pet"), "{launch}");
        }
    }
    server.stopped();
}

#[test]
fn what_is_wrong_with_the_settings_of_a_grpc_job_is_said_when_it_is_stored() {
    let place = Place::new();
    let server = place.serve(&[]);
    let right = "grpc://127.0.0.1:1/test.v1.Pets/Find";
    for (config, problem) in [
        (json!({"url": ""}), "url: «» is no method"),
        (json!({"url": "grpc://a/b/c"}), "give one such as grpc://host:9000/shop.v1.Orders/Find"),
        (json!({"url": right, "body": "{"}), "body: it is no JSON"),
        (json!({"url": right, "expectCode": "17"}), "«17» is no status of gRPC"),
        (json!({"url": right, "metadata": "[]"}), "metadata: a JSON object of texts"),
        (json!({"url": right, "proto": "message {"}), "proto: service.proto is no proto file"),
        (json!({"url": right, "proto": proto(), "body": "{\"nam\": 1}"}), "proto: the arguments"),
        (json!({"url": format!("{right}s"), "proto": proto()}), "it has Find, List, Upload"),
        (json!({"url": right, "tlsNoVerifyPeer": "true"}), "certificates are always checked"),
        (json!({"url": right, "bodi": ""}), "grpc has no such setting"),
    ] {
        let body = json!({"schedule": "@manually", "executor": "grpc", "config": config});
        let answer = server.send("PUT", "/api/v1/jobs/bad", &[], Some(&body.to_string()));
        answer.is_problem(400, "job-invalid");
        assert!(answer.text.contains(problem), "{problem}: {}", answer.text);
    }
    server.stopped();
}

#[test]
fn a_job_calls_a_method_over_tls_by_the_authority_that_it_names() {
    let key = rcgen::KeyPair::generate().expect("a key");
    let names = vec!["localhost".to_owned()];
    let made = rcgen::CertificateParams::new(names).expect("names").self_signed(&key);
    let made = made.expect("a certificate");
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().expect("versions");
    let config = config.with_no_client_auth();
    let chain = vec![made.der().clone()];
    let mut config = config.with_single_cert(chain, key).expect("a certificate with its key");
    config.alpn_protocols = vec![b"h2".to_vec()];
    let plain = config.clone();
    let pets = GrpcServer::with(Reflection::V1, Some(Arc::new(config)));
    let mut other = plain;
    other.alpn_protocols.clear();
    let other = GrpcServer::with(Reflection::V1, Some(Arc::new(other)));
    let place = Place::new();
    let roots = place.path("roots.pem");
    fs::write(&roots, made.pem()).expect("it can be written");
    let server = place.serve(&["--allow-shell"]);
    let url = |it: &GrpcServer, host: &str| {
        format!("grpcs://{host}:{}/test.v1.Pets/Find", it.address.port())
    };
    let body = "{\"name\": \"Rex\"}";
    for (job, url, roots, said) in [
        ("known", url(&pets, "localhost"), roots.to_str().expect("a text"), ""),
        ("unknown", url(&pets, "localhost"), "", "TLS: invalid peer certificate"),
        ("other_name", url(&pets, "127.0.0.1"), roots.to_str().expect("a text"), "TLS"),
        ("no_h2", url(&other, "localhost"), roots.to_str().expect("a text"), "HTTP/2"),
        ("no_file", url(&pets, "localhost"), "/nowhere.pem", "tlsRootCAsFile: /nowhere.pem"),
    ] {
        let (launch, output) =
            call(&server, job, &json!({"url": url, "body": body, "tlsRootCAsFile": roots}));
        let state = if said.is_empty() { "succeeded" } else { "failed" };
        assert_eq!(launch["state"], state, "{job}: {launch}");
        assert!(launch.to_string().contains(said), "{job}: {launch}");
        assert_eq!(output.contains("Rex"), said.is_empty(), "{job}: {output}");
    }
    server.stopped();
}
