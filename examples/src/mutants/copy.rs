//! A copy of the workspace in which faults are planted.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use super::patch::Patch;
use crate::failure::Failure;

/// What is copied: the code that the simulator is built from.
const PARTS: [&str; 4] = ["Cargo.toml", "Cargo.lock", "shard-proto", "rustfmt.toml"];

/// A copy. Files that do not change keep their times, so that little is built anew.
#[derive(Debug)]
pub struct Copy {
    directory: PathBuf,
    /// The text of every file, unharmed.
    files: BTreeMap<PathBuf, Vec<u8>>,
}

fn failed(path: &Path, error: impl core::fmt::Display) -> Failure {
    Failure::run(format!("{}: {error}", path.display()))
}

/// All files below a path, by their path from `root`.
fn collect(
    root: &Path,
    path: &Path,
    files: &mut BTreeMap<PathBuf, Vec<u8>>,
) -> Result<(), Failure> {
    let full = root.join(path);
    if !full.is_dir() {
        let bytes = fs::read(&full).map_err(|error| failed(&full, error))?;
        files.insert(path.to_path_buf(), bytes);
        return Ok(());
    }
    for entry in fs::read_dir(&full).map_err(|error| failed(&full, error))? {
        let name = entry.map_err(|error| failed(&full, error))?.file_name();
        if name != "target" && !name.to_string_lossy().starts_with('.') {
            collect(root, &path.join(name), files)?;
        }
    }
    Ok(())
}

impl Copy {
    /// Copies the repository to a directory, which is made if it is not there.
    ///
    /// # Errors
    /// Something cannot be read or written.
    pub fn new(repository: &Path, directory: PathBuf) -> Result<Self, Failure> {
        let mut files = BTreeMap::new();
        for part in PARTS {
            collect(repository, Path::new(part), &mut files)?;
        }
        // A workspace of the core alone.
        files.retain(|path, _| !path.starts_with("shard-proto/adapter"));
        let manifest = files.get_mut(Path::new("Cargo.toml"));
        let manifest = manifest.ok_or_else(|| Failure::run("there is no Cargo.toml"))?;
        *manifest = core_alone(&String::from_utf8_lossy(manifest))?.into_bytes();
        let copy = Self { directory, files };
        copy.restore()?;
        Ok(copy)
    }

    /// Where it is.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> Result<(), Failure> {
        let full = self.directory.join(path);
        if fs::read(&full).is_ok_and(|old| old == bytes) {
            return Ok(());
        }
        if let Some(parent) = full.parent() {
            fs::create_dir_all(parent).map_err(|error| failed(parent, error))?;
        }
        fs::write(&full, bytes).map_err(|error| failed(&full, error))
    }

    /// Undoes every fault.
    ///
    /// # Errors
    /// Something cannot be written or deleted.
    pub fn restore(&self) -> Result<(), Failure> {
        // What an older copy left behind. The lock file is cargo's.
        let mut there = BTreeMap::new();
        let core = Path::new("shard-proto");
        if self.directory.join(core).is_dir() {
            collect(&self.directory, core, &mut there)?;
        }
        for path in there.keys().filter(|path| !self.files.contains_key(*path)) {
            let full = self.directory.join(path);
            fs::remove_file(&full).map_err(|error| failed(&full, error))?;
        }
        for (path, bytes) in &self.files {
            if path != Path::new("Cargo.lock") || !self.directory.join(path).exists() {
                self.write(path, bytes)?;
            }
        }
        Ok(())
    }

    /// Plants a fault, after [`Copy::restore`].
    ///
    /// # Errors
    /// The patch does not fit the code any more.
    pub fn plant(&self, patch: &Patch) -> Result<(), Failure> {
        for file in patch.files() {
            let path = Path::new(file);
            let bytes = self
                .files
                .get(path)
                .ok_or_else(|| failed(path, "there is no such file"))?;
            let text = patch
                .apply(file, &String::from_utf8_lossy(bytes))
                .map_err(Failure::run)?;
            self.write(path, text.as_bytes())?;
        }
        Ok(())
    }
}

/// A manifest without the other members.
fn core_alone(manifest: &str) -> Result<String, Failure> {
    let mut found = false;
    let lines = manifest.lines().map(|line| {
        if line.starts_with("members = ") {
            found = true;
            "members = [\"shard-proto\"]"
        } else {
            line
        }
    });
    let manifest: Vec<_> = lines.collect();
    if found {
        Ok(manifest.join("\n") + "\n")
    } else {
        Err(Failure::run("Cargo.toml has no `members = ` line"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_restored_and_keeps_what_did_not_change() {
        let root = std::env::temp_dir().join(format!("mutants-{}", std::process::id()));
        let (from, to) = (root.join("from"), root.join("to"));
        fs::create_dir_all(from.join("shard-proto/src")).unwrap();
        for (name, text) in [
            ("Cargo.toml", "[workspace]\nmembers = [\"a\", \"b\"]\n"),
            ("Cargo.lock", ""),
            ("rustfmt.toml", ""),
            ("shard-proto/src/lib.rs", "one\ntwo\n"),
            ("shard-proto/src/other.rs", "other\n"),
        ] {
            fs::write(from.join(name), text).unwrap();
        }
        let copy = Copy::new(&from, to.clone()).unwrap();
        let read = |name: &str| fs::read_to_string(to.join(name)).unwrap();
        assert!(read("Cargo.toml").contains("members = [\"shard-proto\"]"));
        let time = |name: &str| fs::metadata(to.join(name)).unwrap().modified().unwrap();
        let before = time("shard-proto/src/other.rs");

        let diff = "--- a/shard-proto/src/lib.rs\n+++ b/shard-proto/src/lib.rs\n@@ -1,2 +1 @@\n one\n-two\n";
        copy.plant(&Patch::parse(diff).unwrap()).unwrap();
        assert_eq!(read("shard-proto/src/lib.rs"), "one\n");
        fs::write(to.join("shard-proto/src/stray.rs"), "").unwrap();
        copy.restore().unwrap();
        assert_eq!(read("shard-proto/src/lib.rs"), "one\ntwo\n");
        assert!(!to.join("shard-proto/src/stray.rs").exists());
        assert_eq!(time("shard-proto/src/other.rs"), before);

        let diff = "--- a/x\n+++ b/shard-proto/src/none.rs\n@@ -1 +1 @@\n-a\n+b\n";
        assert!(copy.plant(&Patch::parse(diff).unwrap()).is_err());
        fs::remove_dir_all(&root).unwrap();
    }
}
