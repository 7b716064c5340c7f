//! Text for haast: the `tokenizers` and `minijinja` crates behind the C ABI of `haast_text.h`.
//!
//! Everything that reads bytes from a file or a request runs inside [`guard::run`]: a panic, a stack or a memory
//! explosion inside a crate becomes a [`Failure`], never the end of the process.

mod abi;
mod decoder;
mod gguf;
mod guard;
mod pretokenizer;
mod python;
mod template;
mod tokenizer;

/// The values of `haast_text_status` in `haast_text.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Status {
    Ok = 0,
    InvalidArgument = 1,
    InvalidFile = 2,
    Unsupported = 3,
    Limit = 4,
    Internal = 5,
    Resource = 6,
}

/// Why something was refused: one sentence, no trailing full stop.
#[derive(Clone, Debug)]
pub struct Failure {
    pub status: Status,
    pub message: String,
}

impl Failure {
    pub fn new(status: Status, message: impl Into<String>) -> Self {
        Failure { status, message: message.into() }
    }
    pub fn argument(message: impl Into<String>) -> Self {
        Self::new(Status::InvalidArgument, message)
    }
    pub fn file(message: impl Into<String>) -> Self {
        Self::new(Status::InvalidFile, message)
    }
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(Status::Unsupported, message)
    }
    pub fn limit(message: impl Into<String>) -> Self {
        Self::new(Status::Limit, message)
    }
}

pub type Outcome<T> = Result<T, Failure>;
