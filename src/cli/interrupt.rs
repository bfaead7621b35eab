//! Signals that ask this process to end.

use super::exit::INTERRUPTED;

/// Calls this for each such signal from now on, with the exit code of it. Without it a signal ends the
/// process as kill does: nothing durable is lost.
#[cfg(all(unix, feature = "server"))]
pub(crate) fn on_signal(mut told: impl FnMut(u8) + Send + 'static) {
    use tokio::signal::unix::{signal, SignalKind};

    use super::exit::TERMINATED;

    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let Ok(runtime) = runtime else { return };
    let guard = runtime.enter();
    let (interrupt, terminate) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()));
    drop(guard);
    let (Ok(mut interrupt), Ok(mut terminate)) = (interrupt, terminate) else { return };
    let waits = move || {
        runtime.block_on(async move {
            loop {
                let code = tokio::select! {
                    _ = interrupt.recv() => INTERRUPTED,
                    _ = terminate.recv() => TERMINATED,
                };
                told(code);
            }
        });
    };
    let _ends_with_the_process =
        std::thread::Builder::new().name("signals".to_owned()).spawn(waits);
}

/// The same where signals are not told apart.
#[cfg(not(all(unix, feature = "server")))]
pub(crate) fn on_signal(mut told: impl FnMut(u8) + Send + 'static) {
    let _ = ctrlc::set_handler(move || told(INTERRUPTED));
}
