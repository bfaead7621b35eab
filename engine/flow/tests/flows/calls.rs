//! Flows: calls with authentication and secrets, services with a description, processes.

use std::time::Duration;

use serde_json::json;
use turnwheel_flow::{
    Asked, Cleanup, Container, FakeIo, FlowError, HttpRequest, HttpResponse, IoError, IoErrorKind,
    Process, ProcessResult, Program, PullPolicy, ScriptLanguage,
};
use turnwheel_runtime::completion::block_on;

use crate::flow_common::{fault, load, run_with, world};

fn header(request: &HttpRequest, name: &str) -> Option<String> {
    let found = request.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    found.map(|(_, value)| value.clone())
}

fn answer(body: &str) -> Result<HttpResponse, IoError> {
    let headers = vec![("Content-Type".to_owned(), "application/json".to_owned())];
    Ok(HttpResponse { status: 200, headers, body: body.as_bytes().to_vec() })
}

#[test]
fn secrets_reach_the_service_and_are_stored_nowhere() {
    let flow = "
use:
  secrets: [shop, token]
  authentications: { shop: { basic: { use: shop } } }
do:
  - get:
      input: { from: '. + { key: $secrets.token.value }' }
      call: http
      with:
        method: get
        endpoint: { uri: 'https://shop.example/a', authentication: { use: shop } }
        headers: { X-Key: '${ .key }' }
        output: response
";
    let io = FakeIo::new()
        .secret("shop", json!({ "username": "ann", "password": "hunter22" }))
        .secret("token", json!({ "value": "t0ps3cret" }))
        .on_http(|request| {
            assert_eq!(header(request, "authorization").as_deref(), Some("Basic YW5uOmh1bnRlcjIy"));
            assert_eq!(header(request, "x-key").as_deref(), Some("t0ps3cret"));
            answer("{}")
        });
    let (output, view) = run_with(io.clone(), flow, json!({}));
    let shown = output.unwrap().to_string();
    let stored = format!("{view:?}");
    for secret in ["hunter22", "t0ps3cret", "YW5uOmh1bnRlcjIy"] {
        assert!(!shown.contains(secret) && !stored.contains(secret), "{secret}");
    }
    assert_eq!(io.asked().len(), 1);
    assert!(!format!("{:?}", io.asked()).contains("hunter22"), "a request does not show itself");
}

#[test]
fn a_secret_that_is_not_declared_is_a_fault_before_anything_is_sent() {
    let call = "
do:
  - get:
      call: http
      with: { method: post, endpoint: 'https://shop.example', body: { key: '${ $secrets.token }' } }
";
    for head in ["", "use: { secrets: [other] }"] {
        let io = FakeIo::new().secret("token", json!("t0ps3cret")).secret("other", json!("x"));
        let (outcome, _) = run_with(io.clone(), &format!("{head}{call}"), json!({}));
        let Err(FlowError::Faulted(fault)) = outcome else { panic!("{outcome:?}") };
        assert_eq!((fault.status, fault.instance.as_deref()), (403, Some("/do/0/get")));
        assert!(fault.kind.ends_with("/authorization"), "{fault:?}");
        assert_eq!(io.asked(), [], "nothing was sent");
    }
}

#[test]
fn an_authentication_by_its_name_has_the_secrets_that_it_names() {
    let flow = "
use:
  secrets: [token]
  authentications: { shop: { bearer: { token: '${ $secrets.token }' } } }
do:
  - get:
      call: http
      with: { method: get, endpoint: { uri: 'https://shop.example', authentication: { use: shop } } }
";
    let io = FakeIo::new().secret("token", json!("t0ps3cret")).on_http(|request| {
        assert_eq!(header(request, "authorization").as_deref(), Some("Bearer t0ps3cret"));
        answer("{}")
    });
    assert_eq!(run_with(io, flow, json!({})).0.unwrap(), json!({}));
}

#[test]
fn what_evaluates_to_null_is_not_sent() {
    let flow = "
do:
  - get:
      call: http
      with:
        method: get
        endpoint: https://shop.example
        headers: { X-Trace: '${ .trace }', X-Shop: '${ .shop }' }
        query: { page: '${ .page }', size: 5 }
  - run:
      run: { shell: { command: env, environment: { A: '${ .nothing }', B: b } } }
";
    let io = FakeIo::new()
        .on_http(|request| {
            assert_eq!(header(request, "x-trace"), None);
            assert_eq!(header(request, "x-shop").as_deref(), Some("7"));
            assert_eq!(request.uri, "https://shop.example?size=5");
            answer("{}")
        })
        .on_process(|process| {
            assert_eq!(process.environment, [("B".to_owned(), "b".to_owned())]);
            Ok(ProcessResult::default())
        });
    assert_eq!(run_with(io, flow, json!({ "shop": 7 })).0.unwrap(), json!(""));
}

#[test]
fn a_secret_that_comes_back_is_masked() {
    let flow = "
use: { secrets: [token] }
do:
  - echo:
      run: { shell: { command: env, environment: { TOKEN: '${ $secrets.token }' } } }
  - next: { set: { out: '${ . }' } }
";
    let io = FakeIo::new().secret("token", json!("t0ps3cret")).on_process(|process| {
        let stdout = format!("TOKEN={}\n", process.environment[0].1);
        Ok(ProcessResult { stdout, ..Default::default() })
    });
    let (output, view) = run_with(io, flow, json!({}));
    assert_eq!(output.unwrap(), json!({ "out": "TOKEN=••••\n" }));
    assert!(!format!("{view:?}").contains("t0ps3cret"));
}

#[test]
fn base_64_of_a_secret_and_a_short_secret_alone_are_masked() {
    let flow = "
use: { secrets: [token, pin] }
do:
  - echo:
      run:
        shell: { command: env, environment: { TOKEN: '${ $secrets.token }', PIN: '${ $secrets.pin }' } }
        return: all
";
    let io = FakeIo::new().secret("token", json!("t0ps3cret")).secret("pin", json!("1"));
    let io = io.on_process(|_| {
        let stdout = "dDBwczNjcmV0 and 12 stay apart".to_owned();
        Ok(ProcessResult { stdout, stderr: "1".to_owned(), ..Default::default() })
    });
    let output = run_with(io, flow, json!({})).0.unwrap();
    assert_eq!(output["stdout"], "•••• and 12 stay apart");
    assert_eq!(output["stderr"], "••••");
}

#[test]
fn a_secret_that_is_not_there_is_a_fault_with_403() {
    let flow = "
use: { secrets: [token] }
do:
  - get:
      call: http
      with: { method: get, endpoint: { uri: 'https://a.b/', authentication: { bearer: { use: token } } } }
";
    let wrong = fault(flow, json!({}));
    assert_eq!((&wrong["status"], &wrong["instance"]), (&json!(403), &json!("/do/0/get")));
}

#[test]
fn tokens_are_got_by_oauth_and_by_discovery() {
    let flow = "
do:
  - get:
      call: http
      with:
        method: get
        endpoint:
          uri: https://shop.example/a
          authentication:
            oauth2:
              authority: https://login.example/realm
              grant: client_credentials
              client: { id: me, secret: my secret, authentication: client_secret_basic }
              scopes: [read, write]
        headers: { X-Scheme: '${ $authorization.scheme }' }
";
    let io = FakeIo::new().on_http(|request| match request.uri.as_str() {
        "https://login.example/realm/oauth2/token" => {
            let body = String::from_utf8(request.body.clone().unwrap()).unwrap();
            assert_eq!(body, "grant_type=client_credentials&scope=read%20write");
            assert_eq!(header(request, "authorization").as_deref(), Some("Basic bWU6bXkgc2VjcmV0"));
            answer(r#"{ "access_token": "abc123" }"#)
        }
        "https://login.example/realm/.well-known/openid-configuration" => {
            answer(r#"{ "token_endpoint": "https://login.example/realm/oauth2/token" }"#)
        }
        _ => {
            assert_eq!(header(request, "authorization").as_deref(), Some("Bearer abc123"));
            assert_eq!(header(request, "x-scheme").as_deref(), Some("Bearer"));
            answer("1")
        }
    });
    assert_eq!(run_with(io.clone(), flow, json!({})).0.unwrap(), json!(1));
    let oidc = flow.replace("oauth2:", "oidc:");
    assert_eq!(run_with(io.clone(), &oidc, json!({})).0.unwrap(), json!(1));
    assert_eq!(io.asked().len(), 5);
    let refused = FakeIo::new().on_http(|_| Ok(HttpResponse { status: 400, ..Default::default() }));
    let Err(FlowError::Faulted(fault)) = run_with(refused, flow, json!({})).0 else { panic!() };
    assert_eq!(fault.status, 401);
}

#[test]
fn digest_is_left_to_the_client_and_names_of_authentications_are_followed() {
    let flow = "
use: { authentications: { d: { digest: { username: '${ .u }', password: p4ss } } } }
do: [ { get: { call: http, with: { method: get, endpoint: { uri: 'https://a.b/{u}', authentication: d } } } } ]
";
    let io = FakeIo::new().on_http(|request| {
        assert_eq!(request.uri, "https://a.b/ann");
        assert_eq!(request.digest, Some(("ann".to_owned(), "p4ss".to_owned())));
        answer("null")
    });
    assert!(run_with(io, flow, json!({ "u": "ann" })).0.is_ok());
}

#[test]
fn statuses_are_faults_and_redirects_are_followed_if_that_is_said() {
    let flow = "do: [ { get: { call: http, with: { method: get, endpoint: 'https://a.b/' } } } ]\n";
    let status = |status: u16| {
        FakeIo::new().on_http(move |request| {
            let _ = request.follows_redirects;
            Ok(HttpResponse { status, body: b"why".to_vec(), ..Default::default() })
        })
    };
    let of = |io, flow: &str| match run_with(io, flow, json!({})).0 {
        Err(FlowError::Faulted(fault)) => fault.status,
        Ok(_) => 0,
        Err(other) => panic!("{other}"),
    };
    assert_eq!(of(status(404), flow), 404);
    assert_eq!(of(status(302), flow), 302);
    let following = flow.replace("method: get", "redirect: true, method: get");
    assert_eq!(of(status(302), &following), 0);
    let dead = FakeIo::new().on_http(|_| Err(IoError::new(IoErrorKind::TimedOut, "no answer")));
    assert_eq!(of(dead, flow), 408);
    let lying = FakeIo::new().on_http(|_| answer("{ no json"));
    assert_eq!(of(lying, flow), 500);
}

const SWAGGER: &str = r##"{
  "swagger": "2.0", "host": "pets.example", "basePath": "/v2", "schemes": ["https"],
  "paths": {
    "/pet/{petId}": { "get": { "operationId": "getPet", "parameters": [
      { "name": "petId", "in": "path", "required": true }, { "$ref": "#/parameters/deep" } ] } },
    "/pet": { "post": { "operationId": "addPet", "parameters": [ { "name": "pet", "in": "body" } ] } } },
  "parameters": { "deep": { "name": "deep", "in": "query" } } }"##;

const OPENAPI: &str = "
openapi: 3.0.0
servers: [ { url: /api } ]
paths:
  /orders:
    post: { operationId: addOrder, requestBody: {}, parameters: [ { name: X-One, in: header } ] }
";

#[test]
fn services_are_called_as_their_descriptions_say() {
    let io = || {
        FakeIo::new().on_http(|request| match request.uri.as_str() {
            "https://docs.example/swagger.json" => answer(SWAGGER),
            "https://docs.example/openapi.yaml" => {
                Ok(HttpResponse { status: 200, body: OPENAPI.into(), ..Default::default() })
            }
            _ => {
                let body = request.body.clone().unwrap_or_default();
                let body = String::from_utf8(body).unwrap();
                let one = header(request, "x-one").unwrap_or_default();
                answer(&json!([request.method, request.uri, body, one]).to_string())
            }
        })
    };
    let call = |document: &str, operation: &str, parameters: &str| {
        let flow = format!(
            "do: [ {{ c: {{ call: openapi, with: {{ document: {{ endpoint: 'https://docs.example/{document}' }}, \
             operationId: {operation}, parameters: {parameters} }} }} }} ]\n"
        );
        run_with(io(), &flow, json!({ "id": 7 })).0
    };
    let got = call("swagger.json", "getPet", "{ petId: '${ .id }', deep: yes }").unwrap();
    assert_eq!(got, json!(["GET", "https://pets.example/v2/pet/7?deep=yes", "", ""]));
    let got = call("swagger.json", "addPet", "{ pet: { name: rex } }").unwrap();
    assert_eq!(got, json!(["POST", "https://pets.example/v2/pet", "{\"name\":\"rex\"}", ""]));
    let got = call("openapi.yaml", "addOrder", "{ X-One: a, n: 2 }").unwrap();
    assert_eq!(got, json!(["POST", "https://docs.example/api/orders", "{\"n\":2}", "a"]));
    assert!(call("swagger.json", "getPet", "{}").unwrap_err().to_string().contains("petId"));
    assert!(call("swagger.json", "getDog", "{}").unwrap_err().to_string().contains("getDog"));
    assert!(call("swagger.json", "getPet", "{ petId: 1, x: 2 }")
        .unwrap_err()
        .to_string()
        .contains("«x»"));
}

#[test]
fn processes_get_arguments_environment_and_input() {
    let flow = "
do:
  - list:
      run:
        shell:
          command: 'ls ${HOME} ${ .folder }'
          arguments: [ a, '${ .n }' ]
          environment: { COLOR: '${ .n + 1 }' }
          stdin: '${ . }'
        return: all
  - script:
      run: { script: { language: python, code: 'print(1)' }, return: code }
";
    let io = FakeIo::new().on_process(|process| {
        if let Program::Script { language, code } = &process.program {
            assert_eq!((*language, code.as_str()), (ScriptLanguage::Python, "print(1)"));
            return Ok(ProcessResult { code: 3, ..Default::default() });
        }
        assert_eq!(process.program, Program::Shell("ls ${HOME} /tmp".to_owned()));
        let Process { arguments, environment, stdin, .. } = process;
        assert_eq!(arguments, &["a", "1"]);
        assert_eq!(environment, &[("COLOR".to_owned(), "2".to_owned())]);
        assert_eq!(stdin.as_deref(), Some("{\"folder\":\"/tmp\",\"n\":1}"));
        Ok(ProcessResult { stdout: "out".to_owned(), ..Default::default() })
    });
    let (output, _) = run_with(io.clone(), flow, json!({ "folder": "/tmp", "n": 1 }));
    assert_eq!(output.unwrap(), json!(3));
    let keys: Vec<String> = io
        .asked()
        .into_iter()
        .map(|asked| match asked {
            Asked::Process(_, key) | Asked::Http(_, key) => key,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_ne!(keys[0], keys[1], "each step has its own key");
}

#[test]
fn an_exit_code_that_nobody_asks_for_is_a_fault() {
    let flow = "do: [ { sh: { run: { shell: { command: 'false' } } } } ]\n";
    let io = FakeIo::new().on_process(|_| {
        Ok(ProcessResult { code: 2, stderr: "no such file\n".to_owned(), ..Default::default() })
    });
    let Err(FlowError::Faulted(fault)) = run_with(io, flow, json!({})).0 else { panic!() };
    assert_eq!(fault.status, 500);
    assert!(fault.detail.unwrap().contains("code 2: no such file"));
}

#[test]
fn containers_get_all_that_a_flow_says_and_have_names_of_their_own() {
    let flow = "
use: { secrets: [word] }
do:
  - all of it:
      run:
        container:
          image: 'alpine:${ .n }'
          name: '${ \"mine-\\(.n)\" }'
          command: 'echo ${HOME} ${ .n }'
          arguments: [ a, '${ .n }' ]
          ports: { 8080: 80, '127.0.0.1:53': 53/udp }
          volumes: { /data: '/mnt:ro' }
          environment: { WORD: '${ $secrets.word }' }
          stdin: '${ . }'
          lifetime: { cleanup: eventually, after: '${ \"PT\\(.n)M\" }' }
          pullPolicy: never
        return: all
      output: { as: { n: 1, said: .stdout } }
  - little: { run: { container: { image: x, lifetime: { cleanup: always } } } }
  - left: { run: { await: false, container: { image: y, lifetime: { cleanup: never } } } }
";
    let io = FakeIo::new().secret("word", json!("hunter22")).on_container(|it| {
        let stdout = it.environment.iter().map(|(_, value)| value.as_str()).collect();
        Ok(ProcessResult { stdout, ..Default::default() })
    });
    let (output, view) = run_with(io.clone(), flow, json!({ "n": 3 }));
    assert_eq!(output.expect("it ends"), json!(""), "what is not awaited hands on its input");
    let asked: Vec<(Container, String)> = io
        .asked()
        .into_iter()
        .map(|asked| match asked {
            Asked::Container(it, key) => (it, key),
            other => panic!("{other:?}"),
        })
        .collect();
    let pairs = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    let first = Container {
        image: "alpine:3".to_owned(),
        name: "mine-3".to_owned(),
        command: Some("echo ${HOME} 3".to_owned()),
        arguments: vec!["a".to_owned(), "3".to_owned()],
        ports: pairs(&[("127.0.0.1:53", "53/udp"), ("8080", "80")]),
        volumes: pairs(&[("/data", "/mnt:ro")]),
        environment: pairs(&[("WORD", "hunter22")]),
        stdin: Some("{\"n\":3}".to_owned()),
        pull: PullPolicy::Never,
        cleanup: Cleanup::After(Duration::from_secs(180)),
    };
    assert!(asked[0].0 == first, "{:?}", asked[0].0);
    let (second, third) = (&asked[1].0, &asked[2].0);
    assert_eq!((second.cleanup, second.pull), (Cleanup::Always, PullPolicy::IfNotPresent));
    assert_eq!((third.cleanup, third.image.as_str()), (Cleanup::Never, "y"));
    let plan = view.id.to_string();
    assert!(second.name.starts_with(&format!("it-{plan}.test-little.")), "{}", second.name);
    assert!(third.name.starts_with(&format!("it-{plan}.test-left.")), "{}", third.name);
    assert_ne!(asked[1].1, asked[2].1);
    // A secret that comes back is masked, and a container does not show itself.
    assert!(!format!("{view:?}{:?}", io.asked()).contains("hunter22"));
}

#[test]
fn containers_end_as_processes_do_and_names_that_cannot_be_are_faults() {
    let io = || {
        FakeIo::new().on_container(|it| match it.image.as_str() {
            "dead" => Err(IoError::new(IoErrorKind::Communication, "the engine does not answer")),
            _ => Ok(ProcessResult { code: 3, stderr: "no".to_owned(), ..Default::default() }),
        })
    };
    let of = |text: &str| {
        let flow = format!("do: [ {{ a: {{ run: {text} }} }} ]\n");
        match run_with(io(), &flow, json!({})).0 {
            Ok(output) => output,
            Err(FlowError::Faulted(fault)) => fault.to_value(),
            Err(other) => panic!("{other}"),
        }
    };
    let detail = |text: &str| of(text)["detail"].to_string();
    assert!(detail("{ container: { image: x } }").contains("code 3: no"));
    assert_eq!(of("{ return: code, container: { image: x } }"), json!(3));
    assert!(detail("{ container: { image: dead } }").contains("the engine does not answer"));
    assert!(detail("{ container: { image: '${ \"--privileged\" }' } }").contains("no image"));
    assert!(detail("{ container: { image: x, name: 'a b' } }").contains("no name of a container"));
    let wrong = "{ container: { image: x, environment: { 'A=B': 1 } } }";
    assert!(detail(wrong).contains("no name of a variable"));
    assert!(detail("{ container: { image: x, ports: '${ 3 }' } }").contains("must be an object"));
}

#[test]
fn a_flow_with_containers_is_refused_where_no_engine_is() {
    let flow = load("do: [ { a: { run: { container: { image: x } } } } ]\n");
    let (world, flows) = world(FakeIo::new());
    let refused = block_on(flows.add(&flow)).expect("off the workers").expect_err("no engine");
    assert!(refused.to_string().contains("test/it:1.0.0"), "{refused}");
    assert!(refused.to_string().contains("no engine is in this test"), "{refused}");
    let unmet = flow.unmet(&FakeIo::new(), "it.yaml").expect("no engine");
    assert!(unmet.to_string().starts_with("it.yaml:2:21: containers cannot be run"), "{unmet}");
    let engine = FakeIo::new().on_container(|_| Ok(ProcessResult::default()));
    assert_eq!(flow.unmet(&engine, "it.yaml"), None);
    world.shutdown().expect("it ends in time");
}
