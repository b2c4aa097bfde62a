//! The first thing that a reader of the core runs.

use std::process::Command;

#[test]
fn shows_a_message_that_comes_back_and_is_handled_in_order() {
    let output = Command::new(env!("CARGO_BIN_EXE_in_memory"))
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    assert!(text.contains("\"four\" comes back from node 1"), "{text}");
    assert!(
        text.ends_with("handled: one, two, three, four, five, six\n"),
        "{text}"
    );
}
