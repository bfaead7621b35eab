//! Limits of open files and connections of this process.

/// Descriptors reserved for the store and for files opened by steps.
const KEPT_BACK: u64 = 256;

/// The soft limit is raised to this, as far as the hard one allows. A command of a flow inherits
/// it, and some programs look at each descriptor that they could have.
#[cfg(unix)]
const RAISED_TO: u64 = 65_536;

/// Raises the soft limit, and answers how many descriptors there may be; `None` for any number.
pub(crate) fn raise() -> Option<u64> {
    #[cfg(unix)]
    {
        use rustix::process::{getrlimit, setrlimit, Resource, Rlimit};
        let limits = getrlimit(Resource::Nofile);
        let wanted = limits.maximum.unwrap_or(RAISED_TO).min(RAISED_TO);
        let soft = limits.current?;
        if soft >= wanted {
            return Some(soft);
        }
        let raised = Rlimit { current: Some(wanted), ..limits };
        match setrlimit(Resource::Nofile, raised) {
            Ok(()) => Some(wanted),
            Err(error) => {
                tracing::warn!(%error, soft, "the limit on open files could not be raised");
                Some(soft)
            }
        }
    }
    #[cfg(not(unix))]
    None
}

/// Maximum number of connections, up to the wanted number.
pub(crate) fn connections(wanted: usize, descriptors: Option<u64>) -> usize {
    let Some(descriptors) = descriptors else { return wanted };
    let free = descriptors - KEPT_BACK.min(descriptors / 2);
    wanted.min(usize::try_from(free).unwrap_or(usize::MAX)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_descriptors_are_kept_back_from_connections() {
        assert_eq!(connections(4_096, None), 4_096);
        assert_eq!(connections(4_096, Some(65_536)), 4_096);
        assert_eq!(connections(4_096, Some(1_024)), 768);
        assert_eq!(connections(4_096, Some(100)), 50);
        assert_eq!(connections(10, Some(1_024)), 10);
        assert_eq!(connections(10, Some(0)), 1);
    }
}
