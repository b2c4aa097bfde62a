//! The device on a microcontroller: an RP2040, whose two UARTs lead to nodes of a cluster, through whatever carries bytes
//! there. It asks an entity of another node once; then it hosts.
//!
//! What a board's start-up code does is left out: a vector table, clocks, pins, baud rates. There is no allocator in this
//! program, so it links only if nothing asks for one.
#![no_std]
#![no_main]

use core::mem::MaybeUninit;
use core::panic::PanicInfo;
use core::ptr::{read_volatile, write_volatile};
use core::time::Duration;

use device::{Config, Device, Event, OUTBOX, State};
use heapless::Vec;
use shard_proto::Instant;

/// Base addresses of the UARTs (PL011), the timer, and the ring oscillator, and where the loader counts starts.
const UARTS: [usize; 2] = [0x4003_4000, 0x4003_8000];
const TIMER: usize = 0x4005_4000;
const OSCILLATOR: usize = 0x4006_0000;
const STARTS: usize = 0x101F_F000;
/// Bits of a UART's flags: nothing to read, no room to write.
const EMPTY: u32 = 1 << 4;
const FULL: u32 = 1 << 5;

static mut DEVICE: MaybeUninit<Device<'static>> = MaybeUninit::uninit();

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    loop {}
}

fn read(address: usize) -> u32 {
    // SAFETY: these registers exist on this chip, and reading them is always allowed.
    unsafe { read_volatile(address as *const u32) }
}

fn now() -> Instant {
    // The halves belong together if the upper one did not change meanwhile.
    loop {
        let (high, low) = (read(TIMER + 0x24), read(TIMER + 0x28));
        if read(TIMER + 0x24) == high {
            return Instant::from_micros(u64::from(high) << 32 | u64::from(low));
        }
    }
}

fn random() -> u64 {
    (0..64).fold(0, |bits, _| {
        bits << 1 | u64::from(read(OSCILLATOR + 0x1C) & 1)
    })
}

#[unsafe(no_mangle)]
extern "C" fn _start() -> ! {
    // SAFETY: this function is entered once, and nothing else names the static.
    let device = unsafe { &mut *&raw mut DEVICE };
    let mut life = u64::from(read(STARTS)) << 16;
    loop {
        life += 1;
        let config = Config {
            name: "rp2040",
            incarnation: life,
            seed: random(),
            cluster: "",
            voters: &["a"],
            shards: 4,
        };
        if let Some(new) = Device::new(now(), &config) {
            live(device.write(new));
        }
    }
}

struct Pipe {
    is_connected: bool,
    /// To be written, last byte first.
    out: Vec<u8, OUTBOX>,
}

impl Pipe {
    const fn new() -> Self {
        Self {
            is_connected: false,
            out: Vec::new(),
        }
    }
}

/// One life of the device.
fn live(device: &mut Device<'static>) {
    let mut pipes = [const { Pipe::new() }; 2];
    let mut asked = false;
    while device.state() != State::Over {
        for (link, (pipe, uart)) in pipes.iter_mut().zip(UARTS).enumerate() {
            // Bytes simply flow: a connection is what both sides take for one.
            let (now, wants) = (now(), device.wants(link));
            if wants != pipe.is_connected {
                *pipe = Pipe::new();
                pipe.is_connected = wants;
                if wants {
                    device.connected(now, link);
                } else {
                    device.closed(now, link);
                }
            }
            let mut chunk: Vec<u8, 32> = Vec::new();
            while read(uart + 0x18) & EMPTY == 0 && chunk.push(read(uart) as u8).is_ok() {}
            device.receive(now, link, &chunk);
            if pipe.out.is_empty() {
                device.transmit(now, link, &mut pipe.out);
                pipe.out.reverse();
            }
            while read(uart + 0x18) & FULL == 0
                && let Some(byte) = pipe.out.pop()
            {
                // SAFETY: as for reading; the register takes a byte.
                unsafe { write_volatile(uart as *mut u32, u32::from(byte)) };
            }
        }
        device.handle_timeout(now());
        if device.is_registered() && !asked {
            // In postcard's encoding: a length, and so many bytes.
            asked = device
                .ask(now(), "user-1", b"\x05hello", Duration::from_secs(5))
                .is_ok();
        }
        match device.poll_event() {
            Some(Event::Answer(..)) => asked = device.host(now()),
            Some(Event::Failed(..)) => asked = false,
            None => {}
        }
    }
}
