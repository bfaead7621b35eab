//! Idempotency keys as they are stored.

/// An idempotency key as it is stored: keys belong to whoever has given them, whose name is in them, so
/// that two do not begin each other's plans by chance. The server and the command line do it alike.
///
/// ```
/// assert_eq!(turnwheel::key::scoped("ann", "order-7"), "http/ann/order-7");
/// ```
pub fn scoped(name: &str, key: &str) -> String {
    format!("http/{name}/{key}")
}
