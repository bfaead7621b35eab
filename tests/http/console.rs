//! The console: its files are served with their types and a strict policy, every link leads to one of
//! them, and every operation that it asks for is one of the API.
#![cfg(feature = "server")]

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use sha2::{Digest, Sha256};
use turnwheel::engine::MemoryStore;
use turnwheel::http::{openapi, router, Access, Options, Role, Token};

use crate::http_common::{world, Served};

/// What stands between a mark and the next quote.
fn quoted<'a>(text: &'a str, mark: &str) -> Vec<&'a str> {
    let rest = text.split(mark).skip(1);
    rest.filter_map(|rest| rest.split_once('"').map(|(name, _)| name)).collect()
}

/// The names of all files, found by following the links from the document.
fn files(served: &Served) -> BTreeSet<String> {
    let mut found = BTreeSet::from(["index.html".to_owned()]);
    let mut left = vec!["index.html".to_owned()];
    while let Some(name) = left.pop() {
        let text = served.get(&format!("/console/{name}")).text;
        let marks: &[&str] = match name.rsplit_once('.') {
            Some((_, "html")) => &["href=\"", "src=\""],
            _ => &["from \"./", "import(\"./"],
        };
        let links = marks.iter().flat_map(|mark| quoted(&text, mark));
        for link in links.filter(|link| !link.starts_with('#')) {
            // The document names them in the folder of their version.
            let link = link.rsplit('/').next().unwrap_or(link);
            if found.insert(link.to_owned()) {
                left.push(link.to_owned());
            }
        }
    }
    found
}

/// The modules of others by their names, with the hashes that the list says.
fn vendored() -> BTreeMap<String, String> {
    let list = include_str!("../../src/console/vendored/VENDORED");
    let lines = list.lines().filter(|line| !line.starts_with('#'));
    let entry = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        assert!(words.len() >= 5, "file, package, version, licence, hash: {line}");
        (words[0].to_owned(), words[words.len() - 1].to_owned())
    };
    lines.map(entry).collect()
}

#[test]
fn modules_of_others_are_those_that_the_list_names() {
    let served = Served::new();
    let listed = vendored();
    assert_eq!(listed.len(), 2);
    for (name, hash) in &listed {
        let text = served.get(&format!("/console/{name}")).text;
        let found: String =
            Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(&found, hash, "{name} is another file than the one that was looked at");
    }
    let licences = include_str!("../../src/console/vendored/LICENSES.txt");
    for part in listed.keys().map(String::as_str).chain(["Apache License", "The MIT License"]) {
        assert!(licences.contains(part), "the licences lack {part}");
    }
}

#[test]
fn every_link_leads_to_a_file_with_its_type_and_the_policy() {
    let served = Served::new();
    let files = files(&served);
    for needed in ["index.html", "console.css", "icon.svg", "app.js", "run.js", "cluster.js"] {
        assert!(files.contains(needed), "{needed} is not linked: {files:?}");
    }
    for name in &files {
        let answer = served.get(&format!("/console/{name}"));
        assert_eq!(answer.status, 200, "{name}");
        let kind = match name.rsplit_once('.').map_or("", |(_, ending)| ending) {
            "html" => "text/html; charset=utf-8",
            "css" => "text/css; charset=utf-8",
            "js" => "text/javascript; charset=utf-8",
            "svg" => "image/svg+xml",
            other => panic!("{name}: nobody knows the type of .{other}"),
        };
        assert_eq!(answer.header("content-type"), kind, "{name}");
        assert_eq!(answer.header("x-content-type-options"), "nosniff");
        assert_eq!(answer.header("cache-control"), "no-cache");
        let policy = answer.header("content-security-policy");
        assert!(policy.starts_with("default-src 'none';"), "{policy}");
        assert!(!policy.contains("unsafe") && !policy.contains('*'), "{policy}");
        assert!(policy.contains("frame-ancestors 'none'"), "{policy}");
        assert!(answer.text.lines().count() <= 500, "{name} is too long");
    }
    assert_eq!(served.get("/console/").text, served.get("/console/index.html").text);
    assert_eq!(served.get("/console/nothing.js").status, 404);
    assert_eq!(served.get("/console/..%2f..%2fCargo.toml").status, 404);
}

#[test]
fn a_file_that_the_browser_has_is_not_sent_again() {
    let served = Served::new();
    let first = served.get("/console/app.js");
    let tag = first.header("etag");
    assert!(tag.starts_with('"') && tag.len() > 10, "{tag}");
    let again = served.send("GET", "/console/app.js", &[("if-none-match", tag)], None);
    assert_eq!((again.status, again.text.as_str()), (304, ""));
    assert_eq!(again.header("etag"), tag);
    let other = served.send("GET", "/console/app.js", &[("if-none-match", "\"other\"")], None);
    assert_eq!(other.status, 200);
}

#[test]
fn files_in_the_folder_of_their_version_are_kept_and_asked_for_no_more() {
    let served = Served::new();
    let document = served.get("/console/").text;
    let links = ["href=\"", "src=\""].map(|mark| quoted(&document, mark)).concat();
    let links: Vec<&str> = links.into_iter().filter(|link| !link.starts_with('#')).collect();
    let folder = links[0].split('/').next().expect("a folder");
    assert!(folder.len() == 16 && links.len() > 10, "{links:?}");
    let kept = |path: &str| {
        let answer = served.get(&format!("/console/{path}"));
        assert_eq!(answer.status, 200, "{path}");
        (answer.header("cache-control").to_owned(), answer.text)
    };
    for link in links {
        assert!(link.starts_with(&format!("{folder}/")), "{link} is in another folder");
        let (cache, text) = kept(link);
        assert!(
            cache.contains("immutable") && cache.contains("max-age=31536000"),
            "{link}: {cache}"
        );
        let (_, name) = link.split_once('/').expect("a name");
        // A page of a version before asks for its files: it gets those of now, and does not keep
        // them.
        assert_eq!(kept(name), ("no-cache".to_owned(), text.clone()));
        assert_eq!(kept(&format!("0123456789abcdef/{name}")), ("no-cache".to_owned(), text));
    }
    assert_eq!(served.get("/console/").header("cache-control"), "no-cache");
    assert_eq!(served.get(&format!("/console/{folder}/nothing.js")).status, 404);
}

#[test]
fn nothing_comes_from_elsewhere_and_no_data_is_read_as_markup() {
    let served = Served::new();
    // What others wrote is known by its hash.
    let own = files(&served).into_iter().filter(|name| !vendored().contains_key(name));
    for name in own {
        let text = served.get(&format!("/console/{name}")).text;
        // The name space of pictures is a name, not an address.
        let text = text.replace("http://www.w3.org/2000/svg", "");
        for address in ["http://", "https://", "\"//", "url(", "@import"] {
            assert!(!text.contains(address), "{name} has {address}");
        }
        for way in [
            "innerHTML",
            "InnerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "Function(",
            "srcdoc",
            "DOMParser",
            " onclick=",
            " style=",
            "javascript:",
        ] {
            assert!(!text.contains(way), "{name} has {way}");
        }
        assert!(
            !text.contains("href=\"/") && !text.contains("src=\"/"),
            "{name} links to the root"
        );
        let asks = text.contains("fetch(") || text.contains("api/v1/\"");
        assert!(!asks || name == "api.js", "{name} asks the API by itself");
    }
}

/// Whether a file of routes that are not described yet has this path.
fn is_routed(operation: &str) -> bool {
    let files = [
        include_str!("../../src/http/route/jobs.rs"),
        include_str!("../../src/http/route/journeys.rs"),
    ];
    let (_, path) = operation.split_once(' ').expect("a method and a path");
    let route = format!(".route(\"/api/v1/{path}\"");
    files.iter().any(|file| file.contains(&route))
}

#[test]
fn every_operation_that_the_console_asks_for_is_one_of_the_api() {
    let served = Served::new();
    let text = served.get("/console/api.js").text;
    let (_, rest) = text.split_once("export const operations = {").expect("the operations");
    let (list, _) = rest.split_once("};").expect("their end");
    let described = serde_json::to_value(openapi()).expect("it is JSON");
    let mut names = BTreeSet::new();
    for line in list.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (name, operation) = line.split_once(": ").expect("a name and an operation");
        let operation = operation.trim_matches(['"', ',']);
        let (method, path) = operation.split_once(' ').expect("a method and a path");
        let path = if name == "health" { format!("/{path}") } else { format!("/api/v1/{path}") };
        let found = &described["paths"][&path][method.to_lowercase()];
        let is_known = found.is_object() || is_routed(operation);
        assert!(is_known, "{method} {path} is no operation of the API");
        names.insert(name.to_owned());
    }
    assert!(names.len() > 15, "{names:?}");
    let mut used = BTreeSet::new();
    for name in files(&served).iter().filter(|name| name.ends_with(".js")) {
        let text = served.get(&format!("/console/{name}")).text;
        let asked =
            ["ask(\"", "address(\"", "useAsk(\"", "stream(\""].map(|mark| quoted(&text, mark));
        for asked in asked.into_iter().flatten() {
            assert!(names.contains(asked), "{name} asks for «{asked}»");
            used.insert(asked.to_owned());
        }
    }
    assert!(used.len() > 12, "{used:?}");
}

#[test]
fn the_pages_need_no_token_and_what_they_ask_does() {
    let tokens = vec![Token::new("reader", Role::Read, "a secret of the reader")];
    let served = Served::with(world(MemoryStore::new()), Options::new(Access::Tokens(tokens)));
    assert_eq!(served.get("/console/").status, 200);
    assert_eq!(served.get("/console/app.js").status, 200);
    served.get("/api/v1/stats").is_problem(401, "unauthorized");
}

/// Follows no redirects, unlike the client of the other tests.
fn onward(url: &str) -> (u16, String) {
    let agent: ureq::Agent =
        ureq::Agent::config_builder().max_redirects(0).http_status_as_error(false).build().into();
    let answer = agent.get(url).call().expect("an answer");
    let to = answer.headers().get("location").map(|to| to.to_str().expect("text").to_owned());
    (answer.status().as_u16(), to.unwrap_or_default())
}

#[test]
fn the_root_leads_to_the_console_by_a_relative_address() {
    let served = Served::new();
    for path in ["/", "/console"] {
        assert_eq!(
            onward(&format!("{}{path}", served.url)),
            (307, "console/".to_owned()),
            "{path}"
        );
    }
    let answer = served.get("/");
    assert!(answer.text.contains("<title>Turnwheel</title>"), "{}", answer.text);
}

#[test]
fn under_another_path_it_is_the_same() {
    let world = world(MemoryStore::new());
    let api = router(&world, Options::new(Access::Host));
    let app: axum::Router = axum::Router::new().nest("/deep/wheel", api);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let listener =
        runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let server = runtime.spawn(async move { axum::serve(listener, app).await });
    let to = |path: &str| onward(&format!("{url}{path}"));
    assert_eq!(to("/deep/wheel"), (307, "wheel/console/".to_owned()));
    assert_eq!(to("/deep/wheel/console"), (307, "console/".to_owned()));
    let get = |path: &str| {
        let mut answer = ureq::get(&format!("{url}{path}")).call().expect("an answer");
        answer.body_mut().read_to_string().expect("text")
    };
    assert!(get("/deep/wheel").contains("<title>Turnwheel</title>"));
    assert!(get("/deep/wheel/console/app.js").contains("import"));
    // `api.js` asks next to `console/`.
    assert!(get("/deep/wheel/console/api.js").contains("new URL(\"../\", document.baseURI)"));
    let stats: Value = serde_json::from_str(&get("/deep/wheel/api/v1/stats")).expect("JSON");
    assert!(stats["plans"].is_array(), "{stats}");
    server.abort();
    world.shutdown().expect("it ends");
}
