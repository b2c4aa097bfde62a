//! Node processes of the tests.
#![allow(dead_code, unreachable_pub)]

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

/// A `node` process. Killed when dropped.
pub struct Node {
    pub process: Child,
    lines: BufReader<ChildStdout>,
    pub address: String,
}

impl Node {
    pub fn start(name: &str, seeds: &[&str]) -> Self {
        Self::start_with(name, seeds, &[])
    }

    pub fn start_with(name: &str, seeds: &[&str], options: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_node"));
        command.args(["--name", name, "--listen", "127.0.0.1:0"]);
        for seed in seeds {
            command.args(["--seed", seed]);
        }
        command.args(options);
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap());
        let mut node = Self {
            process,
            lines,
            address: String::new(),
        };
        let line = node.line_with("listens on");
        let words: Vec<_> = line.split([' ', ';']).collect();
        node.address = words[3].to_owned();
        node.line_with("takes part");
        node
    }

    /// Reads on up to a line that contains this.
    pub fn line_with(&mut self, text: &str) -> String {
        loop {
            let mut line = String::new();
            assert_ne!(
                self.lines.read_line(&mut line).unwrap(),
                0,
                "ended before {text:?}"
            );
            if line.contains(text) {
                return line;
            }
        }
    }

    pub fn signal(&mut self, name: &str) {
        let id = self.process.id().to_string();
        let killed = Command::new("kill").args(["-s", name, &id]).status();
        assert!(killed.unwrap().success());
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
