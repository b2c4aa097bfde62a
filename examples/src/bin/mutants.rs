//! Plants deliberate faults of the protocol in a copy of the code, and lets the simulator look for them.

use std::{
    io::Read,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    time::{Instant, SystemTime},
};

use clap::Parser;
use examples::{
    cli,
    failure::{self, Failure, say},
    mutants::{self, Mutant, PATIENCE, copy::Copy},
    progress::Progress,
};

/// Plants deliberate faults of the protocol in a copy of the code, and lets the simulator look for them.
///
/// The faults are patch files in shard-proto/src/sim/mutations. Exit code 0 only if the simulator finds each of them,
/// and finds nothing in the code as it is.
#[derive(Clone, Debug, Parser)]
#[command(version)]
struct Options {
    /// Only faults whose name contains this; can be repeated
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Only so many, others every day
    #[arg(long, value_name = "COUNT")]
    rotate: Option<usize>,
    /// The day that --rotate goes by; default: today
    #[arg(long, value_name = "DAY", requires = "rotate")]
    of: Option<u64>,
    /// How many seeds a fault is looked for in; default: what its patch says
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: Option<u64>,
    /// The first seed
    #[arg(long, default_value = "0")]
    from: u64,
    /// Print the faults, and do nothing
    #[arg(long)]
    list: bool,
    /// Where the copy and what is built of it are kept, so that the next run builds less
    #[arg(long, value_name = "DIRECTORY")]
    directory: Option<PathBuf>,
}

fn main() -> ExitCode {
    match cli::parse::<Options>() {
        Ok(options) => failure::exit(run(&options)),
        Err(code) => code,
    }
}

fn run(options: &Options) -> Result<ExitCode, Failure> {
    let repository = mutants::repository();
    let chosen = choose(options, mutants::load(&repository)?)?;
    if options.list {
        for mutant in &chosen {
            say(format_args!(
                "{:30} {} (rule {})\n",
                mutant.name, mutant.fault, mutant.rule
            ))?;
            if let Some(why) = &mutant.redundant {
                say(format_args!("{:30} not counted: {why}\n", ""))?;
            }
        }
        return Ok(ExitCode::SUCCESS);
    }
    let place = options
        .directory
        .clone()
        .unwrap_or_else(|| repository.join("target/mutants"));
    let copy = Copy::new(&repository, place.join("copy"))?;
    let judge = Judge {
        directory: copy.directory(),
        target: place.join("target"),
        options,
    };
    let progress = Progress::new(chosen.len() as u64 + 1);
    progress.say("the code as it is");
    judge.build()?;
    let first = judge.seeds(options.seeds.unwrap_or(200), &[])?;
    if let Outcome::Found { seed, text, .. } = first {
        progress.clear();
        return Err(Failure::run(format!(
            "nothing is planted, and seed {seed} fails: {text}"
        )));
    }
    progress.advance(1);

    let (mut survivors, mut counted) = (0, 0);
    for mutant in &chosen {
        progress.say(mutant.name.clone());
        copy.restore()?;
        let start = Instant::now();
        let outcome = copy
            .plant(&mutant.patch)
            .and_then(|()| judge.build())
            .map(|()| Instant::now())
            .and_then(|built| {
                let seeds = options.seeds.unwrap_or(mutant.seeds);
                judge
                    .seeds(seeds, &mutant.arguments)
                    .map(|found| (found, built))
            });
        let survives = progress.aside(|| report(mutant, outcome, start))?;
        if mutant.redundant.is_none() {
            counted += 1;
            survivors += usize::from(survives);
        }
        progress.advance(1);
    }
    copy.restore()?;
    progress.clear();
    say(format_args!("{} of {counted} found\n", counted - survivors))?;
    Ok(ExitCode::from(u8::from(survivors > 0)))
}

/// Prints what became of a fault. Whether it was not found.
fn report(
    mutant: &Mutant,
    outcome: Result<(Outcome, Instant), Failure>,
    start: Instant,
) -> Result<bool, Failure> {
    let name = &mutant.name;
    match outcome {
        Ok((
            Outcome::Found {
                seed,
                promise,
                text,
            },
            built,
        )) => {
            let (build, run) = (built - start, built.elapsed());
            say(format_args!(
                "{name:30} found: {promise}, seed {seed} (built in {:.0} s, found in {:.1} s)\n{:30} {text}\n",
                build.as_secs_f64(),
                run.as_secs_f64(),
                ""
            ))?;
            Ok(false)
        }
        Ok((Outcome::Nothing(why), _)) if mutant.redundant.is_some() => {
            say(format_args!("{name:30} not found, not counted: {why}\n"))?;
            Ok(true)
        }
        Ok((Outcome::Nothing(why), _)) => {
            say(format_args!(
                "{name:30} NOT FOUND: {why}; {}\n",
                mutant.fault
            ))?;
            Ok(true)
        }
        Err(error) => {
            say(format_args!("{name:30} FAILED: {error}\n"))?;
            Ok(true)
        }
    }
}

/// The faults to plant.
fn choose(options: &Options, all: Vec<Mutant>) -> Result<Vec<Mutant>, Failure> {
    for only in &options.only {
        if !all.iter().any(|mutant| mutant.name.contains(only)) {
            return Err(Failure::usage(format!(
                "no fault is called {only}: see --list"
            )));
        }
    }
    let named = |mutant: &Mutant| {
        let only = &options.only;
        only.is_empty() || only.iter().any(|only| mutant.name.contains(only))
    };
    let mut chosen: Vec<_> = all.into_iter().filter(named).collect();
    if let Some(count) = options.rotate {
        chosen.retain(|mutant| mutant.redundant.is_none());
        let today = SystemTime::UNIX_EPOCH
            .elapsed()
            .map_or(0, |time| time.as_secs() / 86_400);
        let picked = mutants::rotate(chosen.len(), count, options.of.unwrap_or(today));
        chosen = picked.into_iter().map(|at| chosen[at].clone()).collect();
    }
    if chosen.is_empty() {
        return Err(Failure::usage("there is no fault to plant"));
    }
    Ok(chosen)
}

/// What the simulator said.
enum Outcome {
    Found {
        seed: u64,
        promise: String,
        text: String,
    },
    Nothing(String),
}

/// The simulator, built from the copy.
struct Judge<'a> {
    directory: &'a Path,
    target: PathBuf,
    options: &'a Options,
}

impl Judge<'_> {
    fn build(&self) -> Result<(), Failure> {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo
            .args([
                "build",
                "--release",
                "-p",
                "shard-proto",
                "--features",
                "sim",
            ])
            .args(["--example", "seeds", "--quiet"])
            .arg("--target-dir")
            .arg(&self.target)
            .current_dir(self.directory)
            .env("CARGO_INCREMENTAL", "1")
            .env("CARGO_PROFILE_RELEASE_DEBUG", "0")
            .env("RUSTFLAGS", "-Awarnings")
            .env_remove("CARGO_TARGET_DIR");
        let output = cargo
            .output()
            .map_err(|error| Failure::run(format!("cannot run cargo: {error}")))?;
        if output.status.success() {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&output.stderr);
        let first = text.lines().skip_while(|line| !line.starts_with("error"));
        let first: Vec<_> = first.take(6).collect();
        Err(Failure::run(format!(
            "it does not build: {}",
            first.join("\n")
        )))
    }

    fn seeds(&self, seeds: u64, arguments: &[String]) -> Result<Outcome, Failure> {
        let cannot = |error| Failure::run(format!("cannot run the simulator: {error}"));
        let mut child = Command::new(self.target.join("release/examples/seeds"))
            .args(["--seeds", &seeds.to_string()])
            .args(["--from", &self.options.from.to_string()])
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(cannot)?;
        let start = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().map_err(cannot)? {
                break status;
            }
            if start.elapsed() > PATIENCE {
                child.kill().map_err(cannot)?;
                child.wait().map_err(cannot)?;
                return Ok(Outcome::Nothing(format!("given up after {PATIENCE:?}")));
            }
            std::thread::sleep(core::time::Duration::from_millis(20));
        };
        let mut text = String::new();
        if let Some(stdout) = &mut child.stdout {
            stdout.read_to_string(&mut text).map_err(cannot)?;
        }
        let mut lines = text.lines();
        let mut line = || lines.next().unwrap_or_default().to_owned();
        match status.code() {
            Some(0) => Ok(Outcome::Nothing(format!("nothing breaks in {seeds} seeds"))),
            Some(1) => {
                let (seed, promise, text) = (line(), line(), line());
                let seed = seed
                    .parse()
                    .map_err(|_| Failure::run("the simulator does not say which seed failed"))?;
                Ok(Outcome::Found {
                    seed,
                    promise,
                    text,
                })
            }
            _ => Err(Failure::run(format!("the simulator ended with {status}"))),
        }
    }
}
