//! The processors `syslog` and `fluent`: outputs of jobs for collectors of logs.
//!
//! Their addresses are the server's, not the job's: a job could send its output anywhere else.

use std::env;
use std::io::Write as _;
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::time::Duration;

use turnwheel_jobs::{Processed, Processor, Settings};

use super::outputs::only;

/// Facility «cron» and severity «info» of the syslog protocol.
const PRIORITY: u32 = 9 * 8 + 6;

/// Bytes of a line for syslog: collectors cut longer ones in their own ways.
const LINE_BYTES_MAX: usize = 2_048;

/// Lines of one output for syslog; of a longer one the last lines are sent.
const LINES_MAX: usize = 1_000;

/// Time limit for a collector.
const PATIENCE: Duration = Duration::from_secs(2);

/// Port of Fluentd unless `FLUENTBIT_PORT` gives one.
const FLUENT_PORT: u16 = 24_224;

/// Sends outputs to the syslog of this host, each line as a message.
#[derive(Debug)]
pub(super) struct Syslog {
    pub(super) socket: PathBuf,
}

impl Processor for Syslog {
    fn check(&self, settings: &Settings) -> Result<(), String> {
        only(settings, &[])
    }

    fn process(&self, processed: &Processed<'_>, _: &Settings) -> Result<String, String> {
        let told = |error: std::io::Error| format!("{}: {error}", self.socket.display());
        let socket = UnixDatagram::unbound().map_err(told)?;
        socket.connect(&self.socket).map_err(told)?;
        socket.set_write_timeout(Some(PATIENCE)).map_err(told)?;
        let lines: Vec<&str> = processed.done.output.lines().collect();
        let left_out = lines.len().saturating_sub(LINES_MAX);
        if left_out > 0 {
            let more = format!("{left_out} lines before these are left out");
            socket.send(message(processed, &more).as_bytes()).map_err(told)?;
        }
        for line in &lines[left_out..] {
            socket.send(message(processed, line).as_bytes()).map_err(told)?;
        }
        Ok("Output in syslog".to_owned())
    }
}

/// A message without a time: the local daemon stamps it.
fn message(processed: &Processed<'_>, line: &str) -> String {
    let mut end = line.len().min(LINE_BYTES_MAX);
    while !line.is_char_boundary(end) {
        end -= 1;
    }
    let (process, job) = (std::process::id(), &processed.work.job);
    format!("<{PRIORITY}>turnwheel[{process}]: {job}: {}", &line[..end])
}

/// Sends outputs to Fluentd or Fluent Bit, by its forward protocol.
#[derive(Debug)]
pub(super) struct Fluent;

impl Processor for Fluent {
    fn check(&self, settings: &Settings) -> Result<(), String> {
        only(settings, &[])
    }

    fn process(&self, processed: &Processed<'_>, _: &Settings) -> Result<String, String> {
        let of = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
        let host = of("FLUENTBIT_HOST")
            .ok_or("FLUENTBIT_HOST is not set in the environment of the server")?;
        let port = match of("FLUENTBIT_PORT") {
            Some(port) => {
                port.parse().map_err(|_| format!("FLUENTBIT_PORT: «{port}» is no port"))?
            }
            None => FLUENT_PORT,
        };
        let tag = of("FLUENTBIT_TAG").unwrap_or_else(|| "turnwheel".to_owned());
        let told = |error: std::io::Error| format!("{host}:{port}: {error}");
        let mut found = (host.as_str(), port).to_socket_addrs().map_err(told)?;
        let address = found.next().ok_or_else(|| format!("{host} has no address"))?;
        let mut stream = TcpStream::connect_timeout(&address, PATIENCE).map_err(told)?;
        stream.set_write_timeout(Some(PATIENCE)).map_err(told)?;
        stream.write_all(&record(processed, &tag)).map_err(told)?;
        Ok("Output sent to Fluent".to_owned())
    }
}

/// One event of the forward protocol in MessagePack: its tag, its time, and its fields.
fn record(processed: &Processed<'_>, tag: &str) -> Vec<u8> {
    let work = processed.work;
    let fields = [
        ("host", work.node.as_str()),
        ("job_name", work.job.as_str()),
        ("message", processed.done.output.as_str()),
    ];
    let mut bytes = vec![0x93];
    pack(&mut bytes, tag);
    let seconds = u32::try_from(processed.ended_at.0 / 1_000_000).unwrap_or(u32::MAX);
    bytes.push(0xce);
    bytes.extend(seconds.to_be_bytes());
    bytes.push(0x80 | fields.len() as u8);
    for (name, value) in fields {
        pack(&mut bytes, name);
        pack(&mut bytes, value);
    }
    bytes
}

/// A text in MessagePack, with its length in 32 bits.
fn pack(bytes: &mut Vec<u8>, text: &str) {
    let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
    bytes.push(0xdb);
    bytes.extend(length.to_be_bytes());
    bytes.extend_from_slice(text.as_bytes());
}
