//! The entity: accounts for the rows of one key, and writes its totals when it stops.

use core::sync::atomic::{AtomicU64, Ordering};
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use serde::{Deserialize, Serialize};
use shard_tokio::{Context, Entity};

use crate::{failure::Failure, totals::Totals, verdict::Part};

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
}

impl Ledger {
    /// One that writes to `book`.
    #[must_use]
    pub fn new(book: Arc<Book>) -> Self {
        Self {
            book,
            totals: Totals::default(),
            rows: Vec::new(),
        }
    }
}

impl Entity for Ledger {
    const TYPE: &'static str = "ledger";
    type Message = Account;
    type Reply = u32;

    /// For a proxy, which never makes one.
    fn create(_key: &str) -> Self {
        Self::new(Arc::new(Book::default()))
    }

    async fn handle(&mut self, Account { row, values }: Account, cx: &mut Context<'_, Self>) {
        self.totals.push(row, &values);
        self.rows.push(row);
        cx.reply(row);
    }

    async fn stopped(&mut self, cx: &mut Context<'_, Self>) {
        self.book.write(Part {
            key: cx.id().to_owned(),
            epoch: cx.epoch().to_bits(),
            life: 0,
            totals: core::mem::take(&mut self.totals),
            rows: core::mem::take(&mut self.rows),
        });
    }
}

/// Where entities of a process write, a line each.
#[derive(Debug, Default)]
pub struct Book {
    file: Option<File>,
    lives: AtomicU64,
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
        })
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
        for line in fs::read_to_string(&path)?.lines() {
            let part = serde_json::from_str(line);
            let name = path.display();
            parts.push(part.map_err(|error| Failure::run(format!("{name}: {error}")))?);
        }
    }
    Ok(parts)
}

/// A folder for books; removed when dropped.
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
        fs::create_dir_all(&path)
            .map_err(|error| Failure::run(format!("{}: {error}", path.display())))?;
        Ok(Self(path))
    }

    /// Where a node's book is.
    #[must_use]
    pub fn book(&self, node: &str) -> PathBuf {
        self.0.join(format!("{node}.jsonl"))
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
