//! The macros, re-exported from the crate that must be theirs alone.

/// Turns the marked methods of an actor into messages.
///
/// Each method marked `#[message]` becomes a type named like it (`add` is `Add`), with its
/// parameters as fields and its documentation, and the handler that calls it. The handler is
/// inlined, and costs as much as the trait form. Methods without the mark are unchanged. A trait
/// named after the actor (`CounterMessages`) has a method for each message, which asks.
///
/// ```
/// use turnwheel_actors::{messages, Actor, System};
/// use turnwheel_runtime::Group;
///
/// #[derive(Actor, Default)]
/// struct Counter(u64);
///
/// #[messages]
/// impl Counter {
///     /// Adds to the count.
///     #[message]
///     fn add(&mut self, by: u64) -> u64 {
///         self.0 += by;
///         self.0
///     }
/// }
///
/// let group = Group::builder("doc").workers(1).build()?;
/// let counter = System::new(&group).spawn(Counter::default())?;
/// counter.tell(Add { by: 2 })?;
/// assert_eq!(counter.add(3).wait()?, 5);
/// # group.shutdown()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Kinds of messages
///
/// | method | becomes |
/// | --- | --- |
/// | `fn (&mut self, ..) -> R` | [`Handler`](crate::Handler) |
/// | `fn (&self, ..) -> R` | a handler that only reads: [`Access::Read`](crate::Access::Read) |
/// | `#[message(always)] fn ..` | a handler that runs at any time: [`Access::Always`](crate::Access::Always) |
/// | `async fn (&mut self, ..) -> R` | [`AsyncHandler`](crate::AsyncHandler) |
/// | `#[message(interleaved)] fn (..) -> impl Future<Output = R> + Send`, without a borrow of `self`, | [`InterleavedHandler`](crate::InterleavedHandler) |
/// | `#[message(interleaved, admits = "readers")]`, `"chain"`, `"all"` | with its [`Admits`](crate::Admits) |
/// | `fn (&mut self, .., reply: ReplyTo<R>)` | [`ReplyHandler`](crate::ReplyHandler) |
///
/// A last parameter `cx: &mut Context<'_, Self>`, or `cx: AsyncContext<Self>` of an `async fn`, is
/// passed by the actor and is no field. Further options of a method: `#[message(name = AddMany)]`
/// names its type, `#[message(derive(Clone))]` derives for it. Options of the block:
/// `#[messages(extension = Name)]` names the trait (needed for a second block),
/// `#[messages(entity)]` gives the methods to references of entities too, `#[messages(crate =
/// turnwheel::actors)]` gives the path of this crate under another name.
///
/// A message is as visible as its method, and so are its fields; the messages of one block must be
/// equally visible. A message owns its fields and has no type parameters: use the trait form for
/// generic messages and generic actors.
///
/// # Refused programs
///
/// A generic message:
///
/// ```compile_fail
/// use turnwheel_actors::{messages, Actor};
/// #[derive(Actor)]
/// struct Log;
/// #[messages]
/// impl Log {
///     #[message]
///     fn note<T: Send>(&mut self, what: T) {}
/// }
/// ```
///
/// A message that borrows:
///
/// ```compile_fail
/// use turnwheel_actors::{messages, Actor};
/// #[derive(Actor)]
/// struct Log;
/// #[messages]
/// impl Log {
///     #[message]
///     fn note(&mut self, what: &str) {}
/// }
/// ```
///
/// An interleaved future that borrows the actor:
///
/// ```compile_fail
/// use turnwheel_actors::{messages, Actor};
/// #[derive(Actor)]
/// struct Log;
/// #[messages]
/// impl Log {
///     #[message(interleaved)]
///     async fn note(&mut self) {}
/// }
/// ```
///
/// A method that an address has already:
///
/// ```compile_fail
/// use turnwheel_actors::{messages, Actor};
/// #[derive(Actor)]
/// struct Door;
/// #[messages]
/// impl Door {
///     #[message]
///     fn close(&mut self) {}
/// }
/// ```
///
/// An actor that is not `Send`:
///
/// ```compile_fail
/// use turnwheel_actors::Actor;
/// #[derive(Actor)]
/// struct Local(std::rc::Rc<u64>);
/// ```
pub use turnwheel_actors_macros::messages;

/// Makes a type an [`Actor`](trait@crate::Actor) without hooks: its `Error` is
/// [`Infallible`](std::convert::Infallible). An actor with hooks implements the trait by hand.
///
/// `#[actor(crate = turnwheel::actors)]` says where this crate is found if not under its name.
///
/// ```
/// use turnwheel_actors::Actor;
///
/// #[derive(Actor, Debug, Default)]
/// struct Counter(u64);
///
/// fn is_actor<A: Actor>() {}
/// is_actor::<Counter>();
/// ```
pub use turnwheel_actors_macros::Actor;
