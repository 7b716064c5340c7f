//! Values as Python writes them: `json.dumps` for the `tojson` filter, `str` for `{{ }}` and `|string`. Chat templates are
//! trained on what transformers' Jinja prints, to the last space.

use std::fmt::Write;

use minijinja::value::{Value, ValueKind};
use minijinja::{Error, ErrorKind, State};

/// Nested deeper, a value is not printed (the messages' JSON is parsed to 128 levels).
const MAX_DEPTH: usize = 200;
/// Bytes that one unit of a template's fuel pays for.
const BYTES_PER_FUEL: usize = 16;

/// Options of `json.dumps`.
#[derive(Clone, Debug)]
pub struct JsonStyle {
    pub ascii: bool,
    pub indent: Option<String>,
    pub item_separator: String,
    pub key_separator: String,
    pub sort_keys: bool,
}

impl Default for JsonStyle {
    fn default() -> Self {
        JsonStyle { ascii: false, indent: None, item_separator: ", ".into(), key_separator: ": ".into(), sort_keys: false }
    }
}

/// A text that the template's fuel pays for as it grows: a small value can print without end (lists that share lists).
struct Writer<'a, 's, 'e> {
    out: String,
    charged: usize,
    state: &'a State<'s, 'e>,
}

impl Writer<'_, '_, '_> {
    fn push(&mut self, text: &str) -> Result<(), Error> {
        self.out.push_str(text);
        if self.out.len() - self.charged >= 64 * BYTES_PER_FUEL {
            self.state.consume_fuel(((self.out.len() - self.charged) / BYTES_PER_FUEL) as u64)?;
            self.charged = self.out.len();
        }
        Ok(())
    }
}

pub fn to_json(state: &State, value: &Value, style: &JsonStyle) -> Result<String, Error> {
    let mut writer = Writer { out: String::new(), charged: 0, state };
    write_json(&mut writer, value, style, 0)?;
    Ok(writer.out)
}

/// Python's `str(value)`; an undefined value is empty, as Jinja prints it.
pub fn to_str(state: &State, value: &Value) -> Result<String, Error> {
    if let Some(text) = value.as_str() {
        return Ok(text.to_owned());
    }
    if value.is_undefined() {
        return Ok(String::new());
    }
    let mut writer = Writer { out: String::new(), charged: 0, state };
    write_repr(&mut writer, value, 0)?;
    Ok(writer.out)
}

fn too_deep(depth: usize) -> Result<(), Error> {
    match depth > MAX_DEPTH {
        true => Err(Error::new(ErrorKind::InvalidOperation, format!("a value is nested deeper than {MAX_DEPTH} levels"))),
        false => Ok(()),
    }
}

fn number(value: &Value) -> String {
    if value.is_integer() {
        return value.to_string();
    }
    f64::try_from(value.clone()).map(float_repr).unwrap_or_else(|_| value.to_string())
}

/// Python's `repr` of a float: the shortest digits, positional between 1e-4 and 1e16.
fn float_repr(x: f64) -> String {
    if !x.is_finite() {
        return if x.is_nan() {
            "nan".into()
        } else if x > 0.0 {
            "inf".into()
        } else {
            "-inf".into()
        };
    }
    let text = format!("{x:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        let text = x.to_string();
        return if text.contains('.') { text } else { text + ".0" };
    }
    format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
}

fn json_string(text: &str, ascii: bool) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if c < ' ' || (ascii && !c.is_ascii()) => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

fn json_scalar(value: &Value, ascii: bool) -> Option<String> {
    Some(match value.kind() {
        ValueKind::None => "null".into(),
        ValueKind::Bool => if value.is_true() { "true" } else { "false" }.into(),
        ValueKind::Number => match number(value) {
            text if text == "nan" => "NaN".into(),
            text => text.replace("inf", "Infinity"),
        },
        ValueKind::String => json_string(value.as_str().unwrap_or_default(), ascii),
        _ => return None,
    })
}

fn write_json(writer: &mut Writer, value: &Value, style: &JsonStyle, depth: usize) -> Result<(), Error> {
    too_deep(depth)?;
    if let Some(text) = json_scalar(value, style.ascii) {
        return writer.push(&text);
    }
    let is_map = match value.kind() {
        ValueKind::Map => true,
        ValueKind::Seq | ValueKind::Iterable => false,
        kind => return Err(Error::new(ErrorKind::InvalidOperation, format!("{kind} is not JSON serializable"))),
    };
    let mut items: Vec<Value> = value.try_iter()?.collect();
    if is_map && style.sort_keys {
        items.sort();
    }
    writer.push(if is_map { "{" } else { "[" })?;
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            writer.push(&style.item_separator)?;
        }
        new_line(writer, style, depth + 1)?;
        if is_map {
            let key = match json_scalar(item, style.ascii) {
                Some(text) if text.starts_with('"') => text,
                Some(text) => format!("\"{text}\""),
                None => return Err(Error::new(ErrorKind::InvalidOperation, "a JSON key must be a scalar")),
            };
            writer.push(&key)?;
            writer.push(&style.key_separator)?;
            write_json(writer, &value.get_item(item)?, style, depth + 1)?;
        } else {
            write_json(writer, item, style, depth + 1)?;
        }
    }
    if !items.is_empty() {
        new_line(writer, style, depth)?;
    }
    writer.push(if is_map { "}" } else { "]" })
}

fn new_line(writer: &mut Writer, style: &JsonStyle, depth: usize) -> Result<(), Error> {
    if let Some(indent) = &style.indent {
        writer.push("\n")?;
        for _ in 0..depth {
            writer.push(indent)?;
        }
    }
    Ok(())
}

fn str_repr(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut out = String::with_capacity(text.len() + 2);
    out.push(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            c if c.is_control() || c == '\u{a0}' || c == '\u{ad}' => {
                let _ = write!(out, "\\x{:02x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push(quote);
    out
}

fn write_repr(writer: &mut Writer, value: &Value, depth: usize) -> Result<(), Error> {
    too_deep(depth)?;
    match value.kind() {
        ValueKind::None => writer.push("None"),
        ValueKind::Undefined => writer.push("Undefined"),
        ValueKind::Bool => writer.push(if value.is_true() { "True" } else { "False" }),
        ValueKind::Number => writer.push(&number(value)),
        ValueKind::String => writer.push(&str_repr(value.as_str().unwrap_or_default())),
        ValueKind::Map => {
            writer.push("{")?;
            for (i, key) in value.try_iter()?.enumerate() {
                writer.push(if i > 0 { ", " } else { "" })?;
                write_repr(writer, &key, depth + 1)?;
                writer.push(": ")?;
                write_repr(writer, &value.get_item(&key)?, depth + 1)?;
            }
            writer.push("}")
        }
        ValueKind::Seq | ValueKind::Iterable => {
            writer.push("[")?;
            for (i, item) in value.try_iter()?.enumerate() {
                writer.push(if i > 0 { ", " } else { "" })?;
                write_repr(writer, &item, depth + 1)?;
            }
            writer.push("]")
        }
        kind => Err(Error::new(ErrorKind::InvalidOperation, format!("a {kind} cannot be printed"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_as_python_prints_them() {
        for (x, text) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (0.1, "0.1"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.5e300, "1.5e+300"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (123456.789, "123456.789"),
            (5e-324, "5e-324"),
        ] {
            assert_eq!(float_repr(x), text);
        }
    }

    #[test]
    fn strings_as_python_prints_them() {
        assert_eq!(str_repr("it's"), "\"it's\"");
        assert_eq!(str_repr("a'b\"c\n\\"), r#"'a\'b"c\n\\'"#);
        assert_eq!(str_repr("\u{7f}é"), "'\\x7fé'");
        assert_eq!(json_string("é\u{1}\"\n😀", false), "\"é\\u0001\\\"\\n😀\"");
        assert_eq!(json_string("é😀", true), "\"\\u00e9\\ud83d\\ude00\"");
    }
}
