//! One tokenizer: encoding with or without special tokens, and the table that decoding needs.

use std::sync::Arc;

use tokenizers::tokenizer::{AddedVocabulary, Model, OffsetReferential, OffsetType, PreTokenizer};
use tokenizers::{ModelWrapper, Tokenizer};

use crate::decoder::{DecoderRules, LeadingSpace};
use crate::gguf::{self, GgufVocab};
use crate::guard::{self, Fuse};
use crate::{Failure, Outcome};

/// Ids index tables of this size; the largest published vocabularies have some 300,000 entries.
const MAX_VOCAB: usize = 1 << 22;
/// The memory that a call may use: far above what honest files and texts need, far below what ends a process.
const BASE_BUDGET: usize = 256 << 20;
const BUDGET_PER_FILE_BYTE: usize = 64;
const BUDGET_PER_TEXT_BYTE: usize = 1024;

struct Inner {
    tokenizer: Tokenizer,
    /// The added vocabulary in which special tokens are ordinary text.
    plain: AddedVocabulary,
}

#[derive(Clone)]
pub struct Handle {
    inner: Arc<Inner>,
    fuse: Fuse,
}

pub struct Table {
    pub bytes: Vec<u8>,
    pub byte_ends: Vec<u32>,
    pub texts: Vec<u8>,
    pub text_ends: Vec<u32>,
    pub special: Vec<u8>,
    pub prefix: Vec<u32>,
    pub suffix: Vec<u32>,
    pub leading_space: LeadingSpace,
}

impl Handle {
    pub fn from_json(json: Vec<u8>) -> Outcome<Handle> {
        let budget = BASE_BUDGET.saturating_add(json.len().saturating_mul(BUDGET_PER_FILE_BYTE));
        let fuse = Fuse::default();
        let inner = guard::run(&fuse, budget, move || {
            let tokenizer = Tokenizer::from_bytes(&json).map_err(|e| Failure::file(format!("not a tokenizer.json: {e}")))?;
            Inner::new(tokenizer)
        })?;
        Ok(Handle { inner: Arc::new(inner), fuse })
    }

    pub fn from_gguf(vocab: GgufVocab) -> Outcome<Handle> {
        let size = vocab.tokens.iter().chain(&vocab.merges).map(|s| s.len() + 32).sum::<usize>();
        let budget = BASE_BUDGET.saturating_add(size.saturating_mul(BUDGET_PER_FILE_BYTE));
        let fuse = Fuse::default();
        let inner = guard::run(&fuse, budget, move || Inner::new(gguf::build(&vocab)?))?;
        Ok(Handle { inner: Arc::new(inner), fuse })
    }

    pub fn encode(&self, text: String, parse_special: bool) -> Outcome<Vec<u32>> {
        let budget = BASE_BUDGET.saturating_add(text.len().saturating_mul(BUDGET_PER_TEXT_BYTE));
        let inner = self.inner.clone();
        guard::run(&self.fuse, budget, move || inner.encode(&text, parse_special))
    }

    pub fn token_to_id(&self, token: &str) -> Option<u32> {
        self.inner.tokenizer.token_to_id(token)
    }

    pub fn table(&self) -> Outcome<Table> {
        let inner = self.inner.clone();
        guard::run(&self.fuse, usize::MAX, move || inner.table())
    }
}

impl Inner {
    fn new(mut tokenizer: Tokenizer) -> Outcome<Inner> {
        // Training-time settings: a prompt is never cut, padded or randomised.
        tokenizer.with_padding(None);
        tokenizer.with_truncation(None).map_err(|e| Failure::file(e.to_string()))?;
        if let ModelWrapper::BPE(bpe) = tokenizer.get_model() {
            if bpe.dropout.is_some() {
                let mut bpe = bpe.clone();
                bpe.dropout = None;
                tokenizer.with_model(bpe);
            }
        }
        let mut plain = tokenizer.get_added_vocabulary().clone();
        plain.set_encode_special_tokens(true);
        Ok(Inner { tokenizer, plain })
    }

    fn encode(&self, text: &str, parse_special: bool) -> Outcome<Vec<u32>> {
        let added = if parse_special { self.tokenizer.get_added_vocabulary() } else { &self.plain };
        let refused = |e: tokenizers::Error| Failure::argument(format!("the text cannot be tokenised: {e}"));
        let mut pieces = added.extract_and_normalize(self.tokenizer.get_normalizer(), text);
        if let Some(pre_tokenizer) = self.tokenizer.get_pre_tokenizer() {
            pre_tokenizer.pre_tokenize(&mut pieces).map_err(refused)?;
        }
        pieces.tokenize(|piece| self.tokenizer.get_model().tokenize(piece.get())).map_err(refused)?;
        let splits = pieces.get_splits(OffsetReferential::Normalized, OffsetType::None);
        Ok(splits.iter().filter_map(|(_, _, tokens)| tokens.as_ref()).flatten().map(|token| token.id).collect())
    }

    fn table(&self) -> Outcome<Table> {
        let tokenizer = &self.tokenizer;
        let decoder = serde_json::to_value(tokenizer.get_decoder()).map_err(|e| Failure::file(format!("decoder: {e}")))?;
        let rules = DecoderRules::from_json(&decoder)?;
        let size = tokenizer.get_vocab(true).values().max().map_or(0, |&max| max as usize + 1);
        if size == 0 || size > MAX_VOCAB {
            return Err(Failure::file(format!("the vocabulary has ids up to {size}: expected 1 to {MAX_VOCAB}")));
        }
        let (prefix, suffix) = self.around_a_prompt()?;
        let mut table = Table {
            bytes: Vec::new(),
            byte_ends: Vec::with_capacity(size),
            texts: Vec::new(),
            text_ends: Vec::with_capacity(size),
            special: Vec::with_capacity(size),
            prefix,
            suffix,
            leading_space: rules.leading_space(),
        };
        let added = tokenizer.get_added_vocabulary();
        for id in 0..size as u32 {
            let text = tokenizer.id_to_token(id).unwrap_or_default();
            table.bytes.extend(rules.token_bytes(&text));
            match added.get_added_tokens_decoder().get(&id) {
                Some(token) => table.texts.extend(token.content.as_bytes()),
                None => table.texts.extend(text.as_bytes()),
            }
            table.special.push(added.is_special_token(&text) as u8);
            table.byte_ends.push(end_of(&table.bytes)?);
            table.text_ends.push(end_of(&table.texts)?);
        }
        Ok(table)
    }

    /// What the post-processor writes before and after a text, found by encoding one token.
    fn around_a_prompt(&self) -> Outcome<(Vec<u32>, Vec<u32>)> {
        let refused = |e: tokenizers::Error| Failure::file(format!("post_processor: {e}"));
        let encoding = self.tokenizer.encode_fast("a", true).map_err(refused)?;
        let bare = self.tokenizer.encode_fast("a", false).map_err(refused)?;
        let (ids, mask, inside) = (encoding.get_ids(), encoding.get_special_tokens_mask(), bare.get_ids().len());
        let before = mask.iter().take_while(|&&special| special == 1).count();
        if before + inside > ids.len() {
            return Ok((Vec::new(), Vec::new()));
        }
        Ok((ids[..before].to_vec(), ids[before + inside..].to_vec()))
    }
}

fn end_of(bytes: &[u8]) -> Outcome<u32> {
    u32::try_from(bytes.len()).map_err(|_| Failure::file("the vocabulary's text is larger than 4 GiB"))
}
