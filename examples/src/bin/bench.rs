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
    let is_over_tls = |row: &figures::Row| row.name.starts_with("tls_");
    let rows = rows.into_iter().filter(|row| match options.transport {
        None => true,
        Some(cli::Carrying::Tls) => is_over_tls(row),
        Some(cli::Carrying::Tcp) => !is_over_tls(row),
    });
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
