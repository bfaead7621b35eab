//! What the service has done, one line of JSON each in a file, and what is left on the shelves.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

/// Kinds of things that the shop sells.
pub(crate) const ITEMS: u64 = 10;

/// What one order wants of one section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Request {
    Payment { order: u64, cents: u64 },
    Stock { order: u64, item: u64, pieces: u64 },
    Shipping { order: u64 },
}

impl Request {
    /// A request as it comes over HTTP: the path is the section.
    pub(crate) fn parse(path: &str, body: &str) -> Option<Self> {
        let request: Self = serde_json::from_str(body).ok()?;
        (path.strip_prefix('/') == Some(request.section())).then_some(request)
    }

    pub(crate) fn section(self) -> &'static str {
        match self {
            Self::Payment { .. } => "payment",
            Self::Stock { .. } => "stock",
            Self::Shipping { .. } => "shipping",
        }
    }

    pub(crate) fn order(self) -> u64 {
        match self {
            Self::Payment { order, .. } | Self::Stock { order, .. } | Self::Shipping { order } => {
                order
            }
        }
    }
}

/// Why something is not done, now and ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Declined,
    OutOfStock,
    UnknownAddress,
    TakenBack,
}

impl Refusal {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Declined => "the card is declined",
            Self::OutOfStock => "out of stock",
            Self::UnknownAddress => "the address is unknown",
            Self::TakenBack => "it was taken back",
        }
    }
}

/// A line of the file.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Line {
    key: String,
    request: Request,
    is_taken_back: bool,
}

/// What was done under a key.
#[derive(Clone, Copy, Debug)]
struct Deed {
    request: Request,
    was_done: bool,
    is_taken_back: bool,
}

/// What was done for one order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Account {
    /// How often the card was charged, ever.
    pub(crate) charges: u64,
    /// What it was charged and not given back.
    pub(crate) cents: u64,
    /// What was taken from the shelf and not put back.
    pub(crate) pieces: u64,
    /// Parcels that are on their way.
    pub(crate) parcels: u64,
}

/// The books of the service.
#[derive(Debug)]
pub(crate) struct Books {
    file: File,
    /// Where a line begins that was being written when the process was killed: it was not answered.
    cut_line: Option<u64>,
    deeds: HashMap<String, Deed>,
    shelves: Vec<u64>,
}

impl Books {
    /// Opens the file, or makes it; `pieces` of each item were there in the beginning.
    pub(crate) fn open(path: &Path, pieces: u64) -> io::Result<Self> {
        let file = File::options().read(true).append(true).create(true).open(path)?;
        let mut text = std::fs::read_to_string(path)?;
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        let cut_line = (whole < text.len()).then_some(whole as u64);
        text.truncate(whole);
        let shelves = vec![pieces; ITEMS as usize];
        let mut books = Self { file, cut_line, deeds: HashMap::new(), shelves };
        for (number, line) in text.lines().enumerate() {
            let line = serde_json::from_str(line).map_err(|error| {
                let text = format!("{} line {}: {error}", path.display(), number + 1);
                io::Error::new(io::ErrorKind::InvalidData, text)
            })?;
            books.apply(line);
        }
        Ok(books)
    }

    /// Does it, once: whether that is new, or why it is not done.
    pub(crate) fn act(&mut self, key: &str, request: Request) -> io::Result<Result<bool, Refusal>> {
        match self.deeds.get(key) {
            Some(deed) if deed.is_taken_back => return Ok(Err(Refusal::TakenBack)),
            Some(_) => return Ok(Ok(false)),
            None => {}
        }
        let refusal = match request {
            Request::Payment { order, .. } if order % 17 == 0 => Some(Refusal::Declined),
            Request::Shipping { order } if order % 23 == 0 => Some(Refusal::UnknownAddress),
            Request::Stock { item, pieces, .. } if self.shelf(item) < pieces => {
                Some(Refusal::OutOfStock)
            }
            _ => None,
        };
        if let Some(refusal) = refusal {
            return Ok(Err(refusal));
        }
        self.write(key, request, false)?;
        Ok(Ok(true))
    }

    /// Takes back what was done under a key, once; from now on nothing is done under it.
    pub(crate) fn take_back(
        &mut self,
        key: &str,
        request: Request,
    ) -> io::Result<Result<bool, Refusal>> {
        if self.deeds.get(key).is_some_and(|deed| deed.is_taken_back) {
            return Ok(Ok(false));
        }
        self.write(key, request, true)?;
        Ok(Ok(true))
    }

    fn write(&mut self, key: &str, request: Request, is_taken_back: bool) -> io::Result<()> {
        let line = Line { key: key.to_owned(), request, is_taken_back };
        let mut text = serde_json::to_vec(&line)?;
        text.push(b'\n');
        if let Some(begin) = self.cut_line {
            self.file.set_len(begin)?;
            self.cut_line = None;
        }
        self.file.write_all(&text)?;
        self.apply(line);
        Ok(())
    }

    fn shelf(&self, item: u64) -> u64 {
        self.shelves.get(item as usize).copied().unwrap_or(0)
    }

    fn apply(&mut self, line: Line) {
        let Line { key, request, is_taken_back } = line;
        let new = Deed { request, was_done: false, is_taken_back: false };
        let deed = self.deeds.entry(key).or_insert(new);
        let shelf = match request {
            Request::Stock { item, pieces, .. } => {
                self.shelves.get_mut(item as usize).map(|shelf| (shelf, pieces))
            }
            _ => None,
        };
        if is_taken_back {
            deed.is_taken_back = true;
            if let Some((shelf, pieces)) = shelf.filter(|_| deed.was_done) {
                *shelf += pieces;
            }
        } else {
            deed.was_done = true;
            if let Some((shelf, pieces)) = shelf {
                *shelf -= pieces;
            }
        }
    }

    /// What is left on the shelves.
    pub(crate) fn pieces_left(&self) -> u64 {
        self.shelves.iter().sum()
    }

    /// What was done for each order.
    pub(crate) fn accounts(&self) -> BTreeMap<u64, Account> {
        let mut accounts = BTreeMap::<u64, Account>::new();
        for deed in self.deeds.values().filter(|deed| deed.was_done) {
            let account = accounts.entry(deed.request.order()).or_default();
            let counts = u64::from(!deed.is_taken_back);
            match deed.request {
                Request::Payment { cents, .. } => {
                    account.charges += 1;
                    account.cents += cents * counts;
                }
                Request::Stock { pieces, .. } => account.pieces += pieces * counts,
                Request::Shipping { .. } => account.parcels += counts,
            }
        }
        accounts
    }
}
