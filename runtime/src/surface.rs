//! Programs that must not compile, each below the same program without its mistake.
//!
//! One item for each cell of the table in the crate's `README.md` that the compiler keeps.

/// A task of functions that take any reference.
///
/// ```
/// use turnwheel_runtime::Task;
/// fn same(task: Task<for<'a> fn(&'a u8)>) -> Task<for<'a> fn(&'a u8)> {
///     task
/// }
/// ```
///
/// A job of the other type would store a function that needs a static reference.
///
/// ```compile_fail
/// use turnwheel_runtime::Task;
/// fn shorter(task: Task<for<'a> fn(&'a u8)>) -> Task<fn(&'static u8)> {
///     task
/// }
/// ```
///
/// ```compile_fail
/// use turnwheel_runtime::Task;
/// fn longer(task: Task<fn(&'static u8)>) -> Task<for<'a> fn(&'a u8)> {
///     task
/// }
/// ```
pub struct TaskIsInvariant;

/// ```
/// use turnwheel_runtime::WeakTask;
/// fn same(task: WeakTask<for<'a> fn(&'a u8)>) -> WeakTask<for<'a> fn(&'a u8)> {
///     task
/// }
/// ```
///
/// ```compile_fail
/// use turnwheel_runtime::WeakTask;
/// fn shorter(task: WeakTask<for<'a> fn(&'a u8)>) -> WeakTask<fn(&'static u8)> {
///     task
/// }
/// ```
///
/// ```compile_fail
/// use turnwheel_runtime::WeakTask;
/// fn longer(task: WeakTask<fn(&'static u8)>) -> WeakTask<for<'a> fn(&'a u8)> {
///     task
/// }
/// ```
pub struct WeakTaskIsInvariant;

/// Permits and their futures hold a task.
///
/// ```
/// use turnwheel_runtime::{Permit, Reserve};
/// fn same(permit: Permit<for<'a> fn(&'a u8)>) -> Permit<for<'a> fn(&'a u8)> {
///     permit
/// }
/// fn same_future(permit: Reserve<for<'a> fn(&'a u8)>) -> Reserve<for<'a> fn(&'a u8)> {
///     permit
/// }
/// ```
///
/// ```compile_fail
/// use turnwheel_runtime::Permit;
/// fn shorter(permit: Permit<for<'a> fn(&'a u8)>) -> Permit<fn(&'static u8)> {
///     permit
/// }
/// ```
///
/// ```compile_fail
/// use turnwheel_runtime::Reserve;
/// fn shorter(permit: Reserve<for<'a> fn(&'a u8)>) -> Reserve<fn(&'static u8)> {
///     permit
/// }
/// ```
pub struct PermitIsInvariant;

/// ```
/// use turnwheel_runtime::Context;
/// fn same<'a, 'b>(
///     cx: &'b mut Context<'a, for<'c> fn(&'c u8)>,
/// ) -> &'b mut Context<'a, for<'c> fn(&'c u8)> {
///     cx
/// }
/// ```
///
/// ```compile_fail
/// use turnwheel_runtime::Context;
/// fn shorter<'a>(cx: Context<'a, for<'c> fn(&'c u8)>) -> Context<'a, fn(&'static u8)> {
///     cx
/// }
/// ```
///
/// ```compile_fail
/// use turnwheel_runtime::Context;
/// fn longer<'a>(cx: Context<'a, fn(&'static u8)>) -> Context<'a, for<'c> fn(&'c u8)> {
///     cx
/// }
/// ```
pub struct ContextIsInvariant;

/// ```
/// use turnwheel_runtime::oneshot::Sender;
/// fn same<'a>(sender: Sender<&'a str, ()>) -> Sender<&'a str, ()> {
///     sender
/// }
/// ```
///
/// The receiver of static text would get text that is gone.
///
/// ```compile_fail
/// use turnwheel_runtime::oneshot::Sender;
/// fn shorter<'a>(sender: Sender<&'static str, ()>) -> Sender<&'a str, ()> {
///     sender
/// }
/// ```
///
/// ```compile_fail
/// use turnwheel_runtime::oneshot::channel;
/// use turnwheel_runtime::oneshot::Received;
/// use std::task::{Poll, Waker};
/// let (sender, mut receiver) = channel::<&'static str, ()>(());
/// {
///     let local = String::from("gone");
///     sender.send(local.as_str());
/// }
/// let Poll::Ready(Received::Value(text)) = receiver.poll(Waker::noop()) else { panic!() };
/// let text: &'static str = text;
/// ```
pub struct SenderIsInvariant;

/// A receiver only reads, so it may promise less than it has, and not more.
///
/// ```
/// use turnwheel_runtime::oneshot::Receiver;
/// fn shorter<'a>(receiver: Receiver<&'static str, ()>) -> Receiver<&'a str, ()> {
///     receiver
/// }
/// ```
///
/// ```compile_fail
/// use turnwheel_runtime::oneshot::Receiver;
/// fn longer<'a>(receiver: Receiver<&'a str, ()>) -> Receiver<&'static str, ()> {
///     receiver
/// }
/// ```
pub struct ReceiverIsCovariant;

/// ```
/// use turnwheel_runtime::Completer;
/// fn same<'a>(completer: Completer<&'a str>) -> Completer<&'a str> {
///     completer
/// }
/// ```
///
/// ```compile_fail
/// use turnwheel_runtime::Completer;
/// fn shorter<'a>(completer: Completer<&'static str>) -> Completer<&'a str> {
///     completer
/// }
/// ```
pub struct CompleterIsInvariant;

/// The borrower writes the value on loan, and the lender reads it back.
///
/// ```
/// use turnwheel_runtime::internal::{Lender, Lent};
/// fn same<'a>(lender: Lender<&'a str>, lent: Lent<&'a str>) -> (Lender<&'a str>, Lent<&'a str>) {
///     (lender, lent)
/// }
/// ```
///
/// ```compile_fail
/// use turnwheel_runtime::internal::Lent;
/// fn shorter<'a>(lent: Lent<&'static str>) -> Lent<&'a str> {
///     lent
/// }
/// ```
///
/// ```compile_fail
/// use turnwheel_runtime::internal::Lender;
/// fn shorter<'a>(lender: Lender<&'static str>) -> Lender<&'a str> {
///     lender
/// }
/// ```
pub struct LendingIsInvariant;

/// ```
/// use turnwheel_runtime::internal::Scoped;
/// fn same<'a, 'b>(place: &'b Scoped<&'a str>) -> &'b Scoped<&'a str> {
///     place
/// }
/// ```
///
/// ```compile_fail
/// use turnwheel_runtime::internal::Scoped;
/// fn shorter<'a, 'b>(place: &'b Scoped<&'static str>) -> &'b Scoped<&'a str> {
///     place
/// }
/// ```
pub struct ScopedIsInvariant;

/// A value that was looked at does not leave the look.
///
/// ```
/// use turnwheel_runtime::internal::Scoped;
/// fn copy(place: &Scoped<String>) -> Option<String> {
///     place.look(|text| text.clone())
/// }
/// ```
///
/// ```compile_fail
/// use turnwheel_runtime::internal::Scoped;
/// fn kept(place: &Scoped<String>) -> Option<&String> {
///     place.look(|text| text)
/// }
/// ```
pub struct ScopedLendsForTheLook;

/// The place of a thread is the thread's.
///
/// ```
/// use turnwheel_runtime::internal::Lender;
/// fn sendable(_: impl Send) {}
/// sendable(Lender::<String>::new());
/// ```
///
/// ```compile_fail
/// use turnwheel_runtime::internal::Scoped;
/// fn sendable(_: impl Send) {}
/// sendable(Scoped::<String>::new());
/// ```
///
/// ```compile_fail
/// use turnwheel_runtime::internal::Scoped;
/// fn shareable(_: impl Sync) {}
/// shareable(Scoped::<String>::new());
/// ```
pub struct ScopedStaysOnItsThread;

/// ```
/// use turnwheel_runtime::internal::PerWorker;
/// fn same<'a, 'b>(values: &'b PerWorker<&'a str>) -> &'b PerWorker<&'a str> {
///     values
/// }
/// ```
///
/// ```compile_fail
/// use turnwheel_runtime::internal::PerWorker;
/// fn shorter<'a, 'b>(values: &'b PerWorker<&'static str>) -> &'b PerWorker<&'a str> {
///     values
/// }
/// ```
pub struct PerWorkerIsInvariant;

/// Values that move between threads must be `Send`.
///
/// ```
/// use std::rc::Rc;
/// use turnwheel_runtime::oneshot::{Sender, SharedOneshot, Receiver, WeakOneshot};
/// use turnwheel_runtime::internal::{Lender, Lent};
/// fn sendable<T: Send>() {}
/// sendable::<Sender<String, ()>>();
/// sendable::<Receiver<String, ()>>();
/// sendable::<SharedOneshot<String>>();
/// sendable::<WeakOneshot<String>>();
/// sendable::<Lender<String>>();
/// sendable::<Lent<String>>();
/// fn shareable<T: Sync>() {}
/// shareable::<Lent<String>>();
/// # let _: Option<Rc<()>> = None;
/// ```
///
/// ```compile_fail
/// fn sendable<T: Send>() {}
/// sendable::<turnwheel_runtime::oneshot::Sender<std::rc::Rc<()>, ()>>();
/// ```
///
/// ```compile_fail
/// fn sendable<T: Send>() {}
/// sendable::<turnwheel_runtime::oneshot::Sender<(), std::cell::Cell<u8>>>();
/// ```
///
/// ```compile_fail
/// use turnwheel_runtime::oneshot::{Metadata, Receiver};
/// struct Own(std::cell::Cell<u8>);
/// impl Metadata for Own {}
/// fn sendable<T: Send>() {}
/// sendable::<Receiver<(), Own>>();
/// ```
///
/// ```compile_fail
/// use turnwheel_runtime::oneshot::Receiver;
/// fn sendable<T: Send>() {}
/// sendable::<Receiver<std::rc::Rc<()>, ()>>();
/// ```
///
/// ```compile_fail
/// fn sendable<T: Send>() {}
/// sendable::<turnwheel_runtime::oneshot::SharedOneshot<std::cell::Cell<u8>>>();
/// ```
///
/// ```compile_fail
/// fn sendable<T: Send>() {}
/// sendable::<turnwheel_runtime::oneshot::WeakOneshot<std::cell::Cell<u8>>>();
/// ```
///
/// ```compile_fail
/// fn sendable<T: Send>() {}
/// sendable::<turnwheel_runtime::internal::Lent<std::rc::Rc<()>>>();
/// ```
///
/// ```compile_fail
/// fn sendable<T: Send>() {}
/// sendable::<turnwheel_runtime::internal::Lender<std::rc::Rc<()>>>();
/// ```
///
/// ```compile_fail
/// fn shareable<T: Sync>() {}
/// shareable::<turnwheel_runtime::internal::Lent<std::cell::Cell<u8>>>();
/// ```
///
/// ```compile_fail
/// fn shareable<T: Sync>() {}
/// shareable::<turnwheel_runtime::internal::PerWorker<std::rc::Rc<()>>>();
/// ```
pub struct ThreadBounds;

/// A task's state and jobs move to a worker; nothing of them need be shared.
///
/// ```
/// use std::cell::Cell;
/// use turnwheel_runtime::Group;
/// fn spawn(group: &Group) {
///     let task = group.spawn(Cell::new(0)).expect("it runs");
///     let given = Box::new(1);
///     task.submit(move |count, _| count.set(*given)).expect("room");
/// }
/// ```
///
/// ```compile_fail
/// use std::rc::Rc;
/// use turnwheel_runtime::Group;
/// fn spawn(group: &Group) {
///     let task = group.spawn(Rc::new(0)).expect("it runs");
/// }
/// ```
///
/// ```compile_fail
/// use std::rc::Rc;
/// use turnwheel_runtime::Group;
/// fn spawn(group: &Group) {
///     let task = group.spawn(0).expect("it runs");
///     let given = Rc::new(1);
///     task.submit(move |count, _| *count = *given).expect("room");
/// }
/// ```
///
/// ```compile_fail
/// use turnwheel_runtime::Group;
/// fn spawn(group: &Group) {
///     let task = group.spawn(0).expect("it runs");
///     let local = 1;
///     task.submit(|count, _| *count = local).expect("room");
/// }
/// ```
///
/// ```compile_fail
/// use std::rc::Rc;
/// use turnwheel_runtime::Group;
/// fn answer(group: &Group) {
///     let task = group.spawn(0).expect("it runs");
///     let answer = task.call(|_, _| Rc::new(0));
/// }
/// ```
pub struct TaskBounds;
