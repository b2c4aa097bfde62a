//! Long messages of one type on their way to other nodes: so many bytes of them, or one, whatever it is long. Whoever
//! has another one waits in line.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

use crate::body::Encoded;

/// Room for those that are kept by anybody: the inbox, the core's buffer, a link whose peer has not acknowledged them.
/// In line, so that many shorter ones do not keep a longest one out.
#[derive(Debug)]
pub(crate) struct Carried {
    room: Arc<Semaphore>,
    limit: u32,
}

/// Takes room until the last handle to it is gone. Whoever decodes it gets bytes that take none: the application may
/// keep those.
pub(crate) struct Counted {
    pub(crate) bytes: Bytes,
    _room: OwnedSemaphorePermit,
}

struct Handle(Arc<Counted>);

impl AsRef<[u8]> for Handle {
    fn as_ref(&self) -> &[u8] {
        &self.0.bytes
    }
}

impl Counted {
    /// For a link.
    pub(crate) fn shared(self: &Arc<Self>) -> Bytes {
        Bytes::from_owner(Handle(Arc::clone(self)))
    }
}

impl Carried {
    pub(crate) fn new(limit: usize) -> Self {
        let limit = limit.min(Semaphore::MAX_PERMITS);
        Self {
            room: Arc::new(Semaphore::new(limit.min(u32::MAX as usize))),
            limit: u32::try_from(limit).unwrap_or(u32::MAX),
        }
    }

    /// One that is long is counted, unless it was; handed back, if there is no room.
    #[inline]
    pub(crate) fn enter(&self, encoded: Encoded) -> Result<Encoded, Encoded> {
        match encoded {
            Encoded::Shared(bytes) if bytes.len() > Encoded::LONG => {
                match Arc::clone(&self.room).try_acquire_many_owned(self.takes(&bytes)) {
                    Ok(room) => Ok(counted(bytes, room)),
                    Err(_) => Err(Encoded::Shared(bytes)),
                }
            }
            other => Ok(other),
        }
    }

    /// Counts a long one when it is its turn. To drop this leaves the line.
    pub(crate) fn wait(
        &self,
        bytes: Bytes,
    ) -> impl Future<Output = Result<Encoded, AcquireError>> + Send + 'static {
        let takes = self.takes(&bytes);
        let room = Arc::clone(&self.room).acquire_many_owned(takes);
        async move { Ok(counted(bytes, room.await?)) }
    }

    /// Nobody gets room any more.
    pub(crate) fn close(&self) {
        self.room.close();
    }

    fn takes(&self, bytes: &Bytes) -> u32 {
        u32::try_from(bytes.len())
            .unwrap_or(u32::MAX)
            .min(self.limit)
    }
}

fn counted(bytes: Bytes, room: OwnedSemaphorePermit) -> Encoded {
    Encoded::Carried(Arc::new(Counted { bytes, _room: room }))
}

#[cfg(test)]
mod tests {
    use core::future::Future;
    use core::pin::pin;
    use core::task::{Context, Poll, Waker};

    use super::*;

    const LEN: usize = Encoded::LONG + 1;

    fn long(times: usize) -> Encoded {
        Encoded::Shared(Bytes::from(vec![1; times * LEN]))
    }

    fn bytes(times: usize) -> Bytes {
        Bytes::from(vec![1; times * LEN])
    }

    #[test]
    fn what_is_kept_is_counted_until_its_last_handle_is_gone() {
        let carried = Carried::new(2 * LEN);
        let first = carried.enter(long(2)).ok().unwrap();
        assert!(carried.enter(long(1)).is_err());
        // Short ones take no room.
        assert!(carried.enter(Encoded::EMPTY).is_ok());
        let slice = first.shared().unwrap().slice(10..20);
        // Counted once only.
        let first = carried.enter(first).ok().unwrap();
        drop(first);
        assert!(carried.enter(long(1)).is_err());
        drop(slice);
        // Alone, one of any length has room.
        let longest = carried.enter(long(3)).ok().unwrap();
        assert!(carried.enter(long(1)).is_err());
        drop(longest);
        assert!(carried.enter(long(2)).is_ok());
    }

    #[test]
    fn what_the_application_keeps_of_a_message_takes_no_room() {
        let carried = Carried::new(LEN);
        let sent = carried.enter(long(1)).ok().unwrap();
        let kept = sent.decode::<crate::Raw>().unwrap();
        drop(sent);
        assert!(carried.enter(long(1)).is_ok());
        assert_eq!(kept.0.len(), LEN);
    }

    #[test]
    fn those_who_wait_stand_in_line_until_they_leave_it() {
        let mut cx = Context::from_waker(Waker::noop());
        let carried = Carried::new(2 * LEN);
        let one = carried.enter(long(1)).ok().unwrap();
        let mut leaves = Box::pin(carried.wait(bytes(2)));
        assert!(leaves.as_mut().poll(&mut cx).is_pending());
        let mut longest = pin!(carried.wait(bytes(2)));
        assert!(longest.as_mut().poll(&mut cx).is_pending());
        // There would be room for it, but that is not its turn.
        assert!(carried.enter(long(1)).is_err());
        drop(leaves);
        drop(one);
        let Poll::Ready(Ok(longest)) = longest.as_mut().poll(&mut cx) else {
            panic!("there is room");
        };
        let mut last = pin!(carried.wait(bytes(1)));
        assert!(last.as_mut().poll(&mut cx).is_pending());
        carried.close();
        assert!(matches!(
            last.as_mut().poll(&mut cx),
            Poll::Ready(Err(AcquireError { .. }))
        ));
        drop(longest);
        assert!(carried.enter(long(1)).is_err());
    }
}
