//! Calls of gRPC: what a host is asked for, and what its answers become.

use serde_json::{json, Value};
use turnwheel_flow::{
    Asked, FakeIo, GrpcRequest, GrpcResponse, HttpResponse, IoError, IoErrorKind, ProtoFile,
};

use crate::flow_common::{load, problems, run_with};

const CALL: &str = "
use: { secrets: [key] }
do:
  - ask:
      call: grpc
      with:
        proto: { endpoint: 'https://docs.example/protos/shop/v1/shop.proto?x=1' }
        service:
          name: shop.v1.Orders
          host: '${ .host }'
          port: 50051
          authentication: { bearer: { use: key } }
        method: Find
        arguments: { id: '${ .id }', kinds: [NEW] }
";

const SHORT: &str =
    "do: [ { a: { call: grpc, with: { service: { name: S, host: h }, method: M } } } ]\n";

const SHOP: &str =
    "import \"shop/v1/kinds.proto\"; import 'google/protobuf/any.proto'; import \"other.proto\";";

fn answered(output: Value) -> Result<GrpcResponse, IoError> {
    Ok(GrpcResponse { output, ..GrpcResponse::default() })
}

/// A place of files, and a service.
fn shop() -> FakeIo {
    let io = FakeIo::new().secret("key", json!({ "token": "t0ps3cret" })).on_http(|request| {
        let text = match request.uri.as_str() {
            "https://docs.example/protos/shop/v1/shop.proto?x=1" => SHOP,
            "https://docs.example/protos/shop/v1/kinds.proto" => "import \"other.proto\"; // kinds",
            "https://docs.example/protos/shop/v1/other.proto" => "// other",
            _ => return Ok(HttpResponse { status: 404, ..HttpResponse::default() }),
        };
        Ok(HttpResponse { status: 200, headers: Vec::new(), body: text.into() })
    });
    io.on_grpc(|_| answered(json!({ "text": "t0ps3cret is not shown" })))
}

fn calls(io: &FakeIo) -> Vec<GrpcRequest> {
    let of = |it: Asked| match it {
        Asked::Grpc(request, _) => Some(request),
        _ => None,
    };
    io.asked().into_iter().filter_map(of).collect()
}

#[test]
fn a_grpc_call_has_the_files_of_its_service_and_what_they_import() {
    let io = shop();
    let (output, view) = run_with(io.clone(), CALL, json!({ "host": "shop.example", "id": 7 }));
    assert_eq!(output.expect("it ends well"), json!({ "text": "•••• is not shown" }));
    assert!(!format!("{view:?}").contains("t0ps3cret"), "the secret is not stored");
    let file = |name: &str, text: &str| ProtoFile { name: name.into(), text: text.into() };
    let expected = GrpcRequest {
        host: "shop.example".into(),
        port: 50051,
        is_tls: false,
        protos: vec![
            file("shop.proto", SHOP),
            // Names of imports begin at a folder above that of the file, or in it.
            file("shop/v1/kinds.proto", "import \"other.proto\"; // kinds"),
            file("other.proto", "// other"),
        ],
        service: "shop.v1.Orders".into(),
        method: "Find".into(),
        arguments: json!({ "id": 7, "kinds": ["NEW"] }),
        metadata: vec![("Authorization".into(), "Bearer t0ps3cret".into())],
    };
    assert_eq!(calls(&io), [expected]);
}

#[test]
fn a_grpc_call_without_a_file_is_by_reflection_and_without_a_port_has_tls() {
    let io = FakeIo::new().on_grpc(|_| answered(json!([])));
    for (service, port, is_tls) in [
        ("", 443, true),
        (", port: 443, tls: false", 443, false),
        (", port: 80", 80, false),
        (", port: '${ .port }', tls: true", 9000, true),
    ] {
        let flow = SHORT.replace("host: h", &format!("host: h{service}"));
        run_with(io.clone(), &flow, json!({ "port": 9000 })).0.expect("it ends well");
        let last = calls(&io).pop().expect("it was called");
        assert_eq!((last.port, last.is_tls, last.protos.len()), (port, is_tls, 0), "{service}");
        assert_eq!(last.arguments, json!({}));
    }
}

#[test]
fn a_failed_grpc_call_is_a_fault_with_its_status_and_details() {
    let fault = |io: FakeIo, flow: &str| {
        let ended = run_with(io, flow, json!({ "host": "shop.example", "id": 7 })).0;
        match ended.expect_err("it fails") {
            turnwheel_flow::FlowError::Faulted(fault) => fault,
            other => panic!("{other}"),
        }
    };
    let refused = FakeIo::new().on_grpc(|_| {
        let details = vec![json!({ "reason": "CLOSED" })];
        Ok(GrpcResponse { status: 9, message: "no".into(), details, output: Value::Null })
    });
    let refused = fault(refused, SHORT);
    assert!(refused.kind.ends_with("/communication"), "{refused}");
    assert_eq!((refused.status, refused.instance.as_deref()), (400, Some("/do/0/a")));
    let said = "grpcs://h:443/S/M answered FAILED_PRECONDITION (9): no: [{\"reason\":\"CLOSED\"}]";
    assert_eq!(refused.detail.as_deref(), Some(said));
    let of = |kind| FakeIo::new().on_grpc(move |_| Err(IoError::new(kind, "so")));
    for (kind, name, status) in [
        (IoErrorKind::Invalid, "validation", 400),
        (IoErrorKind::Unsupported, "configuration", 400),
        (IoErrorKind::Communication, "communication", 500),
        (IoErrorKind::TimedOut, "timeout", 408),
        (IoErrorKind::Forbidden, "authorization", 403),
    ] {
        let fault = fault(of(kind), SHORT);
        assert!(fault.kind.ends_with(name) && fault.status == status, "{kind:?}: {fault}");
    }
}

#[test]
fn a_file_that_cannot_be_had_is_a_fault_and_nothing_is_called() {
    let with = |text: &'static str| {
        let found = HttpResponse { status: 200, headers: Vec::new(), body: text.into() };
        shop().on_http(move |request| {
            let is_first = request.uri.ends_with("shop.proto?x=1");
            Ok(if is_first { found.clone() } else { HttpResponse { status: 404, ..found.clone() } })
        })
    };
    for (text, said) in [
        ("import \"none.proto\";", "«none.proto», which is neither in its folder nor above it"),
        ("import \"../../etc/x\";", "«../../etc/x», which is no path"),
        ("import \"/etc/x\";", "which is no path"),
        ("import \"http://a/b\";", "which is no path"),
    ] {
        let io = with(text);
        let ended = run_with(io.clone(), CALL, json!({ "host": "shop.example", "id": 7 })).0;
        let error = ended.expect_err("it fails").to_string();
        assert!(error.contains(said), "{text}: {error}");
        assert_eq!(calls(&io), []);
    }
    let ended = run_with(shop(), CALL, json!({ "host": "a/b", "id": 7 })).0;
    assert!(ended.expect_err("it fails").to_string().contains("«a/b» is no name of a host"));
}

#[test]
fn what_is_wrong_with_a_grpc_call_is_said() {
    for (with, said) in [
        ("{ method: M }", "must have the field «service»"),
        ("{ service: { name: S, host: h } }", "must have the field «method»"),
        ("{ service: { name: S, host: h }, methd: M }", "did you mean «method»"),
        ("{ service: { name: S, host: 'http://h' }, method: M }", "is no name of a host"),
        ("{ service: { name: S, host: h, port: 70000 }, method: M }", "«70000» is no port"),
        ("{ service: { name: S/T, host: h }, method: M }", "«S/T» is no name of gRPC"),
        ("{ service: { name: S, host: h }, method: '${ .m }' }", "cannot be an expression"),
        (
            "{ service: { name: S, host: h, authentication: { digest: { username: a, password: b } } }, \
             method: M }",
            "«digest» of call: grpc is not supported",
        ),
    ] {
        let wrong = problems(&format!("do: [ {{ a: {{ call: grpc, with: {with} }} }} ]"));
        assert!(wrong.contains(said), "{with}\n{wrong}");
    }
    assert!(problems("do: [ { a: { call: grpc } } ]").contains("must have the field «with»"));
}

#[test]
fn a_flow_with_grpc_is_refused_where_it_is_not_built_in() {
    let flow = load(SHORT);
    let unmet = flow.unmet(&FakeIo::new(), "it.yaml").expect("no gRPC");
    assert!(unmet.to_string().contains("gRPC cannot be called here"), "{unmet}");
    assert_eq!(flow.unmet(&FakeIo::new().on_grpc(|_| answered(Value::Null)), "it.yaml"), None);
}
