#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| shard_proto::fuzzing::balance_ops(bytes));
