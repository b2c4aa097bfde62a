//! Messages whose `Drop` panics.

use core::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use bytes::BytesMut;
use shard_tokio::{AskError, CodecError, Context, Entity, Message, Node, Payload};

use crate::common::{log::log, within};

/// Panics when it is dropped, unless it was handled.
struct Bomb {
    fuse: Arc<AtomicU32>,
    /// Fails the entity.
    fails: bool,
    live: bool,
}

impl Drop for Bomb {
    fn drop(&mut self) {
        if self.live {
            self.fuse.fetch_add(1, SeqCst);
            panic!("dropped");
        }
    }
}

impl Message for Bomb {
    fn encode(&self, _: &mut BytesMut) -> Result<(), CodecError> {
        Ok(())
    }

    fn decode(_: Payload<'_>) -> Result<Self, CodecError> {
        Err(CodecError::new("it never leaves the node"))
    }
}

struct Squad;

impl Entity for Squad {
    const TYPE: &'static str = "squad";
    type Message = Bomb;
    type Reply = u64;

    fn create(_: &str) -> Self {
        Self
    }

    async fn handle(&mut self, mut bomb: Bomb, cx: &mut Context<'_, Self>) {
        let fails = mem::take(&mut bomb.fails);
        bomb.live = false;
        if fails {
            cx.fail("as told");
        } else {
            cx.reply(1);
        }
    }
}

/// The driver drops what it refuses: that is the application's code, and must not end the node.
#[tokio::test]
async fn a_message_whose_drop_panics_does_not_end_the_node() {
    within(30, "drops", async {
        let (log, _guard) = log();
        let node = Node::standalone().await.unwrap();
        let squad = node.entity_type::<Squad>().shards(1);
        let squad = squad.restarts(0, Duration::from_secs(600));
        let squad = squad.start().await.unwrap();
        let fuse = Arc::new(AtomicU32::new(0));
        let bomb = |fails| Bomb {
            fuse: Arc::clone(&fuse),
            fails,
            live: true,
        };
        let one = squad.entity("one");
        assert_eq!(one.ask(bomb(true)).await, Err(AskError::EntityFailed));
        // Parked: each is refused in the driver, and dropped there.
        one.tell(bomb(false)).await.unwrap();
        assert_eq!(one.ask(bomb(false)).await, Err(AskError::EntityFailed));
        assert_eq!(fuse.load(SeqCst), 2);
        log.line(&["ERROR", "Bomb", "panicked while it was dropped"])
            .await;
        assert_eq!(squad.entity("two").ask(bomb(false)).await, Ok(1));
        node.shutdown().await;
    })
    .await;
}
