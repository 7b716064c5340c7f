//! A GGUF vocabulary as the `tokenizers` types that its tokenizer.json would give.

use ahash::AHashMap;
use tokenizers::decoders::byte_fallback::ByteFallback;
use tokenizers::decoders::fuse::Fuse;
use tokenizers::decoders::sequence::Sequence as DecoderSequence;
use tokenizers::decoders::strip::Strip;
use tokenizers::models::bpe::BPE;
use tokenizers::normalizers::prepend::Prepend;
use tokenizers::normalizers::replace::Replace;
use tokenizers::normalizers::utils::Sequence as NormalizerSequence;
use tokenizers::normalizers::NormalizerWrapper;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::{AddedToken, DecoderWrapper, Tokenizer};

use crate::{pretokenizer, Failure, Outcome};

const SPACE: char = '\u{2581}';
/// Longer pieces take no part in SentencePiece merges: none is trained that long, and the merges of a piece cost the square
/// of its length.
const MAX_MERGED_PIECE: usize = 512;

/// `tokenizer.ggml.*`, owned.
#[derive(Debug, Default)]
pub struct GgufVocab {
    pub model: String,
    pub pre: String,
    pub tokens: Vec<String>,
    pub merges: Vec<String>,
    pub scores: Vec<f32>,
    pub types: Vec<i32>,
    pub unknown_id: i32,
    pub add_space_prefix: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Normal,
    Special,
    UserDefined,
}

impl GgufVocab {
    fn kind(&self, id: usize) -> Kind {
        match self.types.get(id) {
            Some(2 | 3) => Kind::Special,
            Some(4) => Kind::UserDefined,
            _ => Kind::Normal,
        }
    }

    fn ids(&self) -> Outcome<AHashMap<String, u32>> {
        let mut ids = AHashMap::with_capacity(self.tokens.len());
        for (id, token) in self.tokens.iter().enumerate() {
            // Files pad their vocabulary with empty entries; no text may reach them.
            let token = if token.is_empty() { format!("[EMPTY_{id}]") } else { token.clone() };
            if let Some(first) = ids.insert(token, id as u32) {
                return Err(Failure::file(format!(
                    "tokenizer.ggml.tokens: expected every token once, got \"{}\" at {first} and {id}",
                    self.tokens[id].escape_debug()
                )));
            }
        }
        Ok(ids)
    }

    fn added(&self, kind: Kind) -> Vec<AddedToken> {
        (0..self.tokens.len())
            .filter(|&id| self.kind(id) == kind && !self.tokens[id].is_empty())
            .map(|id| AddedToken::from(self.tokens[id].clone(), kind == Kind::Special).normalized(false))
            .collect()
    }
}

pub fn build(vocab: &GgufVocab) -> Outcome<Tokenizer> {
    if vocab.tokens.is_empty() {
        return Err(Failure::file("tokenizer.ggml.tokens: expected a list of tokens, got none"));
    }
    match vocab.model.as_str() {
        "gpt2" => byte_level(vocab),
        "llama" => sentence_piece(vocab),
        other => {
            Err(Failure::unsupported(format!("tokenizer.ggml.model: expected \"gpt2\" or \"llama\", got \"{}\"", other.escape_debug())))
        }
    }
}

fn byte_level(vocab: &GgufVocab) -> Outcome<Tokenizer> {
    let rules = pretokenizer::by_name(&vocab.pre)?;
    let mut merges = Vec::with_capacity(vocab.merges.len());
    for (rank, merge) in vocab.merges.iter().enumerate() {
        // The first character is never the separator: it may itself be a space.
        let start = merge.chars().next().map_or(0, char::len_utf8);
        match merge[start..].find(' ') {
            Some(at) => merges.push((merge[..start + at].to_string(), merge[start + at + 1..].to_string())),
            None => {
                return Err(Failure::file(format!(
                    "tokenizer.ggml.merges[{rank}]: expected two tokens and a space between them, got \"{}\"",
                    merge.escape_debug()
                )))
            }
        }
    }
    let model = BPE::builder().vocab_and_merges(vocab.ids()?, merges).ignore_merges(rules.ignore_merges).build();
    let mut tokenizer = Tokenizer::new(model.map_err(|e| Failure::file(format!("tokenizer.ggml.merges: {e}")))?);
    tokenizer.with_normalizer(rules.normalizer).map_err(|e| Failure::file(e.to_string()))?;
    tokenizer.with_pre_tokenizer(Some(rules.pre_tokenizer));
    tokenizer.with_decoder(Some(ByteLevel::default()));
    add_tokens(&mut tokenizer, vocab)?;
    Ok(tokenizer)
}

fn sentence_piece(vocab: &GgufVocab) -> Outcome<Tokenizer> {
    if vocab.scores.len() != vocab.tokens.len() {
        return Err(Failure::file(format!(
            "tokenizer.ggml.scores: expected {} (one a token), got {}",
            vocab.tokens.len(),
            vocab.scores.len()
        )));
    }
    let mut model = BPE::builder().vocab_and_merges(vocab.ids()?, sentence_piece_merges(vocab)).byte_fallback(true).fuse_unk(true);
    if let Some(unknown) = usize::try_from(vocab.unknown_id).ok().and_then(|id| vocab.tokens.get(id)) {
        model = model.unk_token(unknown.clone());
    }
    let model = model.build().map_err(|e| Failure::file(format!("tokenizer.ggml.tokens: {e}")))?;
    let mut tokenizer = Tokenizer::new(model);

    let space = Replace::new(" ", SPACE.to_string()).map_err(|e| Failure::file(e.to_string()))?;
    let mut normalizers: Vec<NormalizerWrapper> = Vec::new();
    let unspace = Replace::new(SPACE.to_string(), " ").map_err(|e| Failure::file(e.to_string()))?;
    let mut decoders: Vec<DecoderWrapper> = vec![unspace.into(), ByteFallback::new().into(), Fuse::new().into()];
    if vocab.add_space_prefix {
        normalizers.push(Prepend::new(SPACE.to_string()).into());
        decoders.push(Strip::new(' ', 1, 0).into());
    }
    normalizers.push(space.into());
    tokenizer.with_normalizer(Some(NormalizerSequence::new(normalizers))).map_err(|e| Failure::file(e.to_string()))?;
    tokenizer.with_decoder(Some(DecoderSequence::new(decoders)));
    add_tokens(&mut tokenizer, vocab)?;
    Ok(tokenizer)
}

fn add_tokens(tokenizer: &mut Tokenizer, vocab: &GgufVocab) -> Outcome<()> {
    let refused = |e: tokenizers::Error| Failure::file(format!("special tokens: {e}"));
    tokenizer.add_special_tokens(vocab.added(Kind::Special)).map_err(refused)?;
    // Pieces of nothing but spaces are reached by merges, on text in which spaces are already U+2581.
    let user_defined = vocab.added(Kind::UserDefined).into_iter().filter(|t| !t.content.chars().all(|c| c == SPACE || c == ' '));
    tokenizer.add_tokens(user_defined).map_err(refused)?;
    Ok(())
}

/// SentencePiece keeps scores, not merges: every way to make a piece of two pieces is a merge, the best piece first. The
/// order is that of Hugging Face's converter, which decides ties.
fn sentence_piece_merges(vocab: &GgufVocab) -> Vec<(String, String)> {
    let mergeable = |id: usize| vocab.kind(id) != Kind::Special && vocab.tokens[id].len() <= MAX_MERGED_PIECE;
    let ids: AHashMap<&str, usize> =
        vocab.tokens.iter().enumerate().filter(|(id, _)| mergeable(*id)).map(|(id, token)| (token.as_str(), id)).collect();
    struct Merge {
        piece: usize,
        left: usize,
        right: usize,
        left_chars: usize,
    }
    let mut merges = Vec::new();
    for (id, token) in vocab.tokens.iter().enumerate().filter(|(id, _)| mergeable(*id)) {
        let mut local = Vec::new();
        for (left_chars, (at, _)) in token.char_indices().enumerate().skip(1) {
            if let (Some(&left), Some(&right)) = (ids.get(&token[..at]), ids.get(&token[at..])) {
                local.push(Merge { piece: id, left, right, left_chars });
            }
        }
        local.sort_by_key(|m| (m.left, m.right));
        merges.extend(local);
    }
    let right_chars = |m: &Merge| vocab.tokens[m.right].chars().count();
    // A stable sort that keeps the order of equals, as Python's sorted(reverse=True) does.
    merges.sort_by(|a, b| {
        vocab.scores[b.piece]
            .total_cmp(&vocab.scores[a.piece])
            .then(b.left_chars.cmp(&a.left_chars))
            .then_with(|| right_chars(b).cmp(&right_chars(a)))
    });
    merges.iter().map(|m| (vocab.tokens[m.left].clone(), vocab.tokens[m.right].clone())).collect()
}
