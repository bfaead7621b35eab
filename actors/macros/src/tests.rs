//! Errors of the macros, with their text and place in the source. Their expansion is tested
//! in `actors/tests/messages/macros.rs`.

use std::collections::BTreeSet;
use std::path::Path;

use proc_macro2::TokenStream;

use crate::block::{read, ADDRESS_METHODS, ENTITY_METHODS};
use crate::derive;
use crate::name::camel_case;

fn tokens(source: &str) -> TokenStream {
    source.parse().expect("tokens")
}

/// The errors for a block, each with the source it points at.
fn errors_of(arguments: &str, item: &str) -> Vec<(String, String)> {
    let (_, report) = read(tokens(arguments), tokens(item));
    let errors = report.into_errors().into_iter();
    errors
        .map(|error| (error.span().source_text().unwrap_or_default(), error.to_string()))
        .collect()
}

/// Checks that a method is refused with one error, at this place, that says this.
#[track_caller]
fn assert_refused(method: &str, place: &str, text: &str) {
    assert_block_refused("", &format!("impl Log {{ {method} }}"), place, text);
}

#[track_caller]
fn assert_block_refused(arguments: &str, item: &str, place: &str, text: &str) {
    let errors = errors_of(arguments, item);
    let [(found_place, found_text)] = &errors[..] else { panic!("not one error: {errors:?}") };
    assert_eq!(found_place, place, "{found_text}");
    assert!(found_text.contains(text), "{found_text}");
}

#[test]
fn a_sound_block_has_no_errors() {
    let block = "impl Log {
        fn helper<T>(self, of: &T) -> &T { of }
        #[message] fn note(&mut self, text: &'static str, check: fn(&str) -> &str) {}
        #[message] fn keep(&mut self, each: Box<dyn Fn(&str) -> &str + Send>, pair: (u8, u8)) {}
        #[message(always)] fn len(&self) -> usize { 0 }
        #[message(interleaved, admits = \"readers\")] fn wait(&self) -> Completion<()> {}
        #[message(interleaved)] fn run(&self) -> impl Future<Output = u8> + Send + use<> {}
        #[message(name = Other, derive(Clone, serde::Serialize))] fn other(&mut self) {}
    }";
    assert_eq!(errors_of("extension = Asks, entity, crate = a::b", block), []);
}

#[test]
fn what_cannot_be_one_type_is_refused() {
    let text = "cannot be generic";
    assert_refused("#[message] fn note<T: Send>(&mut self, what: T) {}", "T: Send", text);
    assert_refused("#[message] fn note<'a>(&mut self, what: u8) {}", "'a", text);
    assert_refused("#[message] fn note(&mut self) where u8: Copy {}", "where u8: Copy", text);
    assert_block_refused("", "impl<T> Log<T> { #[message] fn note(&mut self) {} }", "T", text);
}

#[test]
fn borrows_and_types_without_a_name_are_refused() {
    let owned = "use an owned type";
    assert_refused("#[message] fn note(&mut self, text: &str) {}", "&str", owned);
    assert_refused("#[message] fn note(&mut self, all: Vec<&str>) {}", "&str>", owned);
    assert_refused("#[message] fn note(&mut self, both: (u8, &str)) {}", "&str", owned);
    assert_refused("#[message] fn note(&mut self, text: Cow<'_, str>) {}", "'_", owned);
    assert_refused(
        "#[message] fn note(&self) -> &str { \"\" }",
        "&str",
        "an answer leaves the actor",
    );
    assert_refused(
        "#[message] fn note(&mut self, by: impl Into<u8>) {}",
        "impl Into<u8>",
        "a name",
    );
    assert_refused("#[message] fn note(&self) -> impl Sized {}", "impl Sized", "a name");
    assert_refused(
        "#[message(interleaved)] fn note(&self) -> impl Future<Output = &u8> + Send {}",
        "&u8",
        "an answer leaves the actor",
    );
}

#[test]
fn the_actor_is_borrowed_by_its_method() {
    let text = "the first parameter is `&mut self`";
    assert_refused("#[message] fn note(self) {}", "self", text);
    assert_refused("#[message] fn note(mut self: Box<Self>) {}", "mut self: Box<Self>", text);
    assert_refused("#[message] fn note(what: u8) {}", "what: u8", text);
    assert_refused("#[message] fn note() {}", "note", text);
}

#[test]
fn parameters_are_names_and_the_context_comes_last() {
    assert_refused("#[message] fn note(&mut self, _: u8) {}", "_", "give this parameter a name");
    assert_refused(
        "#[message] fn note(&mut self, (a, b): (u8, u8)) {}",
        "(a, b)",
        "give this parameter a name",
    );
    assert_refused(
        "#[message] fn note(&mut self, cx: &mut Context<'_, Self>, what: u8) {}",
        "what: u8",
        "the context is the last parameter",
    );
    assert_refused(
        "#[message] fn note(&mut self, reply: ReplyTo<u8>, what: u8) {}",
        "what: u8",
        "before the `ReplyTo`",
    );
}

#[test]
fn each_kind_of_method_has_its_context() {
    assert_refused(
        "#[message] async fn note(&mut self, cx: &mut Context<'_, Self>) {}",
        "&mut Context<'_, Self>",
        "an async method takes `AsyncContext<Self>`",
    );
    assert_refused(
        "#[message] fn note(&mut self, cx: AsyncContext<Self>) {}",
        "AsyncContext<Self>",
        "take `&mut Context<'_, Self>`",
    );
    assert_refused("#[message] async fn note(&self) {}", "&self", "needs `&mut self`");
}

#[test]
fn interleaved_methods_return_futures_without_a_borrow() {
    let text = "returns `impl Future<Output = ..> + Send`";
    assert_refused(
        "#[message(interleaved)] async fn note(&mut self) {}",
        "async",
        "borrows the actor",
    );
    assert_refused("#[message(interleaved)] fn note(&mut self) {}", "interleaved", text);
    assert_refused("#[message(interleaved)] fn note(&mut self) -> impl Send {}", "impl Send", text);
    assert_refused(
        "#[message(interleaved, always)] fn note(&mut self) -> Completion<()> {}",
        "always",
        "for plain methods",
    );
}

#[test]
fn methods_that_answer_by_hand_return_nothing() {
    let through = "goes through the `ReplyTo`";
    assert_refused("#[message] fn note(&mut self, r: ReplyTo<u8>) -> u8 { 0 }", "u8", through);
    assert_refused(
        "#[message] async fn note(&mut self, r: ReplyTo<u8>) {}",
        "async",
        "ends at once",
    );
    assert_refused("#[message] fn note(&mut self, r: ReplyTo) {}", "ReplyTo", "`ReplyTo<u64>`");
}

#[test]
fn options_that_are_none_are_refused() {
    let kinds = "\"readers\", \"chain\" or \"all\"";
    assert_refused(
        "#[message(interleaved, admits = \"some\")] fn note(&mut self) -> Completion<()> {}",
        "\"some\"",
        kinds,
    );
    let only = "only an interleaved message admits others";
    assert_refused("#[message(admits = \"all\")] fn note(&mut self) {}", "\"all\"", only);
    assert_refused(
        "#[message(quickly)] fn note(&mut self) {}",
        "quickly",
        "there are `interleaved`",
    );
    assert_refused("#[message = 1] fn note(&mut self) {}", "message = 1", "write `#[message]`");
    assert_refused(
        "#[message] #[message(always)] fn note(&mut self) {}",
        "#[message(always)]",
        "marked twice",
    );
    let sound = "impl Log { #[message] fn note(&mut self) {} }";
    assert_block_refused("quickly", sound, "quickly", "there are `extension = Name`");
}

#[test]
fn what_is_no_block_of_an_actor_is_refused() {
    assert_block_refused("", "struct Log;", "struct", "goes on an impl block");
    assert_block_refused("", "impl Drop for Log { }", "Drop", "without a trait");
    assert_block_refused("", "impl [u8] { }", "[u8]", "a struct or an enum");
    assert_block_refused("", "impl Log { const A: u8 = 0; }", "Log", "there is no message");
    assert_refused("fn note(&mut self) {}", "Log", "mark a method `#[message]`");
    let unequal = "#[message] pub fn a(&mut self) {} #[message] fn b(&mut self) {}";
    assert_refused(unequal, "b", "the same visibility");
    assert_refused("#[message] unsafe fn note(&mut self) {}", "unsafe", "cannot be unsafe");
    assert_refused("#[message] extern \"C\" fn note(&mut self) {}", "extern \"C\"", "remove this");
}

#[test]
fn all_errors_of_a_block_are_said_at_once_and_the_block_stays() {
    let block = "impl Log {
        #[message] fn one(&mut self, text: &str) {}
        #[message] fn two(self) {}
        fn plain(&self) {}
    }";
    let (kept, report) = read(TokenStream::new(), tokens(block));
    assert_eq!(report.into_errors().len(), 2);
    let kept = kept.to_string();
    assert!(kept.contains("plain") && kept.contains("two") && !kept.contains("# [message]"));
}

#[test]
fn the_derive_refuses_borrows_and_unknown_options() {
    let error = |item| derive::expand(tokens(item)).expect_err("it is refused");
    let borrowed = error("struct Log<'a>(&'a u8);");
    assert_eq!(borrowed.span().source_text().as_deref(), Some("'a"));
    assert!(borrowed.to_string().contains("cannot borrow"));
    assert!(error("#[actor(name = x)] struct Log;").to_string().contains("there is `crate"));
    assert!(derive::expand(tokens("struct Log<T: Send + 'static>(T);")).is_ok());
}

#[test]
fn methods_are_named_as_types() {
    let names = [
        ("add", "Add"),
        ("add_all", "AddAll"),
        ("_add__2nd", "Add2nd"),
        ("r#type", "Type"),
        ("self_", "MessageSelf_"),
        ("_1", "Message1_"),
    ];
    for (method, message) in names {
        let method = syn::parse_str(method).expect("a name");
        assert_eq!(camel_case(&method).to_string(), message);
    }
}

/// All that the crate of the actors consists of.
fn sources(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("the sources of actors") {
        let path = entry.expect("an entry of a folder").path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(std::fs::read_to_string(path).expect("a source of actors"));
        }
    }
    found
}

/// The public methods in the impl blocks of a type, without those of traits.
fn methods_of(head: &str) -> BTreeSet<String> {
    let mut methods = BTreeSet::new();
    for source in sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../src")) {
        for block in source.split("\nimpl").filter(|block| block.starts_with(head)) {
            let body = block.split("\n}").next().unwrap_or_default();
            let names = body.split("\n    pub ").skip(1).filter_map(|method| {
                let after = method.split_once("fn ")?.1;
                Some(after.split(['<', '(']).next()?.to_owned())
            });
            methods.extend(names);
        }
    }
    methods
}

#[test]
fn names_that_an_address_has_are_known() {
    let of_traits = ["clone", "eq", "ne"].map(str::to_owned);
    let found = methods_of("<A: Actor> Address<A> {").into_iter().chain(of_traits).collect();
    let known: BTreeSet<_> = ADDRESS_METHODS.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(known, found, "`ADDRESS_METHODS` in block.rs must hold the methods of `Address`");
    let found = &methods_of("<E: Entity> EntityRef<E> {") - &known;
    let known = ENTITY_METHODS.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(found, known, "`ENTITY_METHODS` in block.rs must hold the methods of `EntityRef`");
    assert_refused("#[message] fn close(&mut self) {}", "close", "would hide this one");
    let block = "impl Log { #[message] fn key(&self) {} }";
    assert_block_refused("entity", block, "key", "would hide this one");
}
