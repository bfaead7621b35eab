//! Signals of a server: the stop, and the wish for new tokens and certificates.

use std::convert::Infallible;
use std::future::Future;

use turnwheel::http::serve::Reloader;

use super::notify::Supervisor;
use super::serve;
use super::settings::Settings;

/// Asks a server to stop in order when its standard input ends: `turnwheel dev` holds it open, so that
/// no node outlives it. It is no setting, and so it has another name than those.
pub(super) const UNTIL_INPUT_ENDS: &str = "_TURNWHEEL_UNTIL_INPUT_ENDS";

/// Ends when standard input does, if the process was started so.
async fn input_ended() {
    if std::env::var_os(UNTIL_INPUT_ENDS).is_none() {
        return std::future::pending().await;
    }
    // A thread of its own: the end of the process must not wait for it.
    let (ended, hears) = tokio::sync::oneshot::channel();
    let read = move || {
        let _all = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        let _gone = ended.send(());
    };
    let spawned = std::thread::Builder::new().name("input".to_owned()).spawn(read);
    if let Err(error) = spawned.map(drop) {
        tracing::error!(%error, "the end of standard input is not noticed");
        return std::future::pending().await;
    }
    let _told = hears.await;
}

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
                () = input_ended() => {}
            }
        })
    }
    #[cfg(not(unix))]
    Ok(async {
        tokio::select! {
            // Without a handler there is no orderly stop, but durable data is safe.
            _ = tokio::signal::ctrl_c() => {}
            () = input_ended() => {}
        }
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
