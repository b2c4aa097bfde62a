//! Node processes of the tests.
#![allow(dead_code, unreachable_pub)]

pub mod cluster;
pub mod net;

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

/// A `node` process. Killed when dropped.
pub struct Node {
    pub name: String,
    pub process: Child,
    lines: BufReader<ChildStdout>,
    pub address: String,
}

impl Node {
    /// Starts one and waits until it takes part.
    pub fn start(name: &str, seeds: &[&str], options: &[&str]) -> Self {
        let mut node = Self::spawn(name, "127.0.0.1:0", seeds, options);
        node.takes_part();
        node
    }

    /// Starts one and waits until it listens.
    pub fn spawn(name: &str, listen: &str, seeds: &[&str], options: &[&str]) -> Self {
        Self::run(env!("CARGO_BIN_EXE_node"), name, listen, seeds, options)
    }

    /// The same with another program.
    pub fn run(program: &str, name: &str, listen: &str, seeds: &[&str], options: &[&str]) -> Self {
        let mut command = Command::new(program);
        command.args(["--name", name, "--listen", listen]);
        for seed in seeds {
            command.args(["--seed", seed]);
        }
        command.args(options);
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap());
        let mut node = Self {
            name: name.to_owned(),
            process,
            lines,
            address: String::new(),
        };
        let line = node.line_with("listens on");
        let words: Vec<_> = line.split([' ', ';']).collect();
        node.address = words[3].to_owned();
        node
    }

    pub fn takes_part(&mut self) {
        self.line_with("takes part");
    }

    /// Reads on up to a line that contains this.
    pub fn line_with(&mut self, text: &str) -> String {
        loop {
            let mut line = String::new();
            assert_ne!(
                self.lines.read_line(&mut line).unwrap(),
                0,
                "{} ended before {text:?}",
                self.name
            );
            if line.contains(text) {
                return line;
            }
        }
    }

    pub fn signal(&self, name: &str) {
        let id = self.process.id().to_string();
        let killed = Command::new("kill").args(["-s", name, &id]).status();
        assert!(killed.unwrap().success());
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
