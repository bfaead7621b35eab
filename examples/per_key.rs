//! One task per key of a file: each line goes to the task of its key, the lines of one key stay in
//! order, different keys run at once, and the result is checked against a plain sequential pass.
//!
//! ```sh
//! cargo run --release --example per_key -- examples/data/access.log
//! cargo run --release --example per_key -- orders.csv --header --key 3 --delimiter ';'
//! ```
//!
//! What it shows: a task that owns its state needs no lock; two bounds keep memory small however
//! large the file is (a fixed set of read buffers, and a bounded mailbox for each task whose
//! `submit_wait` holds the reader back); the order of jobs from one producer is the order of
//! submission.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{sync_channel, Receiver, SyncSender};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Parser;
use indicatif::{HumanBytes, HumanCount, ProgressBar, ProgressStyle};
use turnwheel::runtime::{Group, Mailbox, Task};

/// Bytes of one read buffer, and so the longest line: long enough for log lines with a stack trace.
const BUFFER_BYTES: usize = 1 << 20;
/// Read buffers. A buffer is filled again when the last job on one of its lines has run, so no more
/// than this many are ever in memory: 16 MiB.
const BUFFERS: usize = 16;
/// Lines that may wait for one key; then the reader waits.
const LINES_QUEUED_MAX: u64 = 1_024;
/// Keys, each a task of some 300 bytes: 1.5 GiB. A file with more has a key for nearly each line.
const KEYS_MAX: usize = 5_000_000;
/// A line takes microseconds. If nothing moves for this long, something is broken: say so.
const PATIENCE: Duration = Duration::from_secs(60);

/// Sends each line of a file to the task of its key, and checks the result.
#[derive(Parser, Debug)]
#[command(name = "per_key")]
struct Options {
    /// A log or CSV file, one record a line
    file: PathBuf,
    /// The column that holds the key, counted from 1
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    key: u16,
    /// What separates columns: `space` (any run of blanks), `tab`, `comma`, or one character
    /// [default: comma for .csv, tab for .tsv, else space]
    #[arg(long, value_name = "CHAR", value_parser = parse_delimiter)]
    delimiter: Option<Delimiter>,
    /// The first line names the columns: skip it
    #[arg(long)]
    header: bool,
    /// Worker threads [default: what cpuset and quota allow]
    #[arg(long, value_name = "N")]
    workers: Option<usize>,
    /// How many of the busiest keys to list
    #[arg(long, value_name = "N", default_value_t = 5)]
    top: usize,
}

/// What separates the columns of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Delimiter {
    /// Any run of blanks and tabs; no quotes.
    Blanks,
    /// One byte; a column may stand in double quotes, as in CSV.
    Byte(u8),
}

fn parse_delimiter(text: &str) -> Result<Delimiter, String> {
    match text.as_bytes() {
        b"space" | b" " => Ok(Delimiter::Blanks),
        b"tab" | b"\\t" => Ok(Delimiter::Byte(b'\t')),
        b"comma" => Ok(Delimiter::Byte(b',')),
        [b'"' | b'\n' | b'\r'] => Err("a quote or line end cannot separate columns".to_owned()),
        [byte] if byte.is_ascii() => Ok(Delimiter::Byte(*byte)),
        _ => Err("give one ASCII character, or `space`, `tab` or `comma`".to_owned()),
    }
}

/// Where the key of a line is.
#[derive(Clone, Copy, Debug)]
struct Layout {
    column: usize,
    delimiter: Delimiter,
    has_header: bool,
}

impl Layout {
    fn of(options: &Options) -> Self {
        let extension = options.file.extension().and_then(|extension| extension.to_str());
        let usual = match extension.map(str::to_ascii_lowercase).as_deref() {
            Some("csv") => Delimiter::Byte(b','),
            Some("tsv") => Delimiter::Byte(b'\t'),
            _ => Delimiter::Blanks,
        };
        Self {
            column: usize::from(options.key) - 1,
            delimiter: options.delimiter.unwrap_or(usual),
            has_header: options.header,
        }
    }

    /// The key of a line; none if the line has not that many columns, or an empty one there.
    fn key_of<'a>(&self, line: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        let key = match self.delimiter {
            Delimiter::Blanks => line
                .split(|byte| matches!(byte, b' ' | b'\t'))
                .filter(|column| !column.is_empty())
                .nth(self.column)
                .map(Cow::Borrowed),
            Delimiter::Byte(delimiter) => quoted_column(line, delimiter, self.column),
        };
        key.filter(|key| !key.is_empty())
    }
}

/// A column of a CSV line, without its quotes.
fn quoted_column(line: &[u8], delimiter: u8, column: usize) -> Option<Cow<'_, [u8]>> {
    let mut is_quoted = false;
    let mut columns = line.split(|byte| {
        is_quoted ^= *byte == b'"';
        *byte == delimiter && !is_quoted
    });
    let text = columns.nth(column)?.trim_ascii();
    let Some(inner) = text.strip_prefix(b"\"").and_then(|text| text.strip_suffix(b"\"")) else {
        return Some(Cow::Borrowed(text));
    };
    if !inner.contains(&b'"') {
        return Some(Cow::Borrowed(inner));
    }
    // Inside quotes a quote is written twice.
    let mut is_second = false;
    let unescaped = inner.iter().filter(|byte| {
        is_second = **byte == b'"' && !is_second;
        !is_second
    });
    Some(Cow::Owned(unescaped.copied().collect()))
}

/// What is kept of a key. The checksum depends on the order of the lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Ledger {
    lines: u64,
    bytes: u64,
    checksum: u64,
    /// Number of the last line in the file; a smaller one after it is out of order.
    last: u64,
    out_of_order: u64,
}

impl Ledger {
    fn add(&mut self, number: u64, line: &[u8]) {
        self.lines += 1;
        self.bytes += line.len() as u64;
        for byte in line {
            self.checksum = (self.checksum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
        self.checksum = self.checksum.rotate_left(7) ^ self.lines;
        self.out_of_order += u64::from(number <= self.last && self.lines > 1);
        self.last = number;
    }
}

/// The outcome of a pass.
#[derive(Debug, Default)]
struct Outcome {
    keys: HashMap<Vec<u8>, Ledger>,
    lines: u64,
    without_key: u64,
    took: Duration,
}

/// Why the run ended without a result.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error("cannot open {}: {error}", path.display())]
    Open { path: PathBuf, error: io::Error },
    #[error("{} is no regular file; give a file, for it is read twice", path.display())]
    NotAFile { path: PathBuf },
    #[error("cannot read {}: {error}", path.display())]
    Read { path: PathBuf, error: io::Error },
    #[error("line {line} is longer than {}, the most this example takes", most())]
    LongLine { line: u64 },
    #[error("no line has a column {column}; line 1 reads «{line}»; see --key and --delimiter")]
    NoKey { column: usize, line: String },
    #[error("more than {KEYS_MAX} keys; is column {column} really the key? see --key")]
    ManyKeys { column: usize },
    #[error("the runtime refuses: {0}")]
    Runtime(Box<dyn std::error::Error>),
    #[error("no read buffer came back for {} s: a job never ended", PATIENCE.as_secs())]
    Stuck,
    #[error("the result differs from the sequential pass: {0}")]
    Differs(String),
}

fn most() -> HumanBytes {
    HumanBytes(BUFFER_BYTES as u64)
}

impl Trouble {
    fn read(path: &Path, error: io::Error) -> Self {
        Self::Read { path: path.to_owned(), error }
    }

    fn runtime(error: impl std::error::Error + 'static) -> Self {
        Self::Runtime(Box::new(error))
    }
}

/// A piece of the file, shared by the jobs on its lines. The last one gives the buffer back.
#[derive(Debug)]
struct Chunk {
    text: Vec<u8>,
    home: SyncSender<Vec<u8>>,
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // There is a place for each buffer, so this never blocks; at the end nobody takes it.
        let _ = self.home.try_send(std::mem::take(&mut self.text));
    }
}

/// Reads whole lines into a bounded set of buffers.
struct Chunks<R> {
    source: R,
    empty: Receiver<Vec<u8>>,
    home: SyncSender<Vec<u8>>,
    /// The begin of a line whose end is not read yet.
    rest: Vec<u8>,
}

impl<R: Read> Chunks<R> {
    fn new(source: R) -> Self {
        let (home, empty) = sync_channel(BUFFERS);
        for _ in 0..BUFFERS {
            home.try_send(Vec::new()).expect("there is a place for each buffer");
        }
        Self { source, empty, home, rest: Vec::new() }
    }

    /// The next piece, which ends with a line; none at the end of the file.
    fn next(&mut self, path: &Path, lines_read: u64) -> Result<Option<Arc<Chunk>>, Trouble> {
        let mut text = self.empty.recv_timeout(PATIENCE).map_err(|_| Trouble::Stuck)?;
        text.clear();
        text.append(&mut self.rest);
        let room = (BUFFER_BYTES - text.len()) as u64;
        let read = self.source.by_ref().take(room).read_to_end(&mut text);
        let is_end = (read.map_err(|error| Trouble::read(path, error))? as u64) < room;
        if !is_end {
            let Some(end) = text.iter().rposition(|byte| *byte == b'\n') else {
                return Err(Trouble::LongLine { line: lines_read + 1 });
            };
            self.rest.extend_from_slice(&text[end + 1..]);
            text.truncate(end + 1);
        }
        let is_empty = text.is_empty();
        let chunk = Chunk { text, home: self.home.clone() };
        Ok((!is_empty).then(|| Arc::new(chunk)))
    }

    /// Waits until every job has run: then all buffers are back.
    fn drain(self) -> Result<(), Trouble> {
        for _ in 0..BUFFERS {
            self.empty.recv_timeout(PATIENCE).map_err(|_| Trouble::Stuck)?;
        }
        Ok(())
    }
}

/// The next line from `start`: its text without the line end, and where the line after it begins.
fn line_at(text: &[u8], start: usize) -> Option<(Range<usize>, usize)> {
    let rest = text.get(start..).filter(|rest| !rest.is_empty())?;
    let length = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
    let line = rest[..length].strip_suffix(b"\r").unwrap_or(&rest[..length]);
    Some((start..start + line.len(), start + length + 1))
}

/// One task per key.
fn in_tasks(
    group: &Group,
    input: &Input,
    layout: Layout,
    progress: &ProgressBar,
) -> Result<Outcome, Trouble> {
    let begun = Instant::now();
    let mut tasks: HashMap<Vec<u8>, Task<Ledger>> = HashMap::new();
    let mut outcome = Outcome::default();
    let mut chunks = Chunks::new(input.open()?);
    while let Some(chunk) = chunks.next(&input.path, outcome.lines)? {
        let mut start = 0;
        while let Some((range, next)) = line_at(&chunk.text, start) {
            start = next;
            outcome.lines += 1;
            let number = outcome.lines;
            let line = &chunk.text[range.clone()];
            let Some(key) =
                (!(number == 1 && layout.has_header)).then(|| layout.key_of(line)).flatten()
            else {
                outcome.without_key += 1;
                continue;
            };
            if !tasks.contains_key(key.as_ref()) {
                if tasks.len() == KEYS_MAX {
                    return Err(Trouble::ManyKeys { column: layout.column + 1 });
                }
                let task = group.spawn(Ledger::default()).map_err(Trouble::runtime)?;
                tasks.insert(key.to_vec(), task);
            }
            let text = Arc::clone(&chunk);
            tasks[key.as_ref()]
                .submit_wait(move |ledger, _| ledger.add(number, &text.text[range]), PATIENCE)
                .map_err(Trouble::runtime)?;
        }
        progress.inc(chunk.text.len() as u64);
    }
    chunks.drain()?;
    let answers: Vec<_> =
        tasks.into_iter().map(|(key, task)| (key, task.call(|ledger, _| *ledger))).collect();
    for (key, answer) in answers {
        outcome.keys.insert(key, answer.wait().map_err(Trouble::runtime)?);
    }
    outcome.took = begun.elapsed();
    Ok(outcome)
}

/// The same in one loop, without buffers, tasks or threads: what the result must be.
fn sequentially(input: &Input, layout: Layout, progress: &ProgressBar) -> Result<Outcome, Trouble> {
    let begun = Instant::now();
    let mut outcome = Outcome::default();
    let mut source = BufReader::new(input.open()?);
    let mut text = Vec::new();
    loop {
        text.clear();
        let read = source.read_until(b'\n', &mut text);
        let read = read.map_err(|error| Trouble::read(&input.path, error))?;
        if read == 0 {
            break;
        }
        progress.inc(read as u64);
        outcome.lines += 1;
        let line = text.strip_suffix(b"\n").unwrap_or(&text);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let is_header = layout.has_header && outcome.lines == 1;
        match layout.key_of(line).filter(|_| !is_header) {
            None => outcome.without_key += 1,
            Some(key) => {
                if !outcome.keys.contains_key(key.as_ref()) {
                    outcome.keys.insert(key.to_vec(), Ledger::default());
                }
                let ledger = outcome.keys.get_mut(key.as_ref()).expect("was put there just now");
                ledger.add(outcome.lines, line);
            }
        }
    }
    outcome.took = begun.elapsed();
    Ok(outcome)
}

/// The file, as long as it was when it was opened: a log that grows meanwhile does no harm.
#[derive(Debug)]
struct Input {
    path: PathBuf,
    file: File,
    bytes: u64,
}

impl Input {
    fn new(path: &Path) -> Result<Self, Trouble> {
        let cannot = |error| Trouble::Open { path: path.to_owned(), error };
        // Looked at before it is opened: opening a pipe would wait for its writer.
        if !std::fs::metadata(path).map_err(cannot)?.is_file() {
            return Err(Trouble::NotAFile { path: path.to_owned() });
        }
        let file = File::open(path).map_err(cannot)?;
        let bytes = file.metadata().map_err(cannot)?.len();
        Ok(Self { path: path.to_owned(), file, bytes })
    }

    /// From the beginning.
    fn open(&self) -> Result<impl Read + '_, Trouble> {
        let mut file = &self.file;
        file.rewind().map_err(|error| Trouble::read(&self.path, error))?;
        Ok(file.take(self.bytes))
    }

    fn first_line(&self) -> Result<String, Trouble> {
        let mut line = Vec::new();
        let mut source = BufReader::new(self.open()?).take(80);
        let read = source.read_until(b'\n', &mut line);
        read.map_err(|error| Trouble::read(&self.path, error))?;
        Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
    }
}

/// Compares the two passes.
fn check(parallel: &Outcome, sequential: &Outcome) -> Result<(), Trouble> {
    let differs = |what: String| Err(Trouble::Differs(what));
    if parallel.lines != sequential.lines || parallel.without_key != sequential.without_key {
        return differs("another number of lines; was the file changed meanwhile?".to_owned());
    }
    if parallel.keys.len() != sequential.keys.len() {
        return differs("another number of keys".to_owned());
    }
    for (key, ledger) in &parallel.keys {
        if ledger.out_of_order > 0 || sequential.keys.get(key) != Some(ledger) {
            return differs(format!("key «{}»", String::from_utf8_lossy(key)));
        }
    }
    Ok(())
}

fn bar(bytes: u64, what: &'static str) -> ProgressBar {
    let style = "{msg:>12} [{bar:30}] {bytes} of {total_bytes}, {bytes_per_sec}, {eta} to go";
    let style = ProgressStyle::with_template(style).expect("the template is constant");
    // On standard error, and only if that is a terminal.
    ProgressBar::new(bytes).with_style(style).with_message(what)
}

fn report(
    options: &Options,
    group: &Group,
    outcome: &Outcome,
    sequential: Duration,
) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let pass = |took: Duration| {
        let rate = outcome.lines as f64 / took.as_secs_f64().max(1e-9);
        format!("{:>9.1} ms, {} lines/s", took.as_secs_f64() * 1e3, HumanCount(rate as u64))
    };
    writeln!(out, "{}, key in column {}", options.file.display(), options.key)?;
    writeln!(out, "  lines       {:>9}", HumanCount(outcome.lines).to_string())?;
    let skipped = match outcome.without_key {
        0 => String::new(),
        _ if options.header => " (with the header)".to_owned(),
        _ => " (skipped)".to_owned(),
    };
    let without = HumanCount(outcome.without_key).to_string();
    writeln!(out, "  without key {without:>9}{skipped}")?;
    let keys = HumanCount(outcome.keys.len() as u64).to_string();
    writeln!(out, "  keys        {keys:>9}, one task each on {} workers", group.workers())?;
    writeln!(out, "  in tasks    {}", pass(outcome.took))?;
    writeln!(out, "  in one loop {}", pass(sequential))?;
    let mut busiest: Vec<_> = outcome.keys.iter().collect();
    busiest.sort_by_key(|(key, ledger)| (std::cmp::Reverse(ledger.lines), *key));
    busiest.truncate(options.top);
    if !busiest.is_empty() {
        writeln!(out, "  busiest keys, with their lines:")?;
    }
    for (key, ledger) in busiest {
        let lines = HumanCount(ledger.lines).to_string();
        writeln!(out, "    {lines:>9}  {}", String::from_utf8_lossy(key))?;
    }
    writeln!(out, "ok: every key saw its lines in order, and all results equal the loop's")
}

fn run(options: &Options) -> Result<(), Trouble> {
    let layout = Layout::of(options);
    let input = Input::new(&options.file)?;
    let mut group = Group::builder("keys").mailbox(Mailbox::bounded(LINES_QUEUED_MAX));
    if let Some(workers) = options.workers {
        group = group.workers(workers);
    }
    let group = group.build().map_err(Trouble::runtime)?;
    let progress = bar(input.bytes, "in tasks");
    let parallel = in_tasks(&group, &input, layout, &progress);
    progress.finish_and_clear();
    group.shutdown().map_err(Trouble::runtime)?;
    let parallel = parallel?;
    if parallel.keys.is_empty() && parallel.lines > u64::from(layout.has_header) {
        let line = input.first_line()?;
        return Err(Trouble::NoKey { column: layout.column + 1, line });
    }
    let progress = bar(input.bytes, "checking");
    let sequential = sequentially(&input, layout, &progress);
    progress.finish_and_clear();
    let sequential = sequential?;
    check(&parallel, &sequential)?;
    match report(options, &group, &parallel, sequential.took) {
        // Who pipes into `head` has seen enough.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Trouble::runtime(error)),
        _ => Ok(()),
    }
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(trouble) => {
            eprintln!("per_key: {trouble}");
            ExitCode::FAILURE
        }
    }
}
