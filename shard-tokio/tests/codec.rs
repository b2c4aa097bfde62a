//! Messages whose encoding panics.
#![allow(clippy::std_instead_of_alloc, clippy::std_instead_of_core)]

mod common;

use bytes::{BufMut, BytesMut};
use common::{builder, free_address, within};
use shard_tokio::{
    AskError, CodecError, Context, Entity, EntityType, Message, Node, Payload, Reason, TellError,
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
