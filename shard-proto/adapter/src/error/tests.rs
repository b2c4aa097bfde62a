use super::*;
use crate::report::Reason;

fn codec() -> CodecError {
    CodecError::new("no")
}

/// A new variant has to be put into one of the tables: the matches in `delivery` do not compile without.
#[test]
fn every_ask_error_says_whether_the_message_was_delivered() {
    let (size, limit) = (2, 1);
    let table = [
        (AskError::Timeout, Delivery::Maybe),
        (AskError::NoReply, Delivery::Yes),
        (AskError::EntityFailed, Delivery::Maybe),
        (AskError::Refused, Delivery::No),
        (AskError::PerhapsDelivered, Delivery::Maybe),
        (AskError::BufferFull, Delivery::No),
        (AskError::TooManyAsks, Delivery::No),
        (AskError::Stopped, Delivery::Maybe),
        (AskError::TooLarge { size, limit }, Delivery::No),
        (AskError::Codec(codec()), Delivery::No),
        (AskError::Answer(codec()), Delivery::Yes),
        (
            AskError::Undelivered(RejectReason::PathGivenUp),
            Delivery::No,
        ),
        (
            AskError::Undelivered(RejectReason::OriginEnded),
            Delivery::No,
        ),
        (
            AskError::Undelivered(RejectReason::Unsendable),
            Delivery::No,
        ),
        (
            AskError::Undelivered(RejectReason::PerhapsDelivered),
            Delivery::Maybe,
        ),
    ];
    for (error, expected) in table {
        assert_eq!(error.delivery(), expected, "{error:?}");
    }
}

/// What a tell says, the ask made of it says too, or less: never more than is known.
#[test]
fn a_message_that_was_not_taken_was_surely_not_delivered() {
    let (size, limit) = (2, 1);
    for error in [
        TellError::BufferFull(()),
        TellError::Busy(()),
        TellError::Stopped(()),
        TellError::TooLarge { size, limit },
        TellError::Codec(codec()),
    ] {
        assert_eq!(error.delivery(), Delivery::No, "{error:?}");
        assert_ne!(AskError::from(error).delivery(), Delivery::Yes);
    }
}

#[test]
fn every_reason_says_whether_the_message_was_delivered() {
    let maybe = [
        Reason::PerhapsDelivered,
        Reason::Panicked,
        Reason::Failed,
        Reason::Aborted,
        Reason::Other,
    ];
    for reason in Reason::ALL {
        let expected = if maybe.contains(reason) {
            Delivery::Maybe
        } else {
            Delivery::No
        };
        assert_eq!(reason.delivery(), expected, "{reason:?}");
    }
}
