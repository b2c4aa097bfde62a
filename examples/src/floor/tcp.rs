//! Loopback TCP between two threads that block in the kernel.

use core::net::Ipv4Addr;
use std::{
    io::{self, Read, Write},
    net::{TcpListener, TcpStream},
    thread::{self, JoinHandle},
    time::Instant,
};

use super::{per_second, timed};
use crate::{
    failure::Failure,
    figures::{Figure, Size, figure},
    latency::Latency,
};

/// About what an envelope with a short id takes.
const MESSAGE: usize = 32;
/// How much is written and read at a time.
const CHUNK: usize = 64 * 1024;

fn connect<T: Send + 'static>(
    serve: impl FnOnce(TcpStream) -> io::Result<T> + Send + 'static,
) -> io::Result<(TcpStream, JoinHandle<io::Result<T>>)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let client = TcpStream::connect(listener.local_addr()?)?;
    client.set_nodelay(true)?;
    let server = thread::spawn(move || {
        let (stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        serve(stream)
    });
    Ok((client, server))
}

fn join<T>(server: JoinHandle<io::Result<T>>) -> Result<T, Failure> {
    let result = server.join();
    Ok(result.map_err(|_| Failure::run("the echoing thread panicked"))??)
}

/// Sends back whatever comes, as it comes, until the end.
fn echo(mut stream: TcpStream) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK];
    loop {
        let got = stream.read(&mut chunk)?;
        if got == 0 {
            return Ok(());
        }
        stream.write_all(&chunk[..got])?;
    }
}

/// One ask at a time over loopback TCP: the time of two wake-ups.
///
/// # Errors
/// Sockets fail.
pub fn ask(size: Size) -> Result<Vec<Figure>, Failure> {
    let asks = size.of(100_000);
    let (mut stream, server) = connect(echo)?;
    let mut latency = Latency::new();
    let mut message = [0; MESSAGE];
    for warm_up in [asks / 20, 0] {
        let rounds = if warm_up > 0 { warm_up } else { asks };
        latency = Latency::new();
        for number in 0..rounds {
            message[..8].copy_from_slice(&number.to_le_bytes());
            let start = Instant::now();
            stream.write_all(&message)?;
            stream.read_exact(&mut message)?;
            latency.record(start.elapsed());
            debug_assert_eq!(message[..8], number.to_le_bytes());
        }
    }
    drop(stream);
    join(server)?;
    Ok(vec![
        figure("remote_ask_per_s", 1e6 / latency.mean_us()),
        figure("remote_ask_p50_us", latency.p50_us()),
        figure("remote_ask_p99_us", latency.p99_us()),
    ])
}

/// 128 asks in flight on one connection: as many new ones are written at once as answers were read at once.
///
/// # Errors
/// Sockets fail.
pub fn ask_128(size: Size) -> Result<Vec<Figure>, Failure> {
    let asks = size.of(4_000_000);
    let (result, took) = timed(|| pipelined(asks, 128));
    result?;
    Ok(vec![figure("remote_ask_128_per_s", per_second(asks, took))])
}

/// A million asks, 128 in flight.
///
/// # Errors
/// Sockets fail.
pub fn million_asks(size: Size) -> Result<Vec<Figure>, Failure> {
    let asks = size.of(1_000_000);
    let (result, took) = timed(|| pipelined(asks, 128));
    result?;
    Ok(vec![figure("asks_1m_s", took.as_secs_f64())])
}

fn pipelined(asks: u64, in_flight: usize) -> Result<(), Failure> {
    let (mut stream, server) = connect(echo)?;
    let mut answers = vec![0; CHUNK];
    let mut requests = Vec::with_capacity(in_flight * MESSAGE);
    let (mut sent, mut answered, mut rest) = (0_u64, 0_u64, 0_usize);
    let mut free = in_flight;
    while answered < asks {
        requests.clear();
        while free > 0 && sent < asks {
            let mut message = [0; MESSAGE];
            message[..8].copy_from_slice(&sent.to_le_bytes());
            requests.extend_from_slice(&message);
            sent += 1;
            free -= 1;
        }
        stream.write_all(&requests)?;
        let got = stream.read(&mut answers[rest..])?;
        if got == 0 {
            return Err(Failure::run("the connection ended early"));
        }
        let there = rest + got;
        for message in answers[..there].chunks_exact(MESSAGE) {
            if message[..8] != answered.to_le_bytes() {
                return Err(Failure::run("an answer is out of order"));
            }
            answered += 1;
            free += 1;
        }
        rest = there % MESSAGE;
        answers.copy_within(there - rest..there, 0);
    }
    drop(stream);
    join(server)
}

/// One way over loopback TCP, messages gathered into writes of 64 KiB; the reader looks at each.
///
/// # Errors
/// Sockets fail.
pub fn one_way(size: Size) -> Result<Vec<Figure>, Failure> {
    let messages = size.of(20_000_000);
    let (mut stream, server) = connect(move |stream| count(stream, messages))?;
    let (result, took) = timed(|| {
        let mut chunk = Vec::with_capacity(CHUNK);
        for number in 0..messages {
            let mut message = [0; MESSAGE];
            message[..8].copy_from_slice(&number.to_le_bytes());
            chunk.extend_from_slice(&message);
            if chunk.len() == CHUNK {
                stream.write_all(&chunk)?;
                chunk.clear();
            }
        }
        stream.write_all(&chunk)?;
        join(server)
    });
    if result? != messages {
        return Err(Failure::run("messages were lost or out of order"));
    }
    Ok(vec![figure(
        "remote_tell_per_s",
        per_second(messages, took),
    )])
}

/// How many messages came in order.
fn count(mut stream: TcpStream, messages: u64) -> io::Result<u64> {
    let mut chunk = vec![0; CHUNK];
    let (mut next, mut rest) = (0_u64, 0);
    while next < messages {
        let got = stream.read(&mut chunk[rest..])?;
        if got == 0 {
            break;
        }
        let there = rest + got;
        for message in chunk[..there].chunks_exact(MESSAGE) {
            if message[..8] != next.to_le_bytes() {
                return Ok(next);
            }
            next += 1;
        }
        rest = there % MESSAGE;
        chunk.copy_within(there - rest..there, 0);
    }
    Ok(next)
}
