//! Loads of messages, so that a pattern is written once for its forms: nothing, a number, the sender's
//! address (`_ref`), or 40 bytes (`_mid`).

/// Anything that an actor can keep.
pub(crate) trait Held: Send + Sync + Unpin + 'static {}

impl<T: Send + Sync + Unpin + 'static> Held for T {}

/// A kind of load.
pub(crate) trait Load: Held {
    /// The load where addresses are of type `L`.
    type Of<L: Held>: Held;

    /// The load of a message from the actor with this number; `address` makes its address.
    fn of<L: Held>(number: u32, address: impl FnOnce() -> L) -> Self::Of<L>;

    /// The sender's number, if the load has it.
    #[inline]
    fn number<L: Held>(_: &Self::Of<L>) -> Option<u32> {
        None
    }

    /// The sender's address, if the load has it.
    #[inline]
    fn sender<L: Held>(_: &Self::Of<L>) -> Option<&L> {
        None
    }

    /// Whether the load does not say that another actor has sent it.
    #[inline]
    fn is_from<L: Held>(load: &Self::Of<L>, number: u32) -> bool {
        Self::number::<L>(load).is_none_or(|sender| sender == number)
    }
}

/// Nothing.
pub(crate) struct Nothing;

impl Load for Nothing {
    type Of<L: Held> = ();

    #[inline]
    fn of<L: Held>(_: u32, _: impl FnOnce() -> L) {}
}

/// The sender's number.
pub(crate) struct Number;

impl Load for Number {
    type Of<L: Held> = u32;

    #[inline]
    fn of<L: Held>(number: u32, _: impl FnOnce() -> L) -> u32 {
        number
    }

    #[inline]
    fn number<L: Held>(load: &u32) -> Option<u32> {
        Some(*load)
    }
}

/// The sender's number and address.
pub(crate) struct Sender;

impl Load for Sender {
    type Of<L: Held> = (u32, L);

    #[inline]
    fn of<L: Held>(number: u32, address: impl FnOnce() -> L) -> (u32, L) {
        (number, address())
    }

    #[inline]
    fn number<L: Held>(load: &(u32, L)) -> Option<u32> {
        Some(load.0)
    }

    #[inline]
    fn sender<L: Held>(load: &(u32, L)) -> Option<&L> {
        Some(&load.1)
    }
}

/// 40 bytes, with the sender's number in each word.
pub(crate) struct Words;

impl Load for Words {
    type Of<L: Held> = [u64; 5];

    #[inline]
    fn of<L: Held>(number: u32, _: impl FnOnce() -> L) -> [u64; 5] {
        [u64::from(number); 5]
    }

    #[inline]
    fn number<L: Held>(load: &[u64; 5]) -> Option<u32> {
        // A load that is damaged is from nobody.
        let is_intact = load.iter().all(|word| *word == load[0]);
        Some(if is_intact { load[0] as u32 } else { u32::MAX })
    }
}
