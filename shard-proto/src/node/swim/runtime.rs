//! What `foca` asks of who runs it: randomness, and a place for what it wants.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;
use foca::{Notification, Timer};

use super::identity::{Phase, SwimIdentity};
use crate::hash::SplitMix64;

/// Packets that wait to be sent. Any may be lost.
const MAX_PACKETS: usize = 4_096;

/// Randomness for `foca`.
pub(super) struct Random(pub(super) SplitMix64);

impl rand_core::TryRng for Random {
    type Error = core::convert::Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Self::Error> {
        Ok((self.0.next_u64() >> 32) as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Self::Error> {
        Ok(self.0.next_u64())
    }

    fn try_fill_bytes(&mut self, dst: &mut [u8]) -> Result<(), Self::Error> {
        for chunk in dst.chunks_mut(8) {
            let bytes = self.0.next_u64().to_le_bytes();
            chunk
                .iter_mut()
                .zip(bytes)
                .for_each(|(to, byte)| *to = byte);
        }
        Ok(())
    }
}

/// What one call into `foca` leads to.
#[derive(Default)]
pub(super) struct Effects {
    pub(super) packets: VecDeque<(SwimIdentity, Bytes)>,
    pub(super) timers: Vec<(Duration, Timer<SwimIdentity>)>,
    pub(super) defunct: bool,
}

impl foca::Runtime<SwimIdentity> for &mut Effects {
    fn notify(&mut self, notification: Notification<'_, SwimIdentity>) {
        // Members are compared as a whole, see `Swim::next_change`.
        self.defunct |= matches!(notification, Notification::Defunct);
    }

    fn send_to(&mut self, to: SwimIdentity, data: &[u8]) {
        // Who left is not called back.
        if to.phase == Phase::Left {
            return;
        }
        if self.packets.len() >= MAX_PACKETS {
            self.packets.pop_front();
        }
        self.packets.push_back((to, Bytes::copy_from_slice(data)));
    }

    fn submit_after(&mut self, event: Timer<SwimIdentity>, after: Duration) {
        self.timers.push((after, event));
    }
}
