//! Messages whose encoding panics, or is long.
#![allow(clippy::std_instead_of_alloc, clippy::std_instead_of_core)]

mod common;

use core::time::Duration;
use std::sync::{Arc, Mutex};

use bytes::{BufMut, BytesMut};
use common::{builder, free_address, within};
use shard_tokio::{
    AskError, CodecError, Context, Entity, EntityType, Message, Node, Payload, Raw, Reason,
    TellError,
};

#[derive(Debug)]
enum Tricky {
    Add(u8),
    /// Panics halfway in `encode`.
    Encode,
    /// Panics in `decode`.
    Decode,
}

impl Message for Tricky {
    fn encode(&self, out: &mut BytesMut) -> Result<(), CodecError> {
        match self {
            Self::Add(n) => out.put_u8(*n),
            Self::Encode => {
                out.put_slice(b"half of it");
                panic!("encode, as told");
            }
            Self::Decode => out.put_u8(u8::MAX),
        }
        Ok(())
    }

    fn decode(payload: Payload<'_>) -> Result<Self, CodecError> {
        match *payload {
            [u8::MAX] => panic!("decode, as told"),
            [n] => Ok(Self::Add(n)),
            _ => Err(CodecError::new("not one byte")),
        }
    }
}

struct Sum(u64);

impl Entity for Sum {
    const TYPE: &'static str = "sum";
    type Message = Tricky;
    type Reply = u64;

    fn create(_id: &str) -> Self {
        Self(0)
    }

    async fn handle(&mut self, message: Tricky, cx: &mut Context<'_, Self>) {
        if let Tricky::Add(n) = message {
            self.0 += u64::from(n);
        }
        cx.reply(self.0);
    }
}

async fn sums(node: &Node, proxy: bool) -> EntityType<Sum> {
    let sums = node.entity_type::<Sum>().shards(8);
    let sums = if proxy { sums.proxy() } else { sums };
    sums.start().await.unwrap()
}

#[tokio::test]
async fn an_encoding_that_panics_costs_its_message_only() {
    within(30, "codec", async {
        let seeds = [free_address()];
        let a = builder("a", &seeds[0], &seeds).start().await.unwrap();
        let here = sums(&a, true).await;
        here.ready().await.unwrap();
        let (mut at_a, one) = (a.undelivered(), here.entity("one"));
        // Their home is not known yet: the driver encodes them.
        one.tell(Tricky::Add(1)).await.unwrap();
        one.tell(Tricky::Encode).await.unwrap();
        let late = one.begin_ask(Tricky::Add(2)).await.unwrap();
        let b = builder("b", &free_address(), &seeds).start().await.unwrap();
        let mut at_b = b.undelivered();
        let _there = sums(&b, false).await;
        assert_eq!(at_a.next().await.unwrap().reason, Reason::Unsendable);
        assert_eq!(late.await, Ok(3));
        // Now the caller does.
        let told = one.tell(Tricky::Encode).await;
        assert!(matches!(told, Err(TellError::Codec(_))), "{told:?}");
        // What the entity has, and what is behind it, stays.
        let bad = one.begin_ask(Tricky::Decode).await.unwrap();
        let behind = one.begin_ask(Tricky::Add(4)).await.unwrap();
        assert_eq!(bad.await, Err(AskError::Refused));
        assert_eq!(behind.await, Ok(7));
        assert_eq!(at_b.next().await.unwrap().reason, Reason::Codec);
    })
    .await;
}

type Encoders = Arc<Mutex<Vec<Option<tokio::task::Id>>>>;

/// Long, and knows who encoded it.
#[derive(Debug, Default)]
struct Vast(Encoders);

impl Message for Vast {
    fn encode(&self, out: &mut BytesMut) -> Result<(), CodecError> {
        self.0.lock().unwrap().push(tokio::task::try_id());
        out.put_bytes(7, 1 << 20);
        Ok(())
    }

    fn decode(payload: Payload<'_>) -> Result<Self, CodecError> {
        assert_eq!(payload.len(), 1 << 20);
        Ok(Self::default())
    }
}

struct Shelf;

impl Entity for Shelf {
    const TYPE: &'static str = "shelf";
    type Message = Vast;
    /// How often it was encoded, as far as the message knows.
    type Reply = usize;

    fn create(_id: &str) -> Self {
        Self
    }

    async fn handle(&mut self, message: Vast, cx: &mut Context<'_, Self>) {
        cx.reply(message.0.lock().unwrap().len());
    }
}

/// The driver has beats to send.
#[tokio::test]
async fn who_sends_a_long_message_encodes_it_though_its_home_is_unknown() {
    within(30, "vast", async {
        let seeds = [free_address()];
        let a = builder("a", &seeds[0], &seeds).start().await.unwrap();
        let here = a.entity_type::<Shelf>().shards(8).proxy().start();
        let one = here.await.unwrap().entity("one");
        let by = Encoders::default();
        let vast = Vast(Arc::clone(&by));
        let asking = tokio::spawn(async move { one.ask_for(vast, Duration::from_secs(20)).await });
        let b = builder("b", &free_address(), &seeds).start().await.unwrap();
        let there = b.entity_type::<Shelf>().shards(8).start();
        let _there = there.await.unwrap();
        let asker = asking.id();
        // It was decoded.
        assert_eq!(asking.await.unwrap().unwrap(), 0);
        assert_eq!(*by.lock().unwrap(), [Some(asker)]);
    })
    .await;
}

#[tokio::test]
async fn what_waited_for_a_home_that_is_here_then_is_handed_over_as_it_is() {
    within(30, "here", async {
        let seeds = [free_address()];
        let a = builder("a", &seeds[0], &seeds).start().await.unwrap();
        let here = a.entity_type::<Shelf>().shards(8).start();
        let one = here.await.unwrap().entity("one");
        let vast = Vast::default();
        // Encoded, because its home might have been elsewhere; and still what was sent.
        assert_eq!(one.ask(vast).await.unwrap(), 1);
    })
    .await;
}

/// Keeps what it gets.
#[derive(Default)]
struct Attic(Vec<Raw>);

impl Entity for Attic {
    const TYPE: &'static str = "attic";
    type Message = Raw;
    type Reply = usize;

    fn create(_id: &str) -> Self {
        Self::default()
    }

    async fn handle(&mut self, message: Raw, cx: &mut Context<'_, Self>) {
        self.0.push(message);
        cx.reply(self.0.len());
    }
}

/// There is room for one at a time; some callers leave while they wait, others before they are answered.
#[tokio::test]
async fn long_messages_that_stand_in_line_all_arrive() {
    const LEN: usize = 150 << 10;
    within(60, "line", async {
        let seeds = [free_address()];
        let node = |name, at: &str| builder(name, at, &seeds).max_message(200 << 10).start();
        let a = node("a", &seeds[0]).await.unwrap();
        let b = node("b", &free_address()).await.unwrap();
        let there = b.entity_type::<Attic>().shards(8).start();
        let _there = there.await.unwrap();
        let attics = a.entity_type::<Attic>().shards(8).proxy().start();
        let attics = attics.await.unwrap();
        let ids: Vec<_> = (0..16).map(|number| format!("attic-{number}")).collect();
        for id in &ids {
            attics.entity(id).ask(&b"first"[..]).await.unwrap();
        }
        let mut asking = tokio::task::JoinSet::new();
        for id in &ids {
            let attic = attics.entity(id);
            asking.spawn(async move {
                for round in 0..4_u64 {
                    let left = attic.ask_for(vec![7; LEN], Duration::from_micros(200 * round));
                    let _ = tokio::time::timeout(Duration::from_micros(100 * round), left).await;
                    let long = attic.ask_for(vec![7; LEN], Duration::from_secs(40));
                    long.await.unwrap();
                }
            });
        }
        while let Some(done) = asking.join_next().await {
            done.unwrap();
        }
    })
    .await;
}
