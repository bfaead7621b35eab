//! Cores that a process may use, and pinning a thread to one of them.

/// Placement of a group's workers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Pinning {
    /// Chosen by the system.
    None,
    /// Each to a core of its own, if the process may use that many; else not at all.
    EachToACore,
    /// Worker n to the n-th core of this list, repeated as needed.
    Cores(Vec<usize>),
}

/// The cores that this process may use, by number.
pub(crate) fn usable_cores() -> Vec<usize> {
    core_affinity::get_core_ids().unwrap_or_default().iter().map(|core| core.id).collect()
}

/// The number of workers that the process can keep busy: cores of the cpuset, and not more than
/// the quota of its control group allows. At least one.
pub(crate) fn usable_workers() -> usize {
    // std looks at the affinity mask and at the quota of control groups, both versions.
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Pins the calling thread; false if the system refused.
pub(crate) fn pin_to(core: usize) -> bool {
    core_affinity::set_for_current(core_affinity::CoreId { id: core })
}
