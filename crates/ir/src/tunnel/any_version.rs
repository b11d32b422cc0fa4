//! The plan's file between operator and host end. The two may be of different versions, so what the reader does not know
//! is left out; a person's file is read strictly, by the type itself.

use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{Deserializer, IntoDeserializer, Visitor};
use serde::{Deserialize as _, forward_to_deserialize_any};
use serde_json::{Error, Value};

use super::TunnelPlan;

impl TunnelPlan {
    /// Reads a plan of any version, in JSON.
    ///
    /// # Errors
    /// When it is not a plan, or lacks what every plan has.
    pub fn of_any_version(text: &str) -> Result<Self, Error> {
        Self::deserialize(Known(serde_json::from_str(text)?))
    }
}

/// A value of which structures get the fields that they know.
struct Known(Value);

impl<'de> Deserializer<'de> for Known {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0 {
            Value::Array(values) => visitor.visit_seq(SeqDeserializer::new(values.into_iter().map(Known))),
            Value::Object(fields) => {
                let known = fields.into_iter().map(|(name, value)| (name, Known(value)));
                visitor.visit_map(MapDeserializer::new(known))
            }
            plain => plain.deserialize_any(visitor),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let Self(mut value) = self;
        if let Value::Object(found) = &mut value {
            found.retain(|name, _| fields.contains(&name.as_str()));
        }
        Self(value).deserialize_any(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.0.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.0.deserialize_enum(name, variants, visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map identifier ignored_any
    }
}

impl IntoDeserializer<'_, Error> for Known {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TODAY: &str = r#"{"dial":{"control":"127.0.0.1:1","data":"127.0.0.1:2"},"authority":"/a.pem","tunnels":[
        {"id":1,"name":"web","protocol":"UDP","port":{"preferred":80},"allowedSources":["10.0.0.0/8"],"maxStreams":5,
        "endpoints":[{"address":"127.0.0.1:80","weight":2,"terminating":true}],"idleTimeout":"5s"}]}"#;

    #[test]
    fn a_plan_of_tomorrow_is_followed_as_far_as_it_is_known() {
        let today: TunnelPlan = serde_json::from_str(TODAY).unwrap();
        assert_eq!(TunnelPlan::of_any_version(TODAY).unwrap(), today);
        let tomorrow = TODAY
            .replace(r#""data":"127.0.0.1:2""#, r#""data":"127.0.0.1:2","via":{"proxy":"x"}"#)
            .replace(r#""authority""#, r#""mood":["good"],"authority""#)
            .replace(r#""name":"web""#, r#""name":"web","priority":7"#)
            .replace(r#""weight":2"#, r#""weight":2,"zone":"a""#);
        assert!(
            serde_json::from_str::<TunnelPlan>(&tomorrow).is_err(),
            "a person is told of what is not known"
        );
        assert_eq!(TunnelPlan::of_any_version(&tomorrow).unwrap(), today);
        let written = serde_json::to_string(&today).unwrap();
        assert_eq!(TunnelPlan::of_any_version(&written).unwrap(), today);
    }

    #[test]
    fn what_is_known_has_to_make_sense_all_the_same() {
        for (was, is) in [
            (r#""authority":"/a.pem","#, ""),
            (r#""id":1"#, r#""id":"one""#),
            (r#""UDP""#, r#""SCTP""#),
            ("127.0.0.1:80", "nowhere"),
        ] {
            assert!(TunnelPlan::of_any_version(&TODAY.replace(was, is)).is_err(), "{is}");
        }
    }
}
