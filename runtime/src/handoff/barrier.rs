//! A memory barrier on all threads of the process, paid for by the caller alone.

#[cfg(all(target_os = "linux", not(miri), not(turnwheel_loom)))]
mod system {
    use std::sync::OnceLock;

    // From linux/membarrier.h.
    const PRIVATE_EXPEDITED: libc::c_int = 1 << 3;
    const REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;

    fn membarrier(command: libc::c_int) -> libc::c_long {
        // SAFETY: this system call reads and writes no memory of ours.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) }
    }

    pub(super) fn is_available() -> bool {
        static REGISTERED: OnceLock<bool> = OnceLock::new();
        *REGISTERED.get_or_init(|| membarrier(REGISTER_PRIVATE_EXPEDITED) == 0)
    }

    pub(super) fn all_threads() {
        let answer = membarrier(PRIVATE_EXPEDITED);
        assert!(answer == 0, "membarrier(2) was registered and cannot fail");
    }
}

/// In the model, a fence of the caller replaces the barrier, and the owner has a fence too.
#[cfg(turnwheel_loom)]
mod system {
    pub(super) fn is_available() -> bool {
        true
    }

    pub(super) fn all_threads() {
        crate::sync::fence(crate::sync::Ordering::SeqCst);
    }
}

#[cfg(not(any(turnwheel_loom, all(target_os = "linux", not(miri)))))]
mod system {
    pub(super) fn is_available() -> bool {
        false
    }

    pub(super) fn all_threads() {}
}

/// Whether the system has such a barrier.
pub(super) fn is_available() -> bool {
    system::is_available()
}

/// Every thread of the process passes a full barrier before this returns; a few microseconds.
pub(super) fn all_threads() {
    system::all_threads();
}
