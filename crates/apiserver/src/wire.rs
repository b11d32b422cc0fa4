//! Kubernetes' protobuf form of a request's body, turned into the JSON tree of the same object. Go clients send the
//! built-in kinds this way; the answers they take as JSON, so nothing is written in this form.
//!
//! `table` holds what the messages look like, `reader` takes the wire apart, and `shape` gives the few types whose
//! JSON is not an object of their fields. The tree is what Go's JSON encoder would have sent for the same object.

mod reader;
mod shape;
mod table;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Number, Value};

use crate::error::ApiError;
use reader::{Reader, Token};
use table::{Field, Message, Repeat, Table, Type};

/// The media type of this form.
pub(crate) const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

const MAGIC: &[u8] = b"k8s\0";

/// How deep messages may nest; the deepest real ones are schemas in a CRD.
const DEPTH: usize = 100;

/// How many values one body may hold: an empty message costs its sender two bytes, and us far more.
const VALUES: usize = 1 << 18;

/// What is wrong with the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
enum Fault {
    #[error("a value goes past the end of its message")]
    Truncated,
    #[error("a varint is longer than ten bytes")]
    LongVarint,
    #[error("a field has the number zero")]
    ZeroField,
    #[error("wire type {0} is not used by Kubernetes")]
    WireType(u8),
    #[error("the wire type does not fit the field")]
    Mismatch,
    #[error("text is not UTF-8")]
    NotText,
    #[error("a number is not finite")]
    NotFinite,
    #[error("a time is out of range")]
    Time,
    #[error("embedded JSON does not parse")]
    EmbeddedJson,
    #[error("messages nest more than {DEPTH} deep")]
    TooDeep,
    #[error("the object holds more than {VALUES} values")]
    TooMany,
}

/// A fault and the innermost field it was met in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unable to decode the protobuf body: {place}: {fault}")]
struct Error {
    place: String,
    #[source]
    fault: Fault,
}

impl Error {
    fn at(place: impl Into<String>) -> impl FnOnce(Fault) -> Self {
        let place = place.into();
        move |fault| Self { place, fault }
    }

    fn in_field(message: &Message, field: &Field) -> impl FnOnce(Fault) -> Self {
        Self::at(format!("{}.{}", message.name, field.name))
    }
}

impl From<Error> for ApiError {
    fn from(error: Error) -> Self {
        Self::bad_request(error.to_string())
    }
}

/// Decodes a body of this form: the envelope says which kind it holds.
pub(crate) fn decode(bytes: &[u8]) -> Result<Value, ApiError> {
    let Envelope { api_version, kind, raw } = Envelope::read(bytes)?;
    if kind.is_empty() || api_version.is_empty() {
        return Err(ApiError::bad_request("Object 'Kind' or 'apiVersion' is missing in the protobuf body"));
    }
    let table = Table::get();
    let message = table.top(&api_version, &kind).ok_or_else(|| {
        ApiError::unsupported_media_type(format!(
            "no kind {kind:?} of version {api_version:?} can be read as {MEDIA_TYPE}: send it as application/json"
        ))
    })?;
    let mut fields = Decoder { table, values: VALUES }.fields(message, raw, DEPTH)?;
    fields.insert("apiVersion".into(), Value::String(api_version));
    fields.insert("kind".into(), Value::String(kind));
    Ok(Value::Object(fields))
}

/// What stands around every object: its type, and its bytes.
struct Envelope<'a> {
    api_version: String,
    kind: String,
    raw: &'a [u8],
}

impl<'a> Envelope<'a> {
    fn read(bytes: &'a [u8]) -> Result<Self, ApiError> {
        let body = bytes.strip_prefix(MAGIC).ok_or_else(|| {
            ApiError::bad_request(
                "the protobuf body does not start with the prefix that Kubernetes objects have",
            )
        })?;
        Ok(Self::parse(body).map_err(Error::at("the envelope"))?)
    }

    fn parse(body: &'a [u8]) -> Result<Self, Fault> {
        let mut envelope = Self { api_version: String::new(), kind: String::new(), raw: &[] };
        let mut outer = Reader::new(body);
        while let Some((number, token)) = outer.next()? {
            match number {
                1 => {
                    let mut inner = Reader::new(token.bytes()?);
                    while let Some((number, token)) = inner.next()? {
                        match number {
                            1 => envelope.api_version = token.text()?,
                            2 => envelope.kind = token.text()?,
                            _ => {}
                        }
                    }
                }
                2 => envelope.raw = token.bytes()?,
                _ => {}
            }
        }
        Ok(envelope)
    }
}

/// One body's decoding, and how many more values it may make.
struct Decoder {
    table: &'static Table,
    values: usize,
}

impl Decoder {
    /// A message as its JSON form; `None` where Go would write `null`.
    fn message(&mut self, message: &Message, bytes: &[u8], depth: usize) -> Result<Option<Value>, Error> {
        let fields = self.fields(message, bytes, depth)?;
        shape::render(message.shape, fields).map_err(Error::at(message.name))
    }

    fn fields(&mut self, message: &Message, bytes: &[u8], depth: usize) -> Result<Map<String, Value>, Error> {
        let depth = depth.checked_sub(1).ok_or(Fault::TooDeep).map_err(Error::at(message.name))?;
        let mut object = Map::new();
        let mut reader = Reader::new(bytes);
        let mut seen = 0_u64;
        while let Some((number, token)) = reader.next().map_err(Error::at(message.name))? {
            let Some((index, field)) = message.field(number) else {
                continue;
            };
            seen |= 1 << index;
            self.field(message, field, token, &mut object, depth)?;
        }
        let absent = message.fields.iter().enumerate().filter(|(index, _)| seen & (1 << index) == 0);
        for (_, field) in absent.filter(|(_, field)| field.always) {
            self.absent(field, &mut object, depth)?;
        }
        Ok(object)
    }

    /// A field that Go's JSON never leaves out, where the sender left it out: it has its zero value.
    fn absent(&mut self, field: &Field, object: &mut Map<String, Value>, depth: usize) -> Result<(), Error> {
        let zero = match (field.repeat, field.ty) {
            // Go writes `null` for these, which is the same as leaving them out.
            (Repeat::List | Repeat::Map, _) | (Repeat::One, Type::Json) => None,
            (Repeat::One, Type::Text | Type::Bytes) => Some(Value::String(String::new())),
            (Repeat::One, Type::Bool) => Some(Value::Bool(false)),
            (Repeat::One, Type::Int | Type::Double) => Some(Value::Number(0.into())),
            (Repeat::One, Type::Message(index)) => self.message(self.table.message(index), &[], depth)?,
        };
        place(field, zero, object);
        Ok(())
    }

    fn field(
        &mut self,
        message: &Message,
        field: &Field,
        token: Token<'_>,
        object: &mut Map<String, Value>,
        depth: usize,
    ) -> Result<(), Error> {
        match field.repeat {
            Repeat::One => {
                let value = self.value(message, field, token, depth)?;
                // A pointer on the wire is set, whatever its value; anything else is written even when it is empty.
                let left_out = field.omit_empty && value.as_ref().is_some_and(|v| self.is_zero(field, v));
                place(field, value.filter(|_| !left_out), object);
            }
            Repeat::List => {
                let mut items = Vec::new();
                if let (Token::Bytes(packed), Type::Int | Type::Bool) = (token, field.ty) {
                    let mut reader = Reader::new(packed);
                    while !reader.is_empty() {
                        let number = reader.varint().map_err(Error::in_field(message, field))?;
                        items.extend(self.value(message, field, Token::Varint(number), depth)?);
                    }
                } else {
                    items.push(self.value(message, field, token, depth)?.unwrap_or(Value::Null));
                }
                let list = object.entry(field.name).or_insert_with(|| Value::Array(Vec::new()));
                if let Value::Array(list) = list {
                    list.append(&mut items);
                }
            }
            Repeat::Map => {
                let (key, value) = entry(token).map_err(Error::in_field(message, field))?;
                let value = match value {
                    Some(token) => self.value(message, field, token, depth)?,
                    // Every map's values are text, bytes or messages: all of them are empty as empty bytes.
                    None => self.value(message, field, Token::Bytes(&[]), depth)?,
                };
                let map = object.entry(field.name).or_insert_with(|| Value::Object(Map::new()));
                if let Value::Object(map) = map {
                    map.insert(key, value.unwrap_or(Value::Null));
                }
            }
        }
        Ok(())
    }

    fn value(
        &mut self,
        message: &Message,
        field: &Field,
        token: Token<'_>,
        depth: usize,
    ) -> Result<Option<Value>, Error> {
        self.values =
            self.values.checked_sub(1).ok_or(Fault::TooMany).map_err(Error::in_field(message, field))?;
        if let Type::Message(index) = field.ty {
            let bytes = token.bytes().map_err(Error::in_field(message, field))?;
            return self.message(self.table.message(index), bytes, depth);
        }
        scalar(field.ty, token).map_err(Error::in_field(message, field))
    }

    fn is_zero(&self, field: &Field, value: &Value) -> bool {
        match field.ty {
            // A struct is never empty to Go's JSON encoder; a port that is 0 stands for one that was not given.
            Type::Message(index) => {
                self.table.message(index).shape == shape::Shape::IntOrString && value == 0
            }
            _ => match value {
                Value::String(text) => text.is_empty(),
                Value::Bool(set) => !set,
                Value::Number(number) => number.as_f64() == Some(0.0),
                _ => false,
            },
        }
    }
}

/// Puts a single value where the JSON form has it: an inlined message's fields stand among those of its holder.
fn place(field: &Field, value: Option<Value>, object: &mut Map<String, Value>) {
    match value {
        Some(Value::Object(inlined)) if field.inline => object.extend(inlined),
        Some(value) => {
            object.insert(field.name.into(), value);
        }
        None => {
            object.remove(field.name);
        }
    }
}

fn scalar(ty: Type, token: Token<'_>) -> Result<Option<Value>, Fault> {
    Ok(Some(match ty {
        Type::Text => Value::String(token.text()?),
        Type::Bool => Value::Bool(token.varint()? != 0),
        Type::Int => Value::Number((token.varint()? as i64).into()),
        Type::Double => Value::Number(number(f64::from_bits(token.fixed64()?))?),
        Type::Bytes => Value::String(STANDARD.encode(token.bytes()?)),
        Type::Json => {
            let bytes = token.bytes()?;
            if bytes.is_empty() {
                return Ok(None);
            }
            serde_json::from_slice(bytes).map_err(|_| Fault::EmbeddedJson)?
        }
        Type::Message(_) => return Err(Fault::Mismatch),
    }))
}

/// A double without a fraction is written as an integer, as Go does.
fn number(value: f64) -> Result<Number, Fault> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && value.abs() <= EXACT {
        return Ok((value as i64).into());
    }
    Number::from_f64(value).ok_or(Fault::NotFinite)
}

/// The key and the value of one entry of a map.
fn entry(token: Token<'_>) -> Result<(String, Option<Token<'_>>), Fault> {
    let mut reader = Reader::new(token.bytes()?);
    let (mut key, mut value) = (String::new(), None);
    while let Some((number, token)) = reader.next()? {
        match number {
            1 => key = token.text()?,
            2 => value = Some(token),
            _ => {}
        }
    }
    Ok((key, value))
}

#[cfg(test)]
mod tests;
