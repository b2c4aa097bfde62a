//! The entity: accounts for the rows of one key, and writes its totals when it stops. One whose rows outlive it is in
//! `durable`.

mod durable;

use core::sync::atomic::{AtomicU64, Ordering};
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

pub use durable::{DurableLedger, Journaled, Place, Posted, read_journal};
use serde::{Deserialize, Serialize};
use shard_tokio::{Context, Entity};

use crate::{
    clock,
    failure::Failure,
    service::{Probed, Served},
    totals::Totals,
    verdict::Part,
};

/// What a ledger is sent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Entry {
    /// A row to account for; answered [`Entered::Row`].
    Row(Account),
    /// Whether it serves; answered [`Entered::Probe`].
    Probe,
    /// What it has added up; answered [`Entered::Totals`].
    Totals,
}

/// What a ledger answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Entered {
    /// The row of this number is accounted for.
    Row(u32),
    /// It serves.
    Probe(Served),
    /// What it has added up.
    Totals(Totals),
}

/// An entity that accounts for rows.
pub trait Accounts: Probed + Entity<Message = Entry, Reply = Entered> {}

impl<E: Probed + Entity<Message = Entry, Reply = Entered>> Accounts for E {}

impl Entered {
    const fn served(&self) -> Option<Served> {
        match self {
            Self::Probe(served) => Some(*served),
            Self::Row(_) | Self::Totals(_) => None,
        }
    }
}

/// A row to account for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Account {
    /// Its number.
    pub row: u32,
    /// What to add up.
    pub values: Vec<i64>,
}

/// The totals of one key, in this life of its entity.
#[derive(Debug)]
pub struct Ledger {
    book: Arc<Book>,
    totals: Totals,
    rows: Vec<u32>,
    from_us: u64,
    to_us: u64,
}

impl Ledger {
    /// One that writes to `book`.
    #[must_use]
    pub fn new(book: Arc<Book>) -> Self {
        Self {
            book,
            totals: Totals::default(),
            rows: Vec::new(),
            from_us: 0,
            to_us: 0,
        }
    }

    /// Writes what it has, and forgets it.
    fn write(&mut self, cx: &Context<'_, Self>) {
        if self.rows.is_empty() {
            return;
        }
        self.book.write(Part {
            key: cx.id().to_owned(),
            epoch: cx.epoch().to_bits(),
            life: 0,
            totals: core::mem::take(&mut self.totals),
            rows: core::mem::take(&mut self.rows),
            from_us: self.from_us,
            to_us: self.to_us,
        });
    }
}

impl Entity for Ledger {
    const TYPE: &'static str = "ledger";
    type Message = Entry;
    type Reply = Entered;

    /// For a proxy, which never makes one.
    fn create(_key: &str) -> Self {
        Self::new(Arc::new(Book::default()))
    }

    async fn handle(&mut self, entry: Entry, cx: &mut Context<'_, Self>) {
        let at_us = clock::micros();
        match entry {
            Entry::Row(Account { row, values }) => {
                if self.rows.is_empty() {
                    self.from_us = at_us;
                }
                self.to_us = at_us;
                self.totals.push(row, &values);
                self.rows.push(row);
                if self.book.each_row {
                    self.write(cx);
                }
                cx.reply(Entered::Row(row));
            }
            Entry::Probe => {
                let epoch = cx.epoch().to_bits();
                cx.reply(Entered::Probe(Served { epoch, at_us }));
            }
            Entry::Totals => cx.reply(Entered::Totals(self.totals.clone())),
        }
    }

    async fn stopped(&mut self, cx: &mut Context<'_, Self>) {
        self.write(cx);
    }
}

impl Probed for Ledger {
    fn probe() -> Entry {
        Entry::Probe
    }

    fn served(answer: &Entered) -> Option<Served> {
        answer.served()
    }
}

/// Where entities of a process write, a line each.
#[derive(Debug, Default)]
pub struct Book {
    file: Option<File>,
    lives: AtomicU64,
    each_row: bool,
}

impl Book {
    /// Opens a file to append to.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(Self {
            file: Some(file),
            lives: AtomicU64::new(0),
            each_row: false,
        })
    }

    /// Whether each row is written before it is answered: what a process did outlives it then.
    #[must_use]
    pub const fn writing_each_row(mut self, each_row: bool) -> Self {
        self.each_row = each_row;
        self
    }

    fn write(&self, mut part: Part) {
        part.life = self.lives.fetch_add(1, Ordering::Relaxed);
        let Some(mut file) = self.file.as_ref() else {
            return;
        };
        // One write, so that lines of different entities do not mix.
        let written = serde_json::to_vec(&part)
            .map_err(io::Error::from)
            .and_then(|mut line| {
                line.push(b'\n');
                file.write_all(&line)
            });
        if let Err(error) = written {
            eprintln!(
                "error: the totals of {} cannot be written: {error}",
                part.key
            );
        }
    }
}

/// Everything that books wrote to the files of a folder.
///
/// # Errors
/// A file cannot be read, or is not what a book writes.
pub fn read_books(folder: &Path) -> Result<Vec<Part>, Failure> {
    let mut parts = Vec::new();
    for file in fs::read_dir(folder)? {
        let path = file?.path();
        let text = fs::read_to_string(&path)?;
        // A process that was killed in the middle of a line had not answered it.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        for line in whole.lines() {
            let part = serde_json::from_str(line);
            let name = path.display();
            parts.push(part.map_err(|error| Failure::run(format!("{name}: {error}")))?);
        }
    }
    Ok(parts)
}

/// Of the books, in a [`Shelf`].
const BOOKS: &str = "books";

/// A folder for books and whatever else nodes keep in files; removed when dropped.
#[derive(Debug)]
pub struct Shelf(PathBuf);

impl Shelf {
    /// A new one among the system's temporary files.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn new() -> Result<Self, Failure> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("shard-books-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(path.join(BOOKS)).map_err(|error| {
            let place = std::env::temp_dir();
            let place = place.display();
            Failure::run(format!(
                "cannot make a temporary folder in {place}: set TMPDIR ({error})"
            ))
        })?;
        Ok(Self(path))
    }

    /// Where a node's book is.
    #[must_use]
    pub fn book(&self, node: &str) -> PathBuf {
        self.books().join(format!("{node}.jsonl"))
    }

    /// The folder of the books, in which nothing else is.
    #[must_use]
    pub fn books(&self) -> PathBuf {
        self.0.join(BOOKS)
    }

    /// Where the store of all nodes is.
    #[must_use]
    pub fn store(&self) -> PathBuf {
        self.0.join("store.sqlite")
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Shelf {
    fn drop(&mut self) {
        // What cannot be removed is left to the system's own cleaning.
        let _ = fs::remove_dir_all(&self.0);
    }
}
