//! Secrets: read at each use, kept nowhere, in no message.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::fmt;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use turnwheel_flow::{IoError, IoErrorKind};

use super::file;
use super::options::IoOptions;

/// Variables of the environment that are secrets begin with this.
const VARIABLE: &str = "TURNWHEEL_SECRET_";

/// Bytes of one secret. Larger ones are no secrets but files.
const SECRET_BYTES_MAX: u64 = 64 * 1_024;

/// Time limit of reading one.
const WITHIN: Duration = Duration::from_secs(10);

/// Secrets by the names of their variables, for a process that has removed them from its
/// environment.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct KeptSecrets(Arc<BTreeMap<String, String>>);

impl KeptSecrets {
    /// These, each with the name of its variable, which begins with `TURNWHEEL_SECRET_`.
    pub fn new(variables: BTreeMap<String, String>) -> Self {
        Self(Arc::new(variables))
    }
}

impl fmt::Debug for KeptSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// A secret by its name: from a file of the folder if there is one, else from the kept secrets,
/// else from the environment.
pub(super) fn find(options: &IoOptions, name: &str) -> Result<Option<Value>, IoError> {
    let is_name = !name.is_empty()
        && !name.starts_with('.')
        && name.chars().all(|sign| sign.is_alphanumeric() || "-_.".contains(sign));
    if !is_name {
        let message = format!("«{name}» cannot name a secret: take letters, digits, - _ and .");
        return Err(IoError::new(IoErrorKind::Forbidden, message));
    }
    match &options.secrets {
        Some(folder) => from_file(folder, name),
        None => from_variables(&options.kept_secrets, name),
    }
}

fn from_file(folder: &Path, name: &str) -> Result<Option<Value>, IoError> {
    let told = |error: std::io::Error| {
        let (folder, kind) = (folder.display(), IoErrorKind::Forbidden);
        IoError::new(kind, format!("the secret «{name}» in the folder {folder}: {error}"))
    };
    let path = folder.join(name);
    let bytes = match file::read(&path, SECRET_BYTES_MAX + 1, WITHIN, &|| false) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(told(error)),
    };
    let text = String::from_utf8(bytes)
        .map_err(|_| told(std::io::Error::new(ErrorKind::InvalidData, "it is no text")))?;
    if text.len() as u64 > SECRET_BYTES_MAX {
        let message = format!("the secret «{name}» has more than {SECRET_BYTES_MAX} bytes");
        return Err(IoError::new(IoErrorKind::TooLarge, message));
    }
    // Editors end files with a line feed, which is no part of the password.
    Ok(Some(value(text.strip_suffix('\n').unwrap_or(&text))))
}

fn from_variables(kept: &KeptSecrets, name: &str) -> Result<Option<Value>, IoError> {
    let upper: String = name
        .chars()
        .map(|sign| if sign.is_ascii_alphanumeric() { sign.to_ascii_uppercase() } else { '_' })
        .collect();
    let found = [name, upper.as_str()].iter().find_map(|name| {
        let variable = format!("{VARIABLE}{name}");
        kept.0.get(&variable).map(OsString::from).or_else(|| env::var_os(variable))
    });
    let Some(found) = found else { return Ok(None) };
    let text = found.into_string().map_err(|_| {
        IoError::new(IoErrorKind::Forbidden, format!("the secret «{name}» is no text"))
    })?;
    Ok(Some(value(&text)))
}

/// An object if it is one as JSON, such as `{"username": …, "password": …}`; else the text.
fn value(text: &str) -> Value {
    let object = serde_json::from_str(text).ok().filter(Value::is_object);
    object.unwrap_or_else(|| Value::from(text))
}
