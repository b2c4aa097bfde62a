//! A whole process as one state machine.
