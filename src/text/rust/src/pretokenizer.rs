//! Pre-tokenizers by the name that GGUF files give them (`tokenizer.ggml.pre`).
//!
//! The patterns are those of the models' own tokenizer.json files; which name stands for which pattern, and which
//! vocabularies ignore merges, are facts of llama.cpp's vocabulary loader.

use tokenizers::normalizers::unicode::NFC;
use tokenizers::normalizers::NormalizerWrapper;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::SplitDelimiterBehavior;

use crate::{Failure, Outcome};

/// How a byte-level vocabulary cuts a text into words.
pub struct ByteLevelRules {
    pub normalizer: Option<NormalizerWrapper>,
    pub pre_tokenizer: PreTokenizerWrapper,
    /// A word that is itself a token is not built by merges.
    pub ignore_merges: bool,
}

/// One step of a cut, applied to the pieces of the step before.
enum Step {
    /// Matches of the pattern become pieces of their own.
    Split(&'static str),
    /// Every digit (any numeric character) becomes a piece.
    EachDigit,
    /// GPT-2's own pattern.
    Gpt2,
}
use Step::{EachDigit, Gpt2, Split as Cut};

const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN35: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const TEKKEN: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const GPT4O: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const SEED_CODER: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+";
const BAILING: &str = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+";
const BLOOM: &str = r" ?[^(\s|.,!?…。，、।۔،)]+";
const DEEPSEEK_LETTERS: &str = r"\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+";
const DEEPSEEK_V3: &str = r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##;

fn steps(name: &str) -> Option<(&'static [Step], bool)> {
    Some(match name {
        // Files without a name were made before names existed.
        "" | "default" => (&[Cut(r"[\p{P}\$\+<=>\^~\|]+"), Gpt2, Cut(r"\p{N}+"), Cut("[0-9][0-9][0-9]")], false),
        "gpt-2" | "gpt2" | "phi-2" | "mpt" | "olmo" | "jais" | "trillion" | "granite-docling" | "gigachat" | "a.x-4.0" | "mellum"
        | "exaone4" => (&[Gpt2], false),
        "smollm" | "starcoder" | "refact" | "command-r" | "codeshell" | "exaone" | "minerva-7b" | "mellum2" => (&[EachDigit, Gpt2], false),
        "llama-bpe" | "llama3" | "llama-v3" | "falcon3" | "falcon-h1" | "pixtral" | "midm-2.0" | "lfm2" => (&[Cut(LLAMA3)], true),
        "dbrx" | "smaug-bpe" | "glm4" | "chatglm-bpe" => (&[Cut(LLAMA3)], false),
        "qwen2" | "deepseek-r1-qwen" | "kormo" | "megrez" | "stablelm2" | "hunyuan" | "solar-open" | "grok-2" => (&[Cut(QWEN2)], false),
        "qwen35" => (&[Cut(QWEN35)], false),
        "tekken" => (&[Cut(TEKKEN)], true),
        "gpt-4o" | "llama4" | "kanana2" | "minimax-m2" => (&[Cut(GPT4O)], false),
        "deepseek-llm" => (
            &[
                Cut("[\r\n]"),
                Cut(DEEPSEEK_LETTERS),
                Cut(r"\s?[!-/:-~！-／：-～‘-‟　-。]+"),
                Cut(r"\s+$"),
                Cut("[一-龥ࠀ-一가-퟿]+"),
                Cut(r"\p{N}+"),
            ],
            false,
        ),
        "deepseek-coder" => (&[Cut("[\r\n]"), Cut(r"\s?\p{L}+"), Cut(r"\s?\p{P}+"), Cut("[一-龥ࠀ-一가-퟿]+"), EachDigit], false),
        "deepseek-v3" | "hunyuan-dense" | "joyai-llm" => (&[Cut(r"\p{N}{1,3}"), Cut("[一-龥぀-ゟ゠-ヿ]+"), Cut(DEEPSEEK_V3)], false),
        "falcon" => (&[Cut(r"[\p{P}\$\+<=>\^~\|`]+"), Gpt2, Cut("[0-9][0-9][0-9]")], false),
        "seed-coder" => (&[Cut(SEED_CODER)], false),
        "bailingmoe" | "bailingmoe2" | "llada-moe" => (&[Cut(BAILING)], false),
        "bloom" | "poro-chat" | "gpt3-finnish" => (&[Cut(BLOOM)], false),
        "viking" => (&[Cut(BLOOM), EachDigit], false),
        _ => return None,
    })
}

/// The rules of the pre-tokenizer `name`; unknown names are refused, for a guess would give other ids.
pub fn by_name(name: &str) -> Outcome<ByteLevelRules> {
    let Some((steps, ignore_merges)) = steps(name) else {
        return Err(Failure::unsupported(format!(
            "the pre-tokenizer \"{}\" is not known (known: smollm, gpt-2, llama-bpe, qwen2, tekken, gpt-4o, deepseek-llm, \
             deepseek-coder, deepseek-v3, falcon, default and others of their families); use the model's tokenizer.json instead",
            name.escape_debug()
        )));
    };
    let mut sequence: Vec<PreTokenizerWrapper> = Vec::new();
    for step in steps {
        sequence.push(match step {
            Cut(pattern) => split(pattern)?,
            Gpt2 => split(GPT2)?,
            EachDigit => Digits::new(true).into(),
        });
    }
    sequence.push(ByteLevel::new(false, true, false).into());
    let composed = matches!(name, "qwen2" | "qwen35" | "command-r" | "mpt" | "olmo");
    Ok(ByteLevelRules { normalizer: composed.then(|| NFC.into()), pre_tokenizer: Sequence::new(sequence).into(), ignore_merges })
}

fn split(pattern: &str) -> Outcome<PreTokenizerWrapper> {
    Split::new(SplitPattern::Regex(pattern.to_string()), SplitDelimiterBehavior::Isolated, false)
        .map(Into::into)
        .map_err(|e| Failure::file(format!("pre-tokenizer pattern: {e}")))
}
