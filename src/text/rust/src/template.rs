//! Chat templates with the semantics of transformers' `apply_chat_template`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Serde, Value};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, State};

use crate::guard::{self, Fuse};
use crate::python::{self, JsonStyle};
use crate::{Failure, Outcome};

const NAME: &str = "chat template";
const MAX_SOURCE: usize = 4 << 20;
const MAX_INPUT: usize = 64 << 20;
/// Steps of a rendering (an instruction is one, as are 64 bytes of data): a thousand messages need some hundred thousand.
const BASE_FUEL: u64 = 1_000_000;
const FUEL_PER_INPUT_BYTE: u64 = 1;
const MAX_RECURSION: usize = 200;
const BASE_BUDGET: usize = 256 << 20;
const BUDGET_PER_INPUT_BYTE: usize = 256;

pub struct Template {
    inner: Arc<Inner>,
    fuse: Fuse,
}

struct Inner {
    environment: Environment<'static>,
    specials: BTreeMap<String, Value>,
}

pub struct RenderInput {
    pub messages_json: String,
    pub tools_json: String,
    pub variables_json: String,
    pub add_generation_prompt: bool,
    pub local_seconds: i64,
}

impl Template {
    pub fn new(source: String, specials_json: String) -> Outcome<Template> {
        if source.len() > MAX_SOURCE {
            return Err(Failure::file(format!("the template has {} bytes; expected at most {MAX_SOURCE}", source.len())));
        }
        let budget = BASE_BUDGET + source.len() * 4096;
        let fuse = Fuse::default();
        let inner = guard::run(&fuse, budget, move || {
            let specials = object(&specials_json, "special tokens")?;
            let environment = environment(&source).map_err(|e| Failure::file(describe(&e)))?;
            Ok(Inner { environment, specials })
        })?;
        Ok(Template { inner: Arc::new(inner), fuse })
    }

    pub fn render(&self, input: RenderInput) -> Outcome<String> {
        let size = input.messages_json.len() + input.tools_json.len() + input.variables_json.len();
        if size > MAX_INPUT {
            return Err(Failure::argument(format!("the messages have {size} bytes of JSON; expected at most {MAX_INPUT}")));
        }
        let budget = BASE_BUDGET + size * BUDGET_PER_INPUT_BYTE;
        let inner = self.inner.clone();
        guard::run(&self.fuse, budget, move || inner.render(&input, size))
    }
}

impl Inner {
    fn render(&self, input: &RenderInput, size: usize) -> Outcome<String> {
        let mut context = self.specials.clone();
        context.extend(object(&input.variables_json, "template variables")?);
        context.insert("messages".into(), messages(&input.messages_json)?);
        let tools = if input.tools_json.is_empty() { Value::from(()) } else { Serde(array(&input.tools_json, "tools")?).into() };
        context.insert("tools".into(), tools);
        context.entry("documents".into()).or_insert(Value::from(()));
        context.insert("add_generation_prompt".into(), input.add_generation_prompt.into());
        let now = input.local_seconds;
        context.insert("strftime_now".into(), Value::from_function(move |format: &str| strftime(now, format)));

        let mut environment = self.environment.clone();
        environment.set_fuel(Some(BASE_FUEL + size as u64 * FUEL_PER_INPUT_BYTE));
        let rendered = environment.get_template(NAME).and_then(|template| template.render(Value::from(context)));
        rendered.map_err(|error| refusal(&error))
    }
}

fn environment(source: &str) -> Result<Environment<'static>, Error> {
    let mut environment = Environment::new();
    environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.set_recursion_limit(MAX_RECURSION);
    environment.set_debug(false);
    environment.set_formatter(|out, state, value| match value.as_str() {
        Some(text) => out.write_str(text).map_err(Error::from),
        None => out.write_str(&python::to_str(state, value)?).map_err(Error::from),
    });
    environment.remove_global("debug");
    environment.add_function("raise_exception", |message: String| -> Result<Value, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, message).with_source(Raised))
    });
    environment.add_filter("tojson", tojson);
    environment.add_filter("string", |state: &State, value: &Value| python::to_str(state, value));
    environment.add_template_owned(NAME, without_generation_blocks(source))?;
    Ok(environment)
}

/// `tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False)`, as transformers defines it.
fn tojson(state: &State, value: &Value, ensure_ascii: Option<bool>, options: Kwargs) -> Result<Value, Error> {
    let mut style = JsonStyle { ascii: ensure_ascii.unwrap_or(false), ..JsonStyle::default() };
    if let Some(ascii) = options.get::<Option<bool>>("ensure_ascii")? {
        style.ascii = ascii;
    }
    style.sort_keys = options.get::<Option<bool>>("sort_keys")?.unwrap_or(false);
    if let Some(indent) = options.get::<Option<Value>>("indent")?.filter(|v| !v.is_none()) {
        style.item_separator = ",".into();
        style.indent = Some(match indent.as_str() {
            Some(text) => text.to_owned(),
            None => " ".repeat(usize::try_from(indent)?.min(32)),
        });
    }
    if let Some(separators) = options.get::<Option<Vec<String>>>("separators")? {
        if let [item, key] = separators.as_slice() {
            (style.item_separator, style.key_separator) = (item.clone(), key.clone());
        }
    }
    options.assert_all_used()?;
    python::to_json(state, value, &style).map(Value::from)
}

fn strftime(local_seconds: i64, format: &str) -> Result<String, Error> {
    let refused = |what: &str| Error::new(ErrorKind::InvalidOperation, format!("strftime_now: {what}"));
    let time = chrono::DateTime::from_timestamp(local_seconds, 0).ok_or_else(|| refused("the time is out of range"))?;
    let mut text = String::new();
    // An unknown directive makes Display fail; to_string would panic.
    write!(text, "{}", time.naive_utc().format(format)).map_err(|_| refused("unknown directive in the format"))?;
    Ok(text)
}

/// transformers marks the assistant's words with `{% generation %}` blocks, for training. They render as their content, in a
/// scope of their own.
fn without_generation_blocks(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(start) = rest.find("{%") {
        let Some(length) = rest[start..].find("%}") else { break };
        let tag = &rest[start..start + length];
        let word = tag[2..].trim_matches(|c: char| c.is_whitespace() || c == '-' || c == '+');
        out.push_str(&rest[..start]);
        match word {
            "generation" => out.push_str(&tag.replace("generation", "with __generation = 1")),
            "endgeneration" => out.push_str(&tag.replace("endgeneration", "endwith")),
            _ => out.push_str(tag),
        }
        rest = &rest[start + length..];
    }
    out.push_str(rest);
    out
}

fn json(text: &str, what: &str) -> Outcome<serde_json::Value> {
    serde_json::from_str(text).map_err(|e| Failure::argument(format!("{what}: not valid JSON: {e}")))
}

fn array(text: &str, what: &str) -> Outcome<Vec<serde_json::Value>> {
    match json(text, what)? {
        serde_json::Value::Array(items) => Ok(items),
        _ => Err(Failure::argument(format!("{what}: expected a JSON array"))),
    }
}

/// The messages, with an assistant's reasoning under each name that templates read it by.
fn messages(text: &str) -> Outcome<Value> {
    let mut list = array(text, "messages")?;
    for message in list.iter_mut().filter_map(serde_json::Value::as_object_mut) {
        let names = ["reasoning_content", "thinking", "reasoning"];
        let reasoning = names.iter().find_map(|name| message.get(*name).filter(|value| !value.is_null())).cloned();
        if let Some(reasoning) = reasoning {
            message.entry("thinking").or_insert_with(|| reasoning.clone());
            message.insert("reasoning_content".into(), reasoning);
        }
    }
    Ok(Serde(list).into())
}

fn object(text: &str, what: &str) -> Outcome<BTreeMap<String, Value>> {
    if text.is_empty() {
        return Ok(BTreeMap::new());
    }
    match json(text, what)? {
        serde_json::Value::Object(map) => Ok(map.into_iter().map(|(key, value)| (key, Serde(value).into())).collect()),
        _ => Err(Failure::argument(format!("{what}: expected a JSON object"))),
    }
}

#[derive(Debug)]
struct Raised;

impl std::fmt::Display for Raised {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("raise_exception")
    }
}
impl std::error::Error for Raised {}

fn refusal(error: &Error) -> Failure {
    let raised = std::iter::successors(Some(error as &dyn std::error::Error), |e| e.source()).any(|e| e.is::<Raised>());
    if raised {
        return Failure::argument(format!("the chat template refuses these messages: {}", error.detail().unwrap_or("no reason given")));
    }
    match error.kind() {
        ErrorKind::OutOfFuel => Failure::limit("the chat template needs more steps than its limit for these messages"),
        _ => Failure::argument(describe(error)),
    }
}

fn describe(error: &Error) -> String {
    let mut text = match error.line() {
        Some(line) => format!("line {line} of the chat template: {}", error.kind()),
        None => format!("the chat template: {}", error.kind()),
    };
    if let Some(detail) = error.detail() {
        let _ = write!(text, ": {detail}");
    }
    text
}
