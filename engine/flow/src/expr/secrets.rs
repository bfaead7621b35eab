//! `$secrets` in an expression: a secret that the flow does not declare is refused, and is not
//! `null`. So it stands before the name of a secret only: of all secrets at once nobody would know
//! which of them is asked for.

use jaq_core::box_iter::box_once;
use jaq_core::load::parse::Term;
use jaq_core::native::{v, Fun};
use jaq_core::path::{Part, Path};
use jaq_core::{Cv, Native, ValXs};
use jaq_json::Val;

use super::limit::{halted, Limited, Refused};
use super::terms::bound;
use super::update::Parts;

pub(super) const SECRETS: &str = "$secrets";

/// Why an expression may not have all secrets at once.
pub(super) const ALL: Refused = Refused(
    "«$secrets» must be followed by the name of a secret: $secrets.name, or $secrets[name]",
);

/// The natives of this file.
pub(super) fn natives() -> Vec<Fun<Limited>> {
    vec![("#secret", v(2), Native::<Limited>::new(|cv| secret(cv)))]
}

/// `$secrets` if the secret with this name is there.
fn known(name: Term<&str>) -> Term<&str> {
    Term::Call("#secret", vec![Term::Var(SECRETS), name])
}

/// A path that begins with a secret by its name; other paths come back as they are.
pub(super) fn path<'s>(
    begin: Term<&'s str>,
    mut parts: Parts<'s>,
) -> Result<Term<&'s str>, (Term<&'s str>, Parts<'s>)> {
    let is_index = matches!(parts.first(), Some((Part::Index(_), _)));
    if !matches!(begin, Term::Var(SECRETS)) || !is_index {
        return Err((begin, parts));
    }
    let name = Part::Index(Term::Var("$#s"));
    let Part::Index(written) = std::mem::replace(&mut parts[0].0, name) else {
        return Err((begin, parts));
    };
    let path = Term::Path(Box::new(known(Term::Var("$#s"))), Path(parts));
    Ok(bound(written, "$#s", path))
}

/// `#secret(secrets; name)`. Nothing is checked where secrets are not read, because nothing is
/// sent there.
fn secret(mut cv: Cv<'_, Limited>) -> ValXs<'_, Val> {
    let (name, secrets) = (cv.0.pop_var(), cv.0.pop_var());
    if let Val::Obj(fields) = &secrets {
        if !fields.contains_key(&name) {
            let shown = match &name {
                Val::TStr(text) | Val::BStr(text) => String::from_utf8_lossy(text).into_owned(),
                other => other.to_string(),
            };
            cv.0.data().deny(shown);
            return halted();
        }
    }
    box_once(Ok(secrets))
}
