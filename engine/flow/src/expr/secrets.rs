//! `$secrets` in an expression: a secret that the flow does not declare is refused, and is not
//! `null`.

use jaq_core::box_iter::box_once;
use jaq_core::load::parse::Term;
use jaq_core::native::{v, Fun};
use jaq_core::path::{Part, Path};
use jaq_core::{Cv, Native, ValXs};
use jaq_json::Val;

use super::limit::{halted, Limited};
use super::terms::bound;
use super::update::Parts;

const SECRETS: &str = "$secrets";

/// The natives of this file.
pub(super) fn natives() -> Vec<Fun<Limited>> {
    vec![("#secret", v(2), Native::<Limited>::new(|cv| secret(cv)))]
}

/// A variable; all secrets at once are there only if there is one at least.
pub(super) fn variable(name: &str) -> Term<&str> {
    match name {
        SECRETS => known(Term::Str(None, Vec::new())),
        name => Term::Var(name),
    }
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
    if let (Val::Obj(fields), Val::TStr(text) | Val::BStr(text)) = (&secrets, &name) {
        let is_there = match text.is_empty() {
            true => !fields.is_empty(),
            false => fields.contains_key(&name),
        };
        if !is_there {
            cv.0.data().deny(String::from_utf8_lossy(text).into_owned());
            return halted();
        }
    }
    box_once(Ok(secrets))
}
