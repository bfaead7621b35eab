//! The memory of cells and oneshot channels under `turnwheel_checked`: never reused by itself.

use std::alloc::Layout;

use crate::checked;

/// Memory for this layout.
pub(crate) fn take(layout: Layout) -> *mut u8 {
    checked::take(layout)
}

/// Takes memory back, into quarantine.
///
/// # Safety
///
/// It came from [`take`] with the same layout and no other code uses it any more.
pub(crate) unsafe fn give(place: *mut u8, layout: Layout) {
    // SAFETY: forwarded to the caller.
    unsafe { checked::give(place, layout) };
}
