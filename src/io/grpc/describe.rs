//! The method of a call: by the files of its service, compiled here, or by the server's reflection.

use std::collections::{BTreeMap, VecDeque};

use prost_reflect::prost::Message as _;
use prost_reflect::prost_types::{
    DescriptorProto, EnumDescriptorProto, FileDescriptorProto, ServiceDescriptorProto,
    UninterpretedOption,
};
use prost_reflect::{DescriptorPool, DynamicMessage, MethodDescriptor, Value};
use protox::file::{ChainFileResolver, File, FileResolver, GoogleFileResolver};
use turnwheel_flow::{GrpcRequest, IoError, IoErrorKind, ProtoFile};

use super::channel::{Channel, Head};

/// Open brackets in a file, one inside of the other: the parser recurses.
const DEPTH_MAX: usize = 100;

/// Files that a server describes a service by.
const FILES_MAX: usize = 256;

/// Files that are built in, and not taken from others.
const BUILT_IN: &str = "google/protobuf/";

/// The status of a method that a server does not have.
const UNIMPLEMENTED: u32 = 12;

/// The versions of the reflection service; their messages are the same.
const VERSIONS: [&str; 2] = ["v1", "v1alpha"];

/// The parts of the reflection service that are used here.
const REFLECTION: &str = r#"
syntax = "proto3";
message Request {
  oneof ask { string file_by_filename = 3; string file_containing_symbol = 4; }
}
message Response { Files file_descriptor_response = 4; Error error_response = 7; }
message Files { repeated bytes file_descriptor_proto = 1; }
message Error { int32 error_code = 1; string error_message = 2; }
"#;

/// Files that are in memory.
struct Given<'a>(&'a [ProtoFile]);

impl FileResolver for Given<'_> {
    fn open_file(&self, name: &str) -> Result<File, protox::Error> {
        let found = self.0.iter().find(|file| file.name == name);
        let found = found.ok_or_else(|| protox::Error::file_not_found(name))?;
        let file = File::from_source(name, &found.text)?;
        if has_deep_option(file.file_descriptor_proto()) {
            return Err(protox::Error::new(std::io::Error::other(DEEP_OPTIONS)));
        }
        Ok(file)
    }
}

/// The method that a call names, in the first of these files.
pub(super) fn compiled(
    files: &[ProtoFile],
    request: &GrpcRequest,
) -> Result<MethodDescriptor, IoError> {
    let name = files.first().map_or("", |file| file.name.as_str());
    if let Some(deep) = files.iter().find(|file| is_deep(&file.text)) {
        let name = &deep.name;
        let message = format!("{name} has brackets that are nested more than {DEPTH_MAX} deep");
        return Err(IoError::new(IoErrorKind::Unsupported, message));
    }
    let pool = compile(files.to_vec(), name).map_err(|error| {
        let message = format!("{name} is no proto file that can be used: {error}");
        IoError::new(IoErrorKind::Unsupported, message)
    })?;
    method(&pool, request, name)
}

/// The descriptors of a text of this crate.
pub(super) fn compiled_text(name: &str, text: &str) -> Result<DescriptorPool, protox::Error> {
    compile(vec![ProtoFile { name: name.to_owned(), text: text.to_owned() }], name)
}

fn compile(files: Vec<ProtoFile>, name: &str) -> Result<DescriptorPool, protox::Error> {
    /// The compiler keeps what it reads from.
    struct Owned(Vec<ProtoFile>);
    impl FileResolver for Owned {
        fn open_file(&self, name: &str) -> Result<File, protox::Error> {
            Given(&self.0).open_file(name)
        }
    }
    let mut resolver = ChainFileResolver::new();
    resolver.add(GoogleFileResolver::new());
    resolver.add(Owned(files));
    let mut compiler = protox::Compiler::with_file_resolver(resolver);
    compiler.include_imports(true);
    compiler.open_file(name)?;
    Ok(compiler.descriptor_pool())
}

/// Whether brackets are nested deeper than the parser may go. Those in texts and comments count,
/// too.
fn is_deep(text: &str) -> bool {
    let mut depth: usize = 0;
    text.bytes().any(|byte| {
        match byte {
            b'{' | b'[' | b'(' | b'<' => depth += 1,
            b'}' | b']' | b')' | b'>' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth > DEPTH_MAX
    })
}

/// Refusal of a file whose options the library would read without a limit of its stack.
const DEEP_OPTIONS: &str = "its options are nested too deep";

/// Opening brackets of one option.
const OPTION_BRACKETS_MAX: usize = 200;

fn is_deep_option(option: &UninterpretedOption) -> bool {
    let is_open = |byte: &u8| matches!(byte, b'{' | b'<' | b'[');
    option.aggregate_value().bytes().filter(is_open).count() > OPTION_BRACKETS_MAX
}

macro_rules! has_deep {
    ($it:expr) => {
        $it.options.as_ref().is_some_and(|it| it.uninterpreted_option.iter().any(is_deep_option))
    };
}

fn has_deep_option(file: &FileDescriptorProto) -> bool {
    fn of_enum(it: &EnumDescriptorProto) -> bool {
        has_deep!(it) || it.value.iter().any(|it| has_deep!(it))
    }
    fn of_message(it: &DescriptorProto) -> bool {
        has_deep!(it)
            || it.field.iter().chain(&it.extension).any(|it| has_deep!(it))
            || it.oneof_decl.iter().any(|it| has_deep!(it))
            || it.extension_range.iter().any(|it| has_deep!(it))
            || it.enum_type.iter().any(of_enum)
            || it.nested_type.iter().any(of_message)
    }
    let of_service =
        |it: &ServiceDescriptorProto| has_deep!(it) || it.method.iter().any(|it| has_deep!(it));
    has_deep!(file)
        || file.message_type.iter().any(of_message)
        || file.enum_type.iter().any(of_enum)
        || file.extension.iter().any(|it| has_deep!(it))
        || file.service.iter().any(of_service)
}

fn method(
    pool: &DescriptorPool,
    request: &GrpcRequest,
    place: &str,
) -> Result<MethodDescriptor, IoError> {
    let unknown = |what: String, known: Vec<String>| {
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        IoError::new(IoErrorKind::Unsupported, format!("{place} has no {what}; it has {known}"))
    };
    let service = pool.get_service_by_name(&request.service).ok_or_else(|| {
        let known = pool.services().map(|service| service.full_name().to_owned()).collect();
        unknown(format!("service «{}»", request.service), known)
    })?;
    let found = service.methods().find(|method| method.name() == request.method);
    found.ok_or_else(|| {
        let known = service.methods().map(|method| method.name().to_owned()).collect();
        unknown(format!("method «{}» in {}", request.method, request.service), known)
    })
}

/// The method that a call names, as the server describes it.
pub(super) async fn reflected(
    channel: &mut Channel,
    request: &GrpcRequest,
    head: &Head<'_>,
) -> Result<MethodDescriptor, IoError> {
    let shown = format!("the reflection of {}:{}", request.host, request.port);
    let wrong = |error: &dyn std::fmt::Display| {
        IoError::new(IoErrorKind::Communication, format!("{shown} is not understood: {error}"))
    };
    let own = compiled_text("reflection.proto", REFLECTION).map_err(|error| wrong(&error))?;
    let mut asker = Asker { channel, head, own, version: None, shown: shown.clone() };
    let mut files: BTreeMap<String, FileDescriptorProto> = BTreeMap::new();
    let mut wanted = VecDeque::from([("file_containing_symbol", request.service.clone())]);
    let mut size = 0;
    while let Some((field, name)) = wanted.pop_front() {
        if field == "file_by_filename" && files.contains_key(&name) {
            continue;
        }
        for bytes in asker.ask(field, &name).await? {
            size += bytes.len();
            let file = FileDescriptorProto::decode(bytes).map_err(|error| wrong(&error))?;
            if has_deep_option(&file) {
                return Err(wrong(&DEEP_OPTIONS));
            }
            if file.name().starts_with(BUILT_IN) || files.contains_key(file.name()) {
                continue;
            }
            let imports = file.dependency.iter().filter(|name| !name.starts_with(BUILT_IN));
            wanted.extend(imports.map(|name| ("file_by_filename", name.clone())));
            files.insert(file.name().to_owned(), file);
            if files.len() > FILES_MAX || size > head.limit {
                let message = format!("{shown} has more than {FILES_MAX} files, or too large ones");
                return Err(IoError::new(IoErrorKind::TooLarge, message));
            }
        }
        if field == "file_by_filename" && !files.contains_key(&name) {
            return Err(wrong(&format_args!("it has not given «{name}»")));
        }
    }
    let mut pool = DescriptorPool::global();
    pool.add_file_descriptor_protos(files.into_values()).map_err(|error| wrong(&error))?;
    method(&pool, request, &shown)
}

/// Questions to a reflection service.
struct Asker<'a, 'h> {
    channel: &'a mut Channel,
    head: &'a Head<'h>,
    own: DescriptorPool,
    /// The version that has answered.
    version: Option<&'static str>,
    shown: String,
}

impl Asker<'_, '_> {
    async fn ask(&mut self, field: &str, name: &str) -> Result<Vec<bytes::Bytes>, IoError> {
        let Some([question, answer]) = ["Request", "Response"]
            .map(|name| self.own.get_message_by_name(name))
            .into_iter()
            .collect::<Option<Vec<_>>>()
            .and_then(|kinds| <[_; 2]>::try_from(kinds).ok())
        else {
            let message = "the messages of the reflection service are not known";
            return Err(IoError::new(IoErrorKind::Unsupported, message));
        };
        let mut message = DynamicMessage::new(question);
        message.set_field_by_name(field, Value::String(name.to_owned()));
        let question = std::slice::from_ref(&message);
        let versions = self.version.map_or(VERSIONS.to_vec(), |version| vec![version]);
        for version in versions {
            let path = format!("/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo");
            let mut answers = Vec::new();
            let mut take = |bytes: bytes::Bytes| {
                let message = DynamicMessage::decode(answer.clone(), bytes);
                let message = message.map_err(|error| {
                    let message = format!("{} is not understood: {error}", self.shown);
                    IoError::new(IoErrorKind::Communication, message)
                })?;
                // One question has one answer.
                if answers.is_empty() {
                    answers.push(message);
                }
                Ok(())
            };
            let ended = self.channel.exchange(&path, self.head, question, &mut take).await?;
            match (ended.code, answers.first()) {
                (0, Some(answer)) => {
                    self.version = Some(version);
                    return self.files(answer, name);
                }
                (UNIMPLEMENTED, _) => {}
                _ => {
                    let said = ended.response().error();
                    let message = format!("{} answered {said}", self.shown);
                    return Err(IoError::new(IoErrorKind::Communication, message));
                }
            }
        }
        let message = format!("{} is not there: describe the service by «proto»", self.shown);
        Err(IoError::new(IoErrorKind::Unsupported, message))
    }

    fn files(&self, answer: &DynamicMessage, name: &str) -> Result<Vec<bytes::Bytes>, IoError> {
        if let Some(Value::Message(error)) = told(answer, "error_response") {
            let said = error.get_field_by_name("error_message");
            let said = said.as_deref().and_then(Value::as_str).unwrap_or_default();
            let message = format!("{} does not know «{name}»: {said}", self.shown);
            return Err(IoError::new(IoErrorKind::Unsupported, message));
        }
        let Some(Value::Message(files)) = told(answer, "file_descriptor_response") else {
            let message = format!("{} answered nothing about «{name}»", self.shown);
            return Err(IoError::new(IoErrorKind::Communication, message));
        };
        let list = files.get_field_by_name("file_descriptor_proto");
        let list = list.as_deref().and_then(Value::as_list).unwrap_or_default();
        Ok(list.iter().filter_map(Value::as_bytes).cloned().collect())
    }
}

/// A field that is set.
fn told(message: &DynamicMessage, name: &str) -> Option<Value> {
    let is_set = message.has_field_by_name(name);
    message.get_field_by_name(name).filter(|_| is_set).map(std::borrow::Cow::into_owned)
}
