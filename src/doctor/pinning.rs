//! Whether a thread may choose its core, and which two cores a measurement uses.

use std::fs;
use std::thread;

use core_affinity::CoreId;
use serde::Serialize;

/// Outcome of an attempt to pin one thread to each allowed core in turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Pinning {
    /// Every allowed core accepted a thread.
    Works,
    /// Some cores refused; a group pinned to them runs unpinned there, with a warning.
    Refused {
        /// The cores that refused.
        cores: Vec<usize>,
    },
    /// The platform does not say which cores there are.
    Unknown,
}

impl Pinning {
    /// Whether every allowed core accepts a pinned thread.
    #[must_use]
    pub fn works(&self) -> bool {
        matches!(self, Self::Works)
    }
}

/// Tries to pin a short-lived thread to each core that this thread may use.
///
/// Cost: one thread, one system call a core. The calling thread keeps its own affinity.
#[must_use]
pub fn probe_pinning() -> Pinning {
    let cores = allowed_cores();
    if cores.is_empty() {
        return Pinning::Unknown;
    }
    let probe = thread::Builder::new().name("doctor-pinning".into()).spawn(move || {
        cores.into_iter().filter(|core| !core_affinity::set_for_current(*core)).collect::<Vec<_>>()
    });
    let Ok(probe) = probe else {
        return Pinning::Unknown;
    };
    let refused = probe.join().expect("the probe has nothing that panics");
    if refused.is_empty() {
        Pinning::Works
    } else {
        Pinning::Refused { cores: refused.into_iter().map(|core| core.id).collect() }
    }
}

/// The cores that the calling thread may use; empty where the platform does not say.
pub(super) fn allowed_cores() -> Vec<CoreId> {
    core_affinity::get_core_ids().unwrap_or_default()
}

/// Two cores for a measurement between threads: of different physical cores if possible. `None`
/// with fewer than two cores.
pub(super) fn core_pair() -> Option<(CoreId, CoreId)> {
    let cores = allowed_cores();
    let (first, rest) = cores.split_first()?;
    let home = physical_core(*first);
    let elsewhere = rest.iter().find(|core| home.is_some() && physical_core(**core) != home);
    Some((*first, *elsewhere.or(rest.first())?))
}

/// Package and core of a logical processor; `None` where the system does not tell.
fn physical_core(core: CoreId) -> Option<(String, String)> {
    let topology = format!("/sys/devices/system/cpu/cpu{}/topology", core.id);
    let package = fs::read_to_string(format!("{topology}/physical_package_id")).ok()?;
    let number = fs::read_to_string(format!("{topology}/core_id")).ok()?;
    Some((package, number))
}

/// Pins the calling thread, which is a measuring thread and ends soon.
///
/// A refusal is no error: the measurement is noisier then, and [`probe_pinning`] reports why.
pub(super) fn pin_measuring_thread(core: CoreId) {
    let _is_pinned = core_affinity::set_for_current(core);
}
