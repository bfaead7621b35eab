//! A server of gRPC on loopback, written on frames of HTTP/2, so that it can also do what servers must not.
//!
//! The method `Find` does as the name says that it is asked for.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::thread;

use bytes::{BufMut as _, Bytes, BytesMut};
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, Request, Response};
use prost_reflect::prost::Message as _;
use prost_reflect::{DescriptorPool, DynamicMessage, Value};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::TlsAcceptor;

/// The service. It imports a file of its own and one that is built in.
pub(crate) const PETS: &str = r#"
syntax = "proto3";
package test.v1;
import "google/protobuf/timestamp.proto";
import "test/v1/kinds.proto";
message FindRequest { string name = 1; int64 id = 2; repeated Kind kinds = 3; }
message Pet {
  string name = 1; int64 id = 2; Kind kind = 3; google.protobuf.Timestamp born = 4;
  map<string, string> seen = 5;
}
service Pets {
  rpc Find(FindRequest) returns (Pet);
  rpc List(FindRequest) returns (stream Pet);
  rpc Upload(stream Pet) returns (Pet);
}
"#;

/// The file that it imports.
pub(crate) const KINDS: &str =
    r#"syntax = "proto3"; package test.v1; enum Kind { CAT = 0; DOG = 1; }"#;

/// The part of the reflection service that the server has.
const REFLECTION: &str = r#"
syntax = "proto3"; package r;
message Ask { string file_by_filename = 3; string file_containing_symbol = 4; }
message Answer { Files file_descriptor_response = 4; Error error_response = 7; }
message Files { repeated bytes file_descriptor_proto = 1; }
message Error { int32 error_code = 1; string error_message = 2; }
"#;

struct Texts;

impl protox::file::FileResolver for Texts {
    fn open_file(&self, name: &str) -> Result<protox::file::File, protox::Error> {
        let text = match name {
            "test/v1/pets.proto" => PETS,
            "test/v1/kinds.proto" => KINDS,
            "r.proto" => REFLECTION,
            _ => return protox::file::GoogleFileResolver::new().open_file(name),
        };
        protox::file::File::from_source(name, text)
    }
}

fn pool() -> DescriptorPool {
    let mut compiler = protox::Compiler::with_file_resolver(Texts);
    compiler.include_imports(true);
    compiler.open_files(["test/v1/pets.proto", "r.proto"]).expect("they are right");
    compiler.descriptor_pool()
}

/// The version of reflection that a server has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reflection {
    None,
    V1,
    V1Alpha,
}

pub(crate) struct GrpcServer {
    pub(crate) address: SocketAddr,
    paths: Arc<Mutex<Vec<String>>>,
    closed: tokio::sync::watch::Receiver<usize>,
}

impl GrpcServer {
    pub(crate) fn begin(reflection: Reflection) -> Self {
        Self::with(reflection, None)
    }

    /// It serves until the process of the test ends.
    pub(crate) fn with(reflection: Reflection, tls: Option<Arc<ServerConfig>>) -> Self {
        let (told, address) = std::sync::mpsc::channel();
        let paths = Arc::new(Mutex::new(Vec::new()));
        let (ended, closed) = tokio::sync::watch::channel(0);
        let (kept, ended) = (Arc::clone(&paths), Arc::new(ended));
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(async move {
                let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
                told.send(listener.local_addr().expect("it has one")).expect("somebody waits");
                let shared = Arc::new(Shared { pool: pool(), reflection, paths: kept });
                loop {
                    let (stream, _) = listener.accept().await.expect("a connection");
                    let (shared, tls, ended) =
                        (Arc::clone(&shared), tls.clone(), Arc::clone(&ended));
                    tokio::spawn(async move {
                        match tls {
                            None => shared.serve(stream).await,
                            Some(config) => {
                                let accepted = TlsAcceptor::from(config).accept(stream).await;
                                if let Ok(stream) = accepted {
                                    shared.serve(stream).await;
                                }
                            }
                        }
                        ended.send_modify(|count| *count += 1);
                    });
                }
            });
        });
        Self { address: address.recv().expect("it listens"), paths, closed }
    }

    /// The paths of the calls so far.
    pub(crate) fn paths(&self) -> Vec<String> {
        self.paths.lock().expect("unharmed").clone()
    }

    /// Waits until so many connections have ended.
    pub(crate) fn wait_closed(&mut self, count: usize) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(self.closed.wait_for(|closed| *closed >= count)).expect("it serves");
    }
}

struct Shared {
    pool: DescriptorPool,
    reflection: Reflection,
    paths: Arc<Mutex<Vec<String>>>,
}

fn frame(message: &[u8]) -> Bytes {
    let mut frame = BytesMut::new();
    frame.put_u8(0);
    frame.put_u32(u32::try_from(message.len()).expect("short"));
    frame.extend_from_slice(message);
    frame.freeze()
}

fn status(code: u32, message: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert("grpc-status", code.into());
    headers.insert("grpc-message", message.parse().expect("a value"));
    headers
}

/// An answer that has begun.
fn begun(respond: &mut SendResponse<Bytes>) -> SendStream<Bytes> {
    let head = Response::builder().header("content-type", "application/grpc+proto");
    respond.send_response(head.body(()).expect("a head"), false).expect("it is open")
}

/// An error without messages: headers alone.
fn refuse(respond: &mut SendResponse<Bytes>, code: u32, message: &str) {
    let mut head =
        Response::builder().header("content-type", "application/grpc").body(()).expect("a head");
    head.headers_mut().extend(status(code, message));
    respond.send_response(head, true).expect("it is open");
}

impl Shared {
    async fn serve<T: AsyncRead + AsyncWrite + Unpin>(self: Arc<Self>, stream: T) {
        let Ok(mut connection) = h2::server::handshake(stream).await else { return };
        while let Some(Ok((request, mut respond))) = connection.accept().await {
            let path = request.uri().path().to_owned();
            self.paths.lock().expect("unharmed").push(path.clone());
            let shared = Arc::clone(&self);
            tokio::spawn(async move { shared.answer(&path, request, &mut respond).await });
        }
    }

    fn message(&self, name: &str) -> DynamicMessage {
        DynamicMessage::new(self.pool.get_message_by_name(name).expect("it is described"))
    }

    async fn read(&self, body: &mut RecvStream, name: &str) -> DynamicMessage {
        self.read_all(body, name).await.remove(0)
    }

    async fn read_all(&self, body: &mut RecvStream, name: &str) -> Vec<DynamicMessage> {
        let mut bytes = BytesMut::new();
        while let Some(Ok(data)) = body.data().await {
            body.flow_control().release_capacity(data.len()).expect("it was used");
            bytes.extend_from_slice(&data);
        }
        let kind = self.pool.get_message_by_name(name).expect("it is described");
        let mut messages = Vec::new();
        while !bytes.is_empty() {
            let length = u32::from_be_bytes(bytes[1..5].try_into().expect("four bytes"));
            let message = bytes.split_to(5 + length as usize);
            messages.push(DynamicMessage::decode(kind.clone(), &message[5..]).expect("a message"));
        }
        messages
    }

    async fn answer(
        &self,
        path: &str,
        mut request: Request<RecvStream>,
        respond: &mut SendResponse<Bytes>,
    ) {
        let headers = request.headers().clone();
        match path {
            "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
                if self.reflection == Reflection::V1 => {}
            "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
                if self.reflection == Reflection::V1Alpha => {}
            "/test.v1.Pets/Find" => {
                let asked = self.read(request.body_mut(), "test.v1.FindRequest").await;
                return self.find(&asked, &headers, respond).await;
            }
            "/test.v1.Pets/List" => {
                let asked = self.read(request.body_mut(), "test.v1.FindRequest").await;
                let mut stream = begun(respond);
                let count = asked.get_field_by_name("id").and_then(|id| id.as_i64()).unwrap_or(0);
                for id in 0..count {
                    let mut pet = self.message("test.v1.Pet");
                    pet.set_field_by_name("id", Value::I64(id));
                    stream.send_data(frame(&pet.encode_to_vec()), false).expect("it is open");
                }
                stream.send_trailers(status(0, "")).expect("it is open");
                return;
            }
            "/test.v1.Pets/Upload" => {
                let all = self.read_all(request.body_mut(), "test.v1.Pet").await;
                let letters = |pet: &DynamicMessage| {
                    let name = pet.get_field_by_name("name").expect("it is described");
                    name.as_str().map_or(0, str::len)
                };
                let mut pet = self.message("test.v1.Pet");
                pet.set_field_by_name("id", Value::I64(all.len() as i64));
                let letters: usize = all.iter().map(letters).sum();
                pet.set_field_by_name("name", Value::String(letters.to_string()));
                let mut stream = begun(respond);
                stream.send_data(frame(&pet.encode_to_vec()), false).expect("it is open");
                stream.send_trailers(status(0, "")).expect("it is open");
                return;
            }
            _ => return refuse(respond, 12, "there is no such method"),
        }
        let asked = self.read(request.body_mut(), "r.Ask").await;
        let text = |name: &str| {
            let value = asked.get_field_by_name(name).expect("it is described");
            value.as_str().map(str::to_owned).unwrap_or_default()
        };
        let name = match text("file_containing_symbol").as_str() {
            "test.v1.Pets" => "test/v1/pets.proto".to_owned(),
            _ => text("file_by_filename"),
        };
        let mut answer = self.message("r.Answer");
        match self.pool.get_file_by_name(&name) {
            Some(file) => {
                let mut files = self.message("r.Files");
                let bytes = Value::Bytes(file.encode_to_vec().into());
                files.set_field_by_name("file_descriptor_proto", Value::List(vec![bytes]));
                answer.set_field_by_name("file_descriptor_response", Value::Message(files));
            }
            None => {
                let mut error = self.message("r.Error");
                error.set_field_by_name("error_message", Value::String("no such symbol".into()));
                answer.set_field_by_name("error_response", Value::Message(error));
            }
        }
        let mut stream = begun(respond);
        stream.send_data(frame(&answer.encode_to_vec()), false).expect("it is open");
        stream.send_trailers(status(0, "")).expect("it is open");
    }

    async fn find(
        &self,
        asked: &DynamicMessage,
        headers: &HeaderMap,
        respond: &mut SendResponse<Bytes>,
    ) {
        let name = asked.get_field_by_name("name").expect("it is described");
        let name = name.as_str().unwrap_or_default();
        let mut pet = self.message("test.v1.Pet");
        for field in ["name", "id"] {
            let value = asked.get_field_by_name(field).expect("it is described").into_owned();
            pet.set_field_by_name(field, value);
        }
        let seen = ["authorization", "idempotency-key", "traceparent", "te"].iter();
        let seen = seen.filter_map(|name| {
            let value = headers.get(*name)?.to_str().ok()?.to_owned();
            Some((prost_reflect::MapKey::String((*name).to_owned()), Value::String(value)))
        });
        pet.set_field_by_name("seen", Value::Map(seen.collect()));
        let pet = frame(&pet.encode_to_vec());
        match name {
            "hang" => {
                let _begun = begun(respond);
                std::future::pending::<()>().await;
            }
            "reset" => respond.send_reset(Reason::ENHANCE_YOUR_CALM),
            "missing" => refuse(respond, 5, "no%20pet"),
            "html" => {
                let head = Response::builder().status(502).header("content-type", "text/html");
                respond.send_response(head.body(()).expect("a head"), true).expect("it is open");
            }
            "flood" => {
                let mut stream = begun(respond);
                // Until the caller goes away; no more than it has room for.
                loop {
                    stream.reserve_capacity(pet.len());
                    let room = std::future::poll_fn(|cx| stream.poll_capacity(cx)).await;
                    if !matches!(room, Some(Ok(_))) || stream.send_data(pet.clone(), false).is_err()
                    {
                        return;
                    }
                }
            }
            "odd" => {
                let mut stream = begun(respond);
                stream.send_data(pet.clone(), false).expect("it is open");
                stream.send_trailers(status(8, "enough")).expect("it is open");
            }
            _ => {
                let (bytes, code): (Vec<Bytes>, Option<u32>) = match name {
                    "huge" => (vec![Bytes::from_static(b"\0\x40\0\0\0")], Some(0)),
                    "compressed" => (vec![Bytes::from_static(b"\x01\0\0\0\0")], Some(0)),
                    "garbage" => (vec![frame(b"\xff\xff\xff")], Some(0)),
                    "part" => (vec![pet.slice(..pet.len() - 1)], Some(0)),
                    "twice" => (vec![pet.clone(), pet], Some(0)),
                    "nothing" => (Vec::new(), Some(0)),
                    "silent" => (vec![pet], None),
                    _ => (vec![pet], Some(0)),
                };
                let mut stream = begun(respond);
                for bytes in bytes {
                    stream.send_data(bytes, false).expect("it is open");
                }
                match code {
                    Some(code) => stream.send_trailers(status(code, "")).expect("it is open"),
                    None => stream.send_data(Bytes::new(), true).expect("it is open"),
                }
            }
        }
    }
}
