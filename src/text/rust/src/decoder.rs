//! What bytes one token contributes to a text, read off a tokenizer.json decoder.
//!
//! A decoder is accepted when the text of a token run is the concatenation of per-token bytes, up to spaces at its start.
//! Then a stream of tokens has a text at every point, and grammars and stop strings can work on bytes.

use serde_json::Value;

use crate::{Failure, Outcome};

/// The values of `haast_table.leading_space`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum LeadingSpace {
    Keep = 0,
    /// The fused text loses one space at its start.
    DropOne = 1,
    /// The first token loses every space that it writes.
    DropAllOfFirstToken = 2,
}

#[derive(Debug, Default)]
pub struct DecoderRules {
    byte_level: bool,
    byte_fallback: bool,
    /// Applied in order, before byte fallback.
    replacements: Vec<(String, String)>,
    leading: Option<LeadingSpace>,
    fused: bool,
}

impl DecoderRules {
    /// `decoder`: the serialised decoder, null when there is none.
    pub fn from_json(decoder: &Value) -> Outcome<Self> {
        let mut rules = DecoderRules::default();
        let one = std::slice::from_ref(decoder);
        let steps = match decoder["type"].as_str() {
            Some("Sequence") => decoder["decoders"].as_array().map(Vec::as_slice).unwrap_or_default(),
            _ => one,
        };
        for step in steps {
            rules.add(step)?;
        }
        Ok(rules)
    }

    fn add(&mut self, step: &Value) -> Outcome<()> {
        let kind = step["type"].as_str().unwrap_or("none");
        match kind {
            "ByteLevel" if !self.byte_fallback && self.replacements.is_empty() => self.byte_level = true,
            "ByteFallback" if !self.byte_level && !self.fused => self.byte_fallback = true,
            "Fuse" => self.fused = true,
            "Replace" if !self.byte_level && !self.byte_fallback && !self.fused => {
                let (Some(pattern), Some(content)) = (step["pattern"]["String"].as_str(), step["content"].as_str()) else {
                    return Err(refused("Replace with a regular expression"));
                };
                self.replacements.push((pattern.into(), content.into()));
            }
            "Strip" if self.fused && self.leading.is_none() => {
                if (&step["content"], &step["start"], &step["stop"]) != (&" ".into(), &1.into(), &0.into()) {
                    return Err(refused("Strip of anything but one space at the start"));
                }
                self.leading = Some(LeadingSpace::DropOne);
            }
            "Metaspace" if !self.byte_level && !self.byte_fallback && !self.fused && self.leading.is_none() => {
                self.replacements.push((step["replacement"].as_str().unwrap_or("\u{2581}").into(), " ".into()));
                if step["prepend_scheme"].as_str() != Some("never") {
                    self.leading = Some(LeadingSpace::DropAllOfFirstToken);
                }
            }
            other => return Err(refused(other)),
        }
        Ok(())
    }

    pub fn leading_space(&self) -> LeadingSpace {
        self.leading.unwrap_or(LeadingSpace::Keep)
    }

    /// The bytes of a token that the vocabulary spells `token`.
    pub fn token_bytes(&self, token: &str) -> Vec<u8> {
        if self.byte_level {
            // A token with a character outside the byte alphabet (an added token) stands for its own text.
            return token.chars().map(byte_of).collect::<Option<Vec<u8>>>().unwrap_or_else(|| token.as_bytes().to_vec());
        }
        let mut text = token.to_string();
        for (pattern, content) in self.replacements.iter().filter(|(pattern, _)| !pattern.is_empty()) {
            text = text.replace(pattern, content);
        }
        match fallback_byte(&text) {
            Some(byte) if self.byte_fallback => vec![byte],
            _ => text.into_bytes(),
        }
    }
}

fn refused(what: &str) -> Failure {
    Failure::unsupported(format!(
        "the decoder step \"{}\" at this place is not supported: expected ByteLevel, Metaspace, or a sequence of Replace, \
         ByteFallback, Fuse and Strip, under which every token has bytes of its own",
        what.escape_debug()
    ))
}

/// `<0x0A>` is the byte 10.
pub fn fallback_byte(token: &str) -> Option<u8> {
    let digits = token.strip_prefix("<0x")?.strip_suffix('>')?;
    if digits.len() != 2 || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    u8::from_str_radix(digits, 16).ok()
}

/// The inverse of GPT-2's byte alphabet: printable Latin-1 stands for itself, the other bytes for U+0100 and up in order.
pub fn byte_of(c: char) -> Option<u8> {
    match c as u32 {
        code @ (0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff) => Some(code as u8),
        code @ 0x100..=0x120 => Some((code - 0x100) as u8),
        code @ 0x121..=0x142 => Some((code - 0x121 + 0x7f) as u8),
        0x143 => Some(0xad),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use tokenizers::pre_tokenizers::byte_level::ByteLevel;
    use tokenizers::{Decoder, DecoderWrapper};

    #[test]
    fn the_byte_alphabet_is_a_bijection_onto_the_bytes() {
        let mut bytes: Vec<u8> = ByteLevel::alphabet().into_iter().map(|c| byte_of(c).unwrap()).collect();
        bytes.sort();
        assert_eq!(bytes, (0..=255).collect::<Vec<u8>>());
        assert_eq!((byte_of('Ġ'), byte_of('Ċ'), byte_of('a')), (Some(b' '), Some(b'\n'), Some(b'a')));
        assert_eq!((byte_of(' '), byte_of('Ń'), byte_of('ń'), byte_of('｜')), (None, Some(0xad), None, None));
    }

    #[test]
    fn agrees_with_the_crate_on_valid_text() {
        let decoders = [
            json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true}),
            json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true}),
            json!({"type": "Sequence", "decoders": [
                {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
                {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}),
        ];
        let runs: [&[&str]; 5] = [
            &["▁Hello", "▁world", "!"],
            &["▁▁a", "▁b"],
            &["a", "<0xE6>", "<0x97>", "<0xA5>", "▁x"],
            &["ĠHello", "Ã", "©", "<｜end▁of▁text｜>", "Ċ"],
            &[],
        ];
        for decoder in decoders {
            let rules = DecoderRules::from_json(&decoder).unwrap();
            let real: DecoderWrapper = serde_json::from_value(decoder.clone()).unwrap();
            for run in runs {
                let mut bytes = Vec::new();
                for (i, token) in run.iter().enumerate() {
                    let token = rules.token_bytes(token);
                    match rules.leading_space() {
                        LeadingSpace::DropOne if i == 0 => bytes.extend(token.strip_prefix(b" ").unwrap_or(&token)),
                        LeadingSpace::DropAllOfFirstToken if i == 0 => bytes.extend(token.iter().filter(|b| **b != b' ')),
                        _ => bytes.extend(token),
                    }
                }
                let expected = real.decode(run.iter().map(|t| t.to_string()).collect()).unwrap();
                assert_eq!(String::from_utf8_lossy(&bytes), expected, "{decoder} {run:?}");
            }
        }
    }

    #[test]
    fn refuses_what_has_no_bytes_of_its_own() {
        for decoder in [
            Value::Null,
            json!({"type": "WordPiece", "prefix": "##", "cleanup": true}),
            json!({"type": "BPEDecoder", "suffix": "</w>"}),
            json!({"type": "Sequence", "decoders": [{"type": "Fuse"}, {"type": "ByteFallback"}]}),
            json!({"type": "Sequence", "decoders": [{"type": "Strip", "content": " ", "start": 1, "stop": 0}]}),
            json!({"type": "Sequence", "decoders": [{"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 2, "stop": 0}]}),
            json!({"type": "Replace", "pattern": {"Regex": "a"}, "content": "b"}),
        ] {
            let failure = DecoderRules::from_json(&decoder).unwrap_err();
            assert_eq!(failure.status, crate::Status::Unsupported, "{decoder}");
        }
    }
}
