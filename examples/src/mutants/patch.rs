//! Unified diffs, applied without any other program.

use std::collections::BTreeMap;

/// Changes of some files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Patch {
    files: BTreeMap<String, Vec<Hunk>>,
}

/// Lines that are to be replaced by others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Hunk {
    /// Where they should be, from 1.
    line: usize,
    old: Vec<String>,
    new: Vec<String>,
}

impl Patch {
    /// Reads a diff as `git diff` and `diff -u` write it. Files can be changed, neither made nor deleted.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut patch = Self::default();
        let mut hunks: Option<&mut Vec<Hunk>> = None;
        let mut lines = text.lines().peekable();
        while let Some(line) = lines.next() {
            if line.starts_with("--- ") && lines.peek().is_some_and(|next| next.starts_with("+++ "))
            {
                let name = lines.next().unwrap_or_default().trim_start_matches("+++ ");
                let name = name.split('\t').next().unwrap_or(name);
                let path = name.strip_prefix("b/").unwrap_or(name).to_owned();
                hunks = Some(patch.files.entry(path).or_default());
                continue;
            }
            let Some(hunks) = &mut hunks else {
                return Err(format!("`{line}` belongs to no file"));
            };
            if let Some(range) = line.strip_prefix("@@ -") {
                let number = range.split([',', ' ']).next().unwrap_or_default();
                let line = number
                    .parse()
                    .map_err(|_| format!("`{line}` has no line number"))?;
                hunks.push(Hunk {
                    line,
                    ..Hunk::default()
                });
                continue;
            }
            if line.starts_with("diff ") || line.starts_with("index ") {
                continue;
            }
            let hunk = hunks
                .last_mut()
                .ok_or_else(|| format!("`{line}` is in no hunk"))?;
            // Editors cut the blank of an empty line.
            let (sign, rest) = match line.chars().next() {
                Some(sign) => (sign, line[sign.len_utf8()..].to_owned()),
                None => (' ', String::new()),
            };
            match sign {
                ' ' => {
                    hunk.old.push(rest.clone());
                    hunk.new.push(rest);
                }
                '-' => hunk.old.push(rest),
                '+' => hunk.new.push(rest),
                '\\' => {}
                _ => return Err(format!("`{line}` is no line of a diff")),
            }
        }
        let good = |hunks: &Vec<Hunk>| hunks.iter().all(|hunk| hunk.old != hunk.new);
        if patch.files.is_empty()
            || !patch
                .files
                .values()
                .all(|hunks| !hunks.is_empty() && good(hunks))
        {
            return Err("it changes nothing".to_owned());
        }
        Ok(patch)
    }

    /// The files that it changes.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    /// The new text of a file. Lines may have moved; of several places the nearest is taken.
    ///
    /// # Errors
    /// Which lines are not there.
    pub fn apply(&self, file: &str, text: &str) -> Result<String, String> {
        let mut lines: Vec<String> = text.split('\n').map(str::to_owned).collect();
        let mut shift = 0isize;
        for hunk in self.files.get(file).into_iter().flatten() {
            let wanted = hunk.line.saturating_sub(1).saturating_add_signed(shift);
            let found = (0..lines.len())
                .filter(|at| lines[*at..].starts_with(&hunk.old))
                .min_by_key(|at| at.abs_diff(wanted));
            let Some(at) = found else {
                return Err(format!(
                    "{file}: the lines around {} have changed:\n{}",
                    hunk.line,
                    hunk.old.join("\n")
                ));
            };
            lines.splice(at..at + hunk.old.len(), hunk.new.iter().cloned());
            shift = (at as isize - (hunk.line as isize - 1)) + hunk.new.len() as isize
                - hunk.old.len() as isize;
        }
        Ok(lines.join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIFF: &str = "\
--- a/one.rs
+++ b/one.rs
@@ -2,3 +2,3 @@ fn context()
 b
-c
+C
 d
@@ -8,2 +8,3 @@
 h

+more
--- a/two.rs
+++ b/two.rs
@@ -1 +0,0 @@
-x
";

    #[test]
    fn hunks_are_found_where_they_were_or_near() {
        let patch = Patch::parse(DIFF).unwrap();
        assert_eq!(patch.files().collect::<Vec<_>>(), ["one.rs", "two.rs"]);
        let text = "a\nb\nc\nd\ne\nf\ng\nh\n\ni\n";
        let new = "a\nb\nC\nd\ne\nf\ng\nh\n\nmore\ni\n";
        assert_eq!(patch.apply("one.rs", text).unwrap(), new);
        let moved = format!("b\nc\nz\n\n\n{text}");
        assert_eq!(
            patch.apply("one.rs", &moved).unwrap(),
            format!("b\nc\nz\n\n\n{new}")
        );
        let twice = "a\nb\nc\nd\n1\n2\n3\n4\nb\nc\nd\nh\n\n";
        let twice_new = "a\nb\nC\nd\n1\n2\n3\n4\nb\nc\nd\nh\n\nmore\n";
        assert_eq!(patch.apply("one.rs", twice).unwrap(), twice_new);
        assert_eq!(patch.apply("two.rs", "x\ny\n").unwrap(), "y\n");
        assert_eq!(patch.apply("three.rs", "x").unwrap(), "x");
    }

    #[test]
    fn what_is_not_there_is_named() {
        let patch = Patch::parse(DIFF).unwrap();
        let error = patch.apply("one.rs", "a\nb\nd\n").unwrap_err();
        assert!(
            error.contains("one.rs") && error.contains("\nc\n"),
            "{error}"
        );
    }

    #[test]
    fn what_is_no_diff_is_refused() {
        for text in [
            "",
            "@@ -1 +1 @@\n",
            "--- a/x\n+++ b/x\n",
            "--- a/x\n+++ b/x\n@@ -1 +1 @@\n a\n",
        ] {
            assert!(Patch::parse(text).is_err(), "{text}");
        }
        assert!(Patch::parse("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\nword\n").is_err());
    }
}
