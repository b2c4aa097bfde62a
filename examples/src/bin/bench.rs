//! Measures what this machine can do and what the sharded entities make of it.

use std::process::ExitCode;

use examples::{
    cli,
    failure::{self, Failure},
    figures::{self, Row, Size},
    floor::{channel, tcp},
};

const ROWS: &[Row] = &[
    row(
        "route",
        "route of a known home",
        None,
        Some(("route_ns", 15.0)),
    ),
    row(
        "local_tell",
        "tell, same node",
        Some(channel::tell),
        Some(("local_tell_per_s", 8e6)),
    ),
    row("local_ask", "ask, same node", Some(channel::ask), None),
    row(
        "local_ask_128",
        "ask, same node, 128 in flight",
        Some(channel::ask_128),
        Some(("local_ask_128_per_s", 1.5e6)),
    ),
    row("remote_ask", "ask, other process", Some(tcp::ask), None),
    row(
        "remote_ask_128",
        "ask, other process, 128 in flight",
        Some(tcp::ask_128),
        Some(("remote_ask_128_per_s", 5e5)),
    ),
    row(
        "remote_tell",
        "tell, other process, in order",
        Some(tcp::one_way),
        Some(("remote_tell_per_s", 3e6)),
    ),
    row(
        "asks_1m",
        "1 M asks, 1 000 entities, two nodes",
        Some(tcp::million_asks),
        Some(("asks_1m_s", 2.0)),
    ),
    row(
        "first_touch",
        "first touch of 10 000 entities",
        Some(channel::spawn),
        Some(("first_touch_per_s", 20_000.0)),
    ),
    row(
        "move_1024",
        "1 024 shards moved under load",
        None,
        Some(("move_1024_s", 2.0)),
    ),
    row(
        "wake_up",
        "a thread wakes another",
        Some(channel::park),
        None,
    ),
];

const fn row(
    name: &'static str,
    title: &'static str,
    floor: Option<figures::Measure>,
    target: Option<(&'static str, f64)>,
) -> Row {
    Row {
        name,
        title,
        floor,
        ours: None,
        target,
    }
}

fn main() -> ExitCode {
    match cli::parse::<cli::Bench>() {
        Ok(options) => failure::exit(run(&options)),
        Err(code) => code,
    }
}

fn run(options: &cli::Bench) -> Result<ExitCode, Failure> {
    let size = if options.quick {
        Size::Quick
    } else {
        Size::Full
    };
    let rows = figures::select(ROWS, &options.only)?;
    if !options.json {
        println!("{}", figures::heading());
    }
    let mut all = Vec::new();
    for row in rows {
        let measured = figures::measure(row, size)?;
        if !options.json {
            print!("{}", figures::to_lines(&measured));
        }
        all.push(measured);
    }
    if options.json {
        println!("{}", figures::to_json(&all));
    }
    Ok(ExitCode::SUCCESS)
}
