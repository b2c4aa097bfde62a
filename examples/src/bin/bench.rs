//! Measures what this machine can do and what the sharded entities make of it.

use std::process::ExitCode;

use examples::{
    bench, cli,
    failure::{self, Failure, say},
    figures::{self, Size},
    process,
};

fn main() -> ExitCode {
    if let Some(orders) = process::orders() {
        return failure::exit(orders.and_then(process::run_here));
    }
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
    let rows = figures::select(bench::ROWS, &options.only)?;
    let over = |row: &figures::Row| match row.name.split_once('_') {
        Some(("tls", _)) => cli::Carrying::Tls,
        Some(("quic", _)) => cli::Carrying::Quic,
        _ => cli::Carrying::Tcp,
    };
    let is_asked = |row: &figures::Row| options.transport.is_none_or(|it| it == over(row));
    let rows = rows.into_iter().filter(is_asked);
    if !options.json {
        say(format_args!("{}\n", figures::heading()))?;
    }
    let (mut all, mut failed) = (Vec::new(), Vec::new());
    for mut row in rows {
        if options.quick {
            // So few operations say nothing about speed.
            row.target = None;
        }
        match figures::measure(row, size) {
            Ok(measured) => {
                if !options.json {
                    say(figures::to_lines(&measured))?;
                }
                all.push(measured);
            }
            Err(failure) => failed.push(failure),
        }
    }
    if options.json {
        say(format_args!("{}\n", figures::to_json(&all)))?;
    }
    for failure in &failed {
        eprintln!("error: {failure}");
    }
    Ok(ExitCode::from(u8::from(!failed.is_empty())))
}
