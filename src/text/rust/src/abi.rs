//! The functions of `haast_text.h`. Pointers are checked for null, text for UTF-8; everything else is behind them.

use crate::gguf::GgufVocab;
use crate::template::{RenderInput, Template};
use crate::tokenizer::{Handle, Table};
use crate::{guard, Failure, Outcome, Status};

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Slice {
    data: *const u8,
    size: usize,
}

#[repr(C)]
pub struct Bytes {
    data: *mut u8,
    size: usize,
}

#[repr(C)]
pub struct Ids {
    data: *mut u32,
    size: usize,
}

#[repr(C)]
pub struct CTable {
    bytes: Bytes,
    byte_ends: Ids,
    texts: Bytes,
    text_ends: Ids,
    special: Bytes,
    prefix: Ids,
    suffix: Ids,
    leading_space: u32,
}

#[repr(C)]
pub struct CGgufVocab {
    model: Slice,
    pre: Slice,
    token_text: Slice,
    token_ends: *const u64,
    token_count: usize,
    merge_text: Slice,
    merge_ends: *const u64,
    merge_count: usize,
    scores: *const f32,
    types: *const i32,
    unknown_id: i32,
    add_space_prefix: bool,
}

#[repr(C)]
pub struct CRenderInput {
    messages_json: Slice,
    tools_json: Slice,
    variables_json: Slice,
    add_generation_prompt: bool,
    local_seconds: i64,
}

/// # Safety
/// `data` is null, or `count` values lie there and outlive the use of the result.
unsafe fn values<'a, T>(data: *const T, count: usize) -> &'a [T] {
    if data.is_null() || count == 0 {
        return &[];
    }
    unsafe { std::slice::from_raw_parts(data, count) }
}

impl Slice {
    /// # Safety
    /// The slice outlives the use of the result.
    unsafe fn bytes<'a>(self) -> &'a [u8] {
        unsafe { values(self.data, self.size) }
    }
    /// # Safety
    /// As `bytes`.
    unsafe fn text(self, what: &str) -> Outcome<String> {
        let bytes = unsafe { self.bytes() };
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(text.to_owned()),
            Err(e) => Err(Failure::argument(format!("{what}: expected UTF-8, got an ill-formed sequence at byte {}", e.valid_up_to()))),
        }
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Self {
        let size = bytes.len();
        Bytes { data: Box::into_raw(bytes.into_boxed_slice()).cast(), size }
    }
}

impl From<Vec<u32>> for Ids {
    fn from(ids: Vec<u32>) -> Self {
        let size = ids.len();
        Ids { data: Box::into_raw(ids.into_boxed_slice()).cast(), size }
    }
}

impl From<Table> for CTable {
    fn from(table: Table) -> Self {
        CTable {
            bytes: table.bytes.into(),
            byte_ends: table.byte_ends.into(),
            texts: table.texts.into(),
            text_ends: table.text_ends.into(),
            special: table.special.into(),
            prefix: table.prefix.into(),
            suffix: table.suffix.into(),
            leading_space: table.leading_space as u32,
        }
    }
}

/// Hands the value or the error to the caller.
///
/// # Safety
/// `out` and `error` are valid for writes.
unsafe fn deliver<T>(outcome: Outcome<T>, out: *mut T, error: *mut Bytes) -> Status {
    match outcome {
        Ok(value) => {
            unsafe { out.write(value) };
            Status::Ok
        }
        Err(failure) => {
            unsafe { error.write(failure.message.into_bytes().into()) };
            failure.status
        }
    }
}

/// # Safety
/// `bytes` came from this library and was not freed before.
#[no_mangle]
pub unsafe extern "C" fn haast_bytes_free(bytes: Bytes) {
    if !bytes.data.is_null() {
        drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(bytes.data, bytes.size)) });
    }
}

/// # Safety
/// `ids` came from this library and was not freed before.
#[no_mangle]
pub unsafe extern "C" fn haast_ids_free(ids: Ids) {
    if !ids.data.is_null() {
        drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(ids.data, ids.size)) });
    }
}

/// # Safety
/// `table` came from this library and was not freed before.
#[no_mangle]
pub unsafe extern "C" fn haast_table_free(table: CTable) {
    for bytes in [table.bytes, table.texts, table.special] {
        unsafe { haast_bytes_free(bytes) };
    }
    for ids in [table.byte_ends, table.text_ends, table.prefix, table.suffix] {
        unsafe { haast_ids_free(ids) };
    }
}

/// # Safety
/// See `haast_text.h`.
#[no_mangle]
pub unsafe extern "C" fn haast_tokenizer_from_json(json: Slice, out: *mut *mut Handle, error: *mut Bytes) -> Status {
    let outcome = guard::catch(|| Handle::from_json(unsafe { json.bytes() }.to_vec()));
    unsafe { deliver(outcome.map(|handle| Box::into_raw(Box::new(handle))), out, error) }
}

/// # Safety
/// See `haast_text.h`.
#[no_mangle]
pub unsafe extern "C" fn haast_tokenizer_from_gguf(vocab: *const CGgufVocab, out: *mut *mut Handle, error: *mut Bytes) -> Status {
    let outcome = guard::catch(|| Handle::from_gguf(unsafe { own(&*vocab) }?));
    unsafe { deliver(outcome.map(|handle| Box::into_raw(Box::new(handle))), out, error) }
}

/// # Safety
/// The pointers of `vocab` are as `haast_text.h` says.
unsafe fn own(vocab: &CGgufVocab) -> Outcome<GgufVocab> {
    unsafe {
        Ok(GgufVocab {
            model: vocab.model.text("tokenizer.ggml.model")?,
            pre: vocab.pre.text("tokenizer.ggml.pre")?,
            tokens: strings(vocab.token_text, values(vocab.token_ends, vocab.token_count), "tokenizer.ggml.tokens")?,
            merges: strings(vocab.merge_text, values(vocab.merge_ends, vocab.merge_count), "tokenizer.ggml.merges")?,
            scores: values(vocab.scores, vocab.token_count).to_vec(),
            types: values(vocab.types, vocab.token_count).to_vec(),
            unknown_id: vocab.unknown_id,
            add_space_prefix: vocab.add_space_prefix,
        })
    }
}

/// # Safety
/// `text` outlives the call.
unsafe fn strings(text: Slice, ends: &[u64], what: &str) -> Outcome<Vec<String>> {
    let text = unsafe { text.bytes() };
    let mut start = 0;
    let mut list = Vec::with_capacity(ends.len());
    for (i, &end) in ends.iter().enumerate() {
        let bytes = usize::try_from(end).ok().and_then(|end| text.get(start..end));
        let bytes = bytes.ok_or_else(|| Failure::argument(format!("{what}: the end of string {i} lies outside the text")))?;
        let string = std::str::from_utf8(bytes).map_err(|_| Failure::file(format!("{what}[{i}]: expected UTF-8")))?;
        list.push(string.to_owned());
        start = end as usize;
    }
    Ok(list)
}

/// # Safety
/// `tokenizer` is null or a live handle that nobody uses any more.
#[no_mangle]
pub unsafe extern "C" fn haast_tokenizer_free(tokenizer: *mut Handle) {
    if !tokenizer.is_null() {
        drop(unsafe { Box::from_raw(tokenizer) });
    }
}

/// # Safety
/// See `haast_text.h`.
#[no_mangle]
pub unsafe extern "C" fn haast_tokenizer_encode(
    tokenizer: *const Handle,
    text: Slice,
    parse_special: bool,
    out: *mut Ids,
    error: *mut Bytes,
) -> Status {
    let outcome = guard::catch(|| unsafe { (*tokenizer).encode(text.text("text")?, parse_special) });
    unsafe { deliver(outcome.map(Ids::from), out, error) }
}

/// # Safety
/// See `haast_text.h`.
#[no_mangle]
pub unsafe extern "C" fn haast_tokenizer_token_to_id(tokenizer: *const Handle, token: Slice) -> i64 {
    let id = guard::catch(|| unsafe { Ok((*tokenizer).token_to_id(&token.text("token")?)) });
    id.ok().flatten().map_or(-1, i64::from)
}

/// # Safety
/// See `haast_text.h`.
#[no_mangle]
pub unsafe extern "C" fn haast_tokenizer_table(tokenizer: *const Handle, out: *mut CTable, error: *mut Bytes) -> Status {
    let outcome = guard::catch(|| unsafe { (*tokenizer).table() });
    unsafe { deliver(outcome.map(CTable::from), out, error) }
}

/// # Safety
/// See `haast_text.h`.
#[no_mangle]
pub unsafe extern "C" fn haast_template_new(source: Slice, specials_json: Slice, out: *mut *mut Template, error: *mut Bytes) -> Status {
    let outcome = guard::catch(|| unsafe { Template::new(source.text("chat template")?, specials_json.text("special tokens")?) });
    unsafe { deliver(outcome.map(|template| Box::into_raw(Box::new(template))), out, error) }
}

/// # Safety
/// `handle` is null or a live handle that nobody uses any more.
#[no_mangle]
pub unsafe extern "C" fn haast_template_free(handle: *mut Template) {
    if !handle.is_null() {
        drop(unsafe { Box::from_raw(handle) });
    }
}

/// # Safety
/// See `haast_text.h`.
#[no_mangle]
pub unsafe extern "C" fn haast_template_render(
    handle: *const Template,
    input: *const CRenderInput,
    out: *mut Bytes,
    error: *mut Bytes,
) -> Status {
    let outcome = guard::catch(|| unsafe {
        let input = &*input;
        (*handle).render(RenderInput {
            messages_json: input.messages_json.text("messages")?,
            tools_json: input.tools_json.text("tools")?,
            variables_json: input.variables_json.text("template variables")?,
            add_generation_prompt: input.add_generation_prompt,
            local_seconds: input.local_seconds,
        })
    });
    unsafe { deliver(outcome.map(|text| text.into_bytes().into()), out, error) }
}
