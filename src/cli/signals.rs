//! Signals of a server: the stop, and the wish for new tokens and certificates.

use std::convert::Infallible;
use std::future::Future;

use turnwheel::http::serve::Reloader;

use super::notify::Supervisor;
use super::serve;
use super::settings::Settings;

/// Ends at a stop signal.
pub(super) fn stop() -> std::io::Result<impl Future<Output = ()>> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{signal, SignalKind};
        // With a limit on the size of files (LimitFSIZE, ulimit -f) the store shall be full and the
        // process live on. Once a handler is registered the signal does not kill, read or not.
        let _too_large = signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        Ok(async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        })
    }
    #[cfg(not(unix))]
    Ok(async {
        // Without a handler there is no orderly stop, but durable data is safe.
        let _ = tokio::signal::ctrl_c().await;
    })
}

/// Reads tokens and certificates again at each SIGHUP.
pub(super) fn reload<'a>(
    settings: &'a Settings,
    reloader: Reloader,
    supervisor: &'a Supervisor,
) -> std::io::Result<impl Future<Output = Infallible> + 'a> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{signal, SignalKind};
        let mut hangup = signal(SignalKind::hangup())?;
        Ok(async move {
            while hangup.recv().await.is_some() {
                supervisor.reloading();
                let access = serve::access(settings);
                let done = access
                    .map_err(|exit| exit.message)
                    .and_then(|access| reloader.reload(access).map_err(|error| error.to_string()));
                match done {
                    Ok(()) => tracing::info!("tokens and certificates were read again"),
                    Err(problem) => tracing::error!(
                        problem,
                        "tokens and certificates stay as they were: correct them and send SIGHUP again"
                    ),
                }
                supervisor.ready();
            }
            std::future::pending().await
        })
    }
    #[cfg(not(unix))]
    {
        let _unused = (settings, reloader, supervisor);
        Ok(std::future::pending())
    }
}
