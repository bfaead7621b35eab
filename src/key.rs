//! Idempotency keys as they are stored.

/// An idempotency key as it is stored: with the name of its principal, so that two principals do
/// not use each other's keys by chance. The server and the command line do it alike.
///
/// ```
/// assert_eq!(turnwheel::key::scoped("ann", "order-7"), "http/ann/order-7");
/// ```
pub fn scoped(name: &str, key: &str) -> String {
    format!("http/{name}/{key}")
}
