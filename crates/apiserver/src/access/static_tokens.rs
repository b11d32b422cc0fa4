//! Bearer tokens from a file, in the format of Kubernetes' `--token-auth-file`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use aws_lc_rs::digest;

use super::User;

/// Why a token file could not be used.
#[derive(Debug, thiserror::Error)]
pub enum TokenFileError {
    #[error("can't read token file {}; check its owner and mode", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error(
        "token file {} line {line} {problem}; write token,user,uid or token,user,uid,\"group1,group2\"",
        path.display()
    )]
    Line { path: PathBuf, line: usize, problem: &'static str },
}

/// Users by the hash of their token, so that a lookup's time tells nothing about the tokens.
#[derive(Default)]
pub(super) struct StaticTokens {
    users: HashMap<Vec<u8>, User>,
}

impl StaticTokens {
    pub fn read(path: &Path) -> Result<Self, TokenFileError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| TokenFileError::Read { path: path.to_owned(), source })?;
        let mut users = HashMap::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (token, user) = parse(line).map_err(|problem| TokenFileError::Line {
                path: path.to_owned(),
                line: index + 1,
                problem,
            })?;
            users.insert(hash(&token), user);
        }
        Ok(Self { users })
    }

    pub fn user(&self, token: &str) -> Option<User> {
        if self.users.is_empty() {
            return None;
        }
        self.users.get(&hash(token)).cloned()
    }
}

fn hash(token: &str) -> Vec<u8> {
    digest::digest(&digest::SHA256, token.as_bytes()).as_ref().to_vec()
}

fn parse(line: &str) -> Result<(String, User), &'static str> {
    let fields = fields(line)?;
    let (token, name, uid, groups) = match fields.as_slice() {
        [token, name, uid] => (token, name, uid, ""),
        [token, name, uid, groups] => (token, name, uid, groups.as_str()),
        _ => return Err("has the wrong number of fields"),
    };
    if token.is_empty() {
        return Err("has an empty token");
    }
    if name.is_empty() {
        return Err("has an empty user name");
    }
    let groups = groups.split(',').map(str::trim).filter(|g| !g.is_empty()).map(str::to_owned).collect();
    let user =
        User { name: name.clone(), uid: uid.clone(), groups, extra: std::collections::BTreeMap::new() };
    Ok((token.clone(), user))
}

/// Splits one CSV line; a field may be quoted, with `""` for a quote inside.
fn fields(line: &str) -> Result<Vec<String>, &'static str> {
    let mut fields = vec![String::new()];
    let mut quoted = false;
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        let Some(field) = fields.last_mut() else { break };
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                field.push('"');
            }
            '"' if quoted || field.is_empty() => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            _ => field.push(c),
        }
    }
    if quoted { Err("has an unclosed quote") } else { Ok(fields) }
}
