//! Rows of ConfigMaps, Secrets and ServiceAccounts.

use jiff::Timestamp;
use serde_json::Value;

use super::{AGE, NAME, age, col, name};
use crate::builtin::json::{entries, text};
use crate::resource::ColumnDef;

const DATA: ColumnDef = col("Data", "string", "How many entries there are.");

pub(crate) const CONFIG_MAP: &[ColumnDef] = &[NAME, DATA, AGE];

pub(crate) fn config_map(object: &Value, now: Timestamp) -> Vec<Value> {
    let entries = entries(object, "data").count() + entries(object, "binaryData").count();
    vec![name(object), entries.into(), age(object, now)]
}

pub(crate) const SECRET: &[ColumnDef] = &[NAME, col("Type", "string", "What the Secret is for."), DATA, AGE];

pub(crate) fn secret(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), text(object, "type").into(), entries(object, "data").count().into(), age(object, now)]
}

pub(crate) const SERVICE_ACCOUNT: &[ColumnDef] = &[NAME, AGE];

pub(crate) fn service_account(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), age(object, now)]
}
