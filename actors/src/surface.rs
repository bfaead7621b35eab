//! Programs that must not compile, each below the same program without its mistake: handles of an
//! actor and of a call are invariant, as the runtime's below them.

/// ```
/// use turnwheel_actors::{Actor, Address, WeakAddress};
/// struct Keeps<F>(Option<F>);
/// impl<F: Send + 'static> Actor for Keeps<F> {
///     type Error = std::convert::Infallible;
/// }
/// fn same(to: Address<Keeps<for<'a> fn(&'a u8)>>) -> Address<Keeps<for<'a> fn(&'a u8)>> {
///     to
/// }
/// fn same_weak(to: WeakAddress<Keeps<fn(&'static u8)>>) -> WeakAddress<Keeps<fn(&'static u8)>> {
///     to
/// }
/// ```
///
/// A message could store a function that needs a static reference.
///
/// ```compile_fail
/// use turnwheel_actors::{Actor, Address};
/// struct Keeps<F>(Option<F>);
/// impl<F: Send + 'static> Actor for Keeps<F> {
///     type Error = std::convert::Infallible;
/// }
/// fn shorter(to: Address<Keeps<for<'a> fn(&'a u8)>>) -> Address<Keeps<fn(&'static u8)>> {
///     to
/// }
/// ```
///
/// ```compile_fail
/// use turnwheel_actors::{Actor, WeakAddress};
/// struct Keeps<F>(Option<F>);
/// impl<F: Send + 'static> Actor for Keeps<F> {
///     type Error = std::convert::Infallible;
/// }
/// fn shorter(to: WeakAddress<Keeps<for<'a> fn(&'a u8)>>) -> WeakAddress<Keeps<fn(&'static u8)>> {
///     to
/// }
/// ```
pub struct AddressIsInvariant;

/// ```
/// use turnwheel_actors::ReplyTo;
/// fn same<'a>(reply: ReplyTo<&'a str>) -> ReplyTo<&'a str> {
///     reply
/// }
/// ```
///
/// A caller that asked for static text would get a reference to freed text.
///
/// ```compile_fail
/// use turnwheel_actors::ReplyTo;
/// fn shorter<'a>(reply: ReplyTo<&'static str>) -> ReplyTo<&'a str> {
///     reply
/// }
/// ```
pub struct ReplyToIsInvariant;

/// Senders to a recipient may pass any message of its type, not only a shorter-lived one.
///
/// ```
/// use turnwheel_actors::Recipient;
/// fn same<'a>(to: Recipient<for<'b> fn(&'b u8)>) -> Recipient<for<'b> fn(&'b u8)> {
///     to
/// }
/// ```
///
/// ```compile_fail
/// use turnwheel_actors::Recipient;
/// fn shorter(to: Recipient<for<'b> fn(&'b u8)>) -> Recipient<fn(&'static u8)> {
///     to
/// }
/// ```
pub struct RecipientIsInvariant;
