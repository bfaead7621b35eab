//! Tasks that use tokio's timers and sockets, and groups inside a host that runs on tokio.
//!
//! Every name has `tokio` in it: the continuous integration picks these tests by that word.

use std::error::Error;
use std::sync::mpsc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use turnwheel_runtime::{Group, Pinning};

type Outcome = Result<(), Box<dyn Error>>;

/// Long enough for any machine; no test waits for it unless it fails.
const PATIENCE: Duration = Duration::from_secs(30);

/// A group whose tasks may use the runtime of this handle.
fn group(handle: tokio::runtime::Handle) -> Result<Group, Box<dyn Error>> {
    Ok(Group::builder("t").workers(2).pinning(Pinning::None).tokio(handle).build()?)
}

/// Echoes the bytes of one connection.
async fn echo(listener: TcpListener) -> std::io::Result<()> {
    let (mut stream, _) = listener.accept().await?;
    let mut buffer = [0; 64];
    loop {
        match stream.read(&mut buffer).await? {
            0 => return Ok(()),
            read => stream.write_all(&buffer[..read]).await?,
        }
    }
}

/// Sends a text and reads it back.
async fn talk(address: std::net::SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    let mut answer = String::new();
    for word in ["one ", "two ", "three"] {
        stream.write_all(word.as_bytes()).await?;
        let mut buffer = vec![0; word.len()];
        stream.read_exact(&mut buffer).await?;
        answer.push_str(&String::from_utf8_lossy(&buffer));
    }
    Ok(answer)
}

#[test]
fn a_task_uses_tokio_sockets_interleaved_with_other_jobs() -> Outcome {
    let host =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let group = group(host.handle().clone())?;
    let (told, answers) = mpsc::channel();
    let task = group.spawn(Vec::<String>::new())?;
    // Both ends on tasks of the group, the sockets on tokio's driver.
    let listener = host.block_on(TcpListener::bind("127.0.0.1:0"))?;
    let address = listener.local_addr()?;
    let server = group.spawn(())?;
    server.submit(move |(), cx| {
        cx.await_interleaved(echo(listener), |(), _, ended| ended.expect("the connection works"));
    })?;
    task.submit(move |_, cx| {
        cx.await_interleaved(talk(address), move |texts, _, answer| {
            texts.push(answer.expect("the connection works"));
            told.send(texts.clone()).expect("the test listens");
        });
    })?;
    // Other jobs run meanwhile.
    assert!(task.call(|texts, _| texts.len()).wait()? <= 1);
    assert_eq!(answers.recv_timeout(PATIENCE)?, ["one two three"]);
    assert!(group.shutdown()?.is_clean());
    Ok(())
}

#[test]
fn a_task_awaits_tokio_exclusively() -> Outcome {
    let host =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let group = group(host.handle().clone())?;
    let listener = host.block_on(TcpListener::bind("127.0.0.1:0"))?;
    let address = listener.local_addr()?;
    host.spawn(echo(listener));
    let task = group.spawn(String::new())?;
    task.submit(move |_, cx| {
        cx.await_exclusive(talk(address), |text, _, answer| {
            *text = answer.expect("the connection works");
        });
    })?;
    // Submitted at once, but it runs after the future.
    let text = task.call(|text, _| text.clone()).wait_timeout(PATIENCE)?;
    assert_eq!(text, "one two three");
    assert!(group.shutdown()?.is_clean());
    Ok(())
}

#[test]
fn a_task_awaits_tokio_time() -> Outcome {
    let host =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let group = group(host.handle().clone())?;
    let (told, slept) = mpsc::channel();
    let task = group.spawn(())?;
    task.submit(move |(), cx| {
        // Made inside of the future: it looks for the runtime when it is first polled.
        let nap = async { tokio::time::sleep(Duration::from_millis(2)).await };
        cx.await_interleaved(nap, move |(), cx, ()| {
            cx.await_exclusive(tokio::time::sleep(Duration::from_millis(2)), move |(), _, ()| {
                told.send(()).expect("the test listens");
            });
        });
    })?;
    slept.recv_timeout(PATIENCE)?;
    assert!(group.shutdown()?.is_clean());
    Ok(())
}

#[test]
fn a_future_that_finds_no_tokio_says_how_to_give_the_group_one() -> Outcome {
    let group = Group::builder("t").workers(1).pinning(Pinning::None).build()?;
    let task = group.spawn(())?;
    // The job panics as its future would, with tokio's own words.
    let slept = task.call(|(), _| drop(tokio::time::sleep(Duration::from_millis(1))));
    let failure = slept.wait_timeout(PATIENCE).expect_err("there is no tokio on a worker");
    let text = failure.to_string();
    assert!(text.contains("Group::builder(..).tokio(handle)"), "{text}");
    group.shutdown()?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_with_the_hosts_own_tokio_handle_shuts_down_inside_it() -> Outcome {
    let group = group(tokio::runtime::Handle::current())?;
    let task = group.spawn(0_u32)?;
    task.submit(|_, cx| {
        let nap = async { tokio::time::sleep(Duration::from_millis(1)).await };
        cx.await_exclusive(nap, |naps, _, ()| *naps += 1);
    })?;
    assert_eq!(task.call(|naps, _| *naps).await?, 1);
    // A task that still waits for tokio at the end.
    let waiting = group.spawn(())?;
    waiting.submit(|(), cx| {
        let never = async { tokio::time::sleep(Duration::from_secs(86_400)).await };
        cx.await_interleaved(never, |(), _, ()| ());
    })?;
    let report = group.shutdown_later(PATIENCE).await?;
    assert!(report.is_clean(), "{report:?}");
    Ok(())
}
