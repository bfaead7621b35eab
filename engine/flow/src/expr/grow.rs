//! Changes of values that grow: sums, updates and deletions, in place where nobody else has the value.
//!
//! Each knows the weight of what it changes and adds what it puts in, so that a list that grows by one
//! element costs one element. What is copied, because somebody else has it, counts.

use std::sync::Arc;

use jaq_core::box_iter::box_once;
use jaq_core::native::{bome, v, Fun};
use jaq_core::ops::Math;
use jaq_core::{Bind, Cv, Error, Exn, Native, ValXs};
use jaq_json::{Num, Val};

use super::budget::{Budget, Limited, DEPTH_MAX, SIZE_MAX};
use super::limit::{halted, HALT};
use super::weight::{Weight, OBJECT_ELEMENTS, TOO_DEEP, TOO_LARGE};

/// Elements of nothing that are put before an element that is set.
const PADDING_MAX: usize = 100_000;

/// A change that can fail, or be stopped.
type Changed<'a, T> = Result<T, Exn<'a, Val>>;

/// The natives of this file.
pub(super) fn natives() -> Vec<Fun<Limited>> {
    let filters = || [Bind::Fun(()), Bind::Fun(())].into();
    vec![
        ("#plus", v(1), Native::<Limited>::new(|cv| plus(cv))),
        ("#modify", filters(), Native::<Limited>::new(|cv| modify(cv))),
        ("__set", v(2), Native::<Limited>::new(|cv| set_path(cv))),
        ("delpaths", v(1), Native::<Limited>::new(|cv| delete_paths(cv))),
        ("join", v(1), Native::<Limited>::new(|cv| join(cv))),
    ]
}

/// Whether the name is a native or definition of jaq that is replaced here.
pub(super) fn is_replaced(name: &str) -> bool {
    matches!(name, "delpaths" | "join")
}

fn halt<'a>() -> Exn<'a, Val> {
    Exn::halt(HALT)
}

fn outcome(outcome: Changed<'_, Val>) -> ValXs<'_, Val> {
    box_once(outcome)
}

/// `left | #plus(right)`.
fn plus(mut cv: Cv<'_, Limited>) -> ValXs<'_, Val> {
    let right = cv.0.pop_var();
    match sum(cv.0.data(), cv.1, right) {
        Some(sum) => bome(sum),
        None => halted(),
    }
}

fn sum(budget: &Budget<'_>, left: Val, right: Val) -> Option<Result<Val, Error<Val>>> {
    match (&left, &right) {
        (Val::TStr(own) | Val::BStr(own), Val::TStr(other) | Val::BStr(other)) => {
            if own.len() + other.len() > SIZE_MAX {
                budget.trip(TOO_LARGE);
                return None;
            }
            (budget.opens(&left) && budget.looks_at(&right)).then(|| left + right)
        }
        (Val::Arr(_), Val::Arr(_)) | (Val::Obj(_), Val::Obj(_)) => {
            let (own, other) = (budget.weigh(&left)?, budget.weigh(&right)?);
            let replaced = replaced(budget, &left, &right)?;
            let head = if matches!(left, Val::Arr(_)) { 1 } else { OBJECT_ELEMENTS };
            let weight = Weight {
                size: own.size + other.size - head - replaced.size,
                bytes: own.bytes + other.bytes - replaced.bytes,
                depth: own.depth.max(other.depth),
            };
            let is_bearable = budget.make(length(&right) * 2, weight.size) && budget.opens(&left);
            let sum = is_bearable.then(|| left + right)?;
            match &sum {
                Ok(sum) => budget.becomes(sum, weight),
                Err(_) => true,
            }
            .then_some(sum)
        }
        (Val::Num(_), Val::Num(_)) => match left + right {
            Ok(sum) => budget.bears(&sum).then_some(Ok(sum)),
            failed => Some(failed),
        },
        _ => Some(left + right),
    }
}

/// Weight of the fields of one object that another one replaces.
fn replaced(budget: &Budget<'_>, left: &Val, right: &Val) -> Option<Weight> {
    let mut all = Weight::default();
    if let (Val::Obj(own), Val::Obj(other)) = (left, right) {
        for key in other.keys() {
            let Some(before) = own.get(key) else { continue };
            for part in [budget.weigh(key)?, budget.weigh(before)?] {
                all.size += part.size;
                all.bytes += part.bytes;
            }
        }
    }
    Some(all)
}

fn length(value: &Val) -> usize {
    match value {
        Val::Arr(elements) => elements.len(),
        Val::Obj(fields) => fields.len(),
        _ => 0,
    }
}

/// `#modify(paths; change)`: the value at each path is changed; it goes if there is no result.
fn modify(mut cv: Cv<'_, Limited>) -> ValXs<'_, Val> {
    let (change, context) = cv.0.pop_fun();
    let (paths, theirs) = cv.0.pop_fun();
    let budget = *cv.0.data();
    let mut all = Vec::new();
    for found in paths.paths((theirs, (cv.1.clone(), Default::default()))) {
        match found {
            Ok((_, path)) => {
                let mut keys: Vec<Val> = path.iter().cloned().collect();
                keys.reverse();
                all.push(keys);
            }
            Err(error) => return box_once(Err(error)),
        }
        if !budget.spend(1) {
            return halted();
        }
    }
    let mut change = |before| change.run((context.clone(), before)).next().transpose();
    outcome(modified(budget, cv.1, &all, &mut change))
}

fn modified<'a>(
    budget: &Budget<'_>,
    mut value: Val,
    paths: &[Vec<Val>],
    change: &mut dyn FnMut(Val) -> Changed<'a, Option<Val>>,
) -> Changed<'a, Val> {
    let mut weight = budget.weigh(&value).ok_or_else(halt)?;
    let (mut gone, mut is_sliced) = (Vec::new(), false);
    for path in paths {
        if path.len() > DEPTH_MAX {
            budget.trip(TOO_DEEP);
            return Err(halt());
        }
        let before = take(budget, &mut value, path)?;
        let old = budget.weigh(&before).ok_or_else(halt)?;
        let Some(after) = change(before)? else {
            // Its weight stays: it is taken out of the value at the end.
            gone.push(path.as_slice());
            continue;
        };
        let new = budget.weigh(&after).ok_or_else(halt)?;
        let added = set(budget, &mut value, path, after)?;
        is_sliced |= path.iter().any(|key| matches!(key, Val::Obj(_)));
        // A missing value was put there as `null` first.
        weight = Weight {
            size: (weight.size + added.size + new.size).saturating_sub(old.size),
            bytes: (weight.bytes + added.bytes + new.bytes).saturating_sub(old.bytes),
            depth: weight.depth.max(path.len() + new.depth),
        };
    }
    if !gone.is_empty() {
        gone.sort();
        delete(budget, &mut value, &gone)?;
    }
    let is_bearable = match is_sliced || !gone.is_empty() {
        true => budget.bears(&value),
        false => budget.becomes(&value, weight),
    };
    if is_bearable {
        Ok(value)
    } else {
        Err(halt())
    }
}

/// Takes the value at a path out and leaves `null`; what is not there is `null`.
fn take<'a>(budget: &Budget<'_>, value: &mut Val, path: &[Val]) -> Changed<'a, Val> {
    let Some((key, rest)) = path.split_first() else { return Ok(std::mem::take(value)) };
    let opened = |value: &Val| if budget.opens(value) { Ok(()) } else { Err(halt()) };
    match (&*value, key) {
        (Val::Null, _) => return Ok(Val::Null),
        (Val::Obj(fields), _) if !fields.contains_key(key) => return Ok(Val::Null),
        (Val::Arr(elements), Val::Num(number)) => {
            let place = place(number, elements.len()).unwrap_or(usize::MAX);
            if place >= elements.len() {
                return Ok(Val::Null);
            }
        }
        _ => {}
    }
    if let (Val::Arr(elements), Val::Obj(_)) = (&*value, key) {
        let (from, to) = ends(key, elements.len());
        let mut part: Val = elements[from..to].iter().cloned().collect();
        return if budget.bears(&part) { take(budget, &mut part, rest) } else { Err(halt()) };
    }
    opened(value)?;
    match (value, key) {
        (Val::Obj(fields), key) => match Arc::make_mut(fields).get_mut(key) {
            Some(inner) => take(budget, inner, rest),
            None => Ok(Val::Null),
        },
        (Val::Arr(elements), Val::Num(number)) => {
            let place = place(number, elements.len())?;
            take(budget, &mut Arc::make_mut(elements)[place], rest)
        }
        (value, key) => Err(Error::index(value.clone(), key.clone()).into()),
    }
}

/// Puts a value at a path, and says what had to be made for that.
fn set<'a>(budget: &Budget<'_>, value: &mut Val, path: &[Val], new: Val) -> Changed<'a, Weight> {
    let Some((key, rest)) = path.split_first() else {
        *value = new;
        return Ok(Weight::default());
    };
    let mut added = Weight::default();
    if matches!(value, Val::Null) {
        *value = match key {
            Val::TStr(_) | Val::BStr(_) => {
                added.size += OBJECT_ELEMENTS - 1;
                Val::obj(Default::default())
            }
            Val::Num(_) | Val::Obj(_) => Val::Arr(Arc::default()),
            _ => return Err(Error::index(Val::Null, key.clone()).into()),
        };
    }
    if !budget.opens(value) {
        return Err(halt());
    }
    let inner = match (value, key) {
        (Val::Obj(fields), Val::TStr(text) | Val::BStr(text)) => {
            let fields = Arc::make_mut(fields);
            if !fields.contains_key(key) {
                let own = Weight::of_text(text.len());
                added.size += own.size + 1;
                added.bytes += own.bytes;
            }
            fields.entry(key.clone()).or_default()
        }
        (Val::Arr(elements), Val::Num(number)) => {
            let place = place(number, elements.len())?;
            let own = Arc::make_mut(elements);
            if place >= own.len() {
                added.size += place + 1 - own.len();
                if !budget.make(place + 1 - own.len(), place) {
                    return Err(halt());
                }
                own.resize(place + 1, Val::Null);
            }
            &mut own[place]
        }
        (Val::Arr(elements), Val::Obj(_)) => {
            let (from, to) = ends(key, elements.len());
            let own = Arc::make_mut(elements);
            let mut part: Val = own[from..to].iter().cloned().collect();
            set(budget, &mut part, rest, new)?;
            let Val::Arr(part) = part else {
                return Err(Error::str("a slice of an array can only be an array").into());
            };
            if !budget.moves(own.len()) {
                return Err(halt());
            }
            own.splice(from..to, part.iter().cloned());
            return Ok(added);
        }
        (value, key) => return Err(Error::index(value.clone(), key.clone()).into()),
    };
    let deeper = set(budget, inner, rest, new)?;
    added.size += deeper.size;
    added.bytes += deeper.bytes;
    Ok(added)
}

/// The begin and the end of a slice.
fn ends(slice: &Val, length: usize) -> (usize, usize) {
    let end = |name: &str, default: usize| match slice {
        Val::Obj(slice) => match slice.get(&Val::utf8_str(name.to_owned().into_bytes())) {
            Some(Val::Num(number)) => place(number, length).unwrap_or(0).min(length),
            _ => default,
        },
        _ => default,
    };
    let (from, to) = (end("start", 0), end("end", length));
    (from, to.max(from))
}

fn place(number: &Num, length: usize) -> Result<usize, Error<Val>> {
    let whole = match number {
        Num::Int(whole) => *whole,
        Num::Float(float) => *float as isize,
        _ => isize::MAX,
    };
    let place = if whole < 0 { whole.checked_add_unsigned(length) } else { Some(whole) };
    match place.and_then(|place| usize::try_from(place).ok()) {
        Some(place) if place < length + PADDING_MAX => Ok(place),
        Some(_) => Err(Error::str("the place in the array is too far")),
        None => Err(Error::str("the place in the array is before its begin")),
    }
}

/// `__set(path; value)`.
fn set_path(mut cv: Cv<'_, Limited>) -> ValXs<'_, Val> {
    let (new, path) = (cv.0.pop_var(), cv.0.pop_var());
    let Val::Arr(path) = path else { return bome(Err(Error::str("a path is an array"))) };
    let budget = *cv.0.data();
    outcome(modified(budget, cv.1, &[path.to_vec()], &mut |_| Ok(Some(new.clone()))))
}

/// `delpaths(paths)`.
fn delete_paths(mut cv: Cv<'_, Limited>) -> ValXs<'_, Val> {
    let (budget, paths) = (*cv.0.data(), cv.0.pop_var());
    if !budget.looks_at(&paths) {
        return halted();
    }
    let Val::Arr(paths) = &paths else {
        return bome(Err(Error::str("paths are an array of arrays")));
    };
    let mut all = Vec::new();
    for path in paths.iter() {
        let Val::Arr(path) = path else {
            return bome(Err(Error::str("a path is an array")));
        };
        all.push(path.as_slice());
    }
    all.sort();
    let mut value = cv.1;
    outcome(delete(budget, &mut value, &all).map(|()| value))
}

/// Deletes what is at sorted paths; what is not there is no error.
fn delete<'a>(budget: &Budget<'_>, value: &mut Val, paths: &[&[Val]]) -> Changed<'a, ()> {
    let Some(first) = paths.first() else { return Ok(()) };
    if first.is_empty() {
        *value = Val::Null;
        return Ok(());
    }
    if !matches!(value, Val::Arr(_) | Val::Obj(_)) {
        return Ok(());
    }
    if !budget.opens(value) || !budget.moves(length(value)) {
        return Err(halt());
    }
    // Paths with the same key are beside one another.
    let groups = paths.chunk_by(|one, other| one[0] == other[0]);
    match value {
        Val::Obj(fields) => {
            let fields = Arc::make_mut(fields);
            let mut gone = std::collections::HashSet::new();
            for group in groups {
                let key = &group[0][0];
                match group[0] {
                    [_] => {
                        gone.insert(key);
                    }
                    _ => {
                        let Some(inner) = fields.get_mut(key) else { continue };
                        delete(budget, inner, &rests(group))?;
                    }
                }
            }
            fields.retain(|key, _| !gone.contains(key));
        }
        Val::Arr(elements) => {
            let elements = Arc::make_mut(elements);
            let mut stays = vec![true; elements.len()];
            for group in groups {
                match (&group[0][0], group[0]) {
                    (key @ Val::Obj(_), [_]) => {
                        let (from, to) = ends(key, stays.len());
                        stays[from..to].fill(false);
                    }
                    (Val::Num(number), path) => {
                        let place = place(number, stays.len()).unwrap_or(usize::MAX);
                        if place >= stays.len() {
                            continue;
                        }
                        match path {
                            [_] => stays[place] = false,
                            _ => delete(budget, &mut elements[place], &rests(group))?,
                        }
                    }
                    _ => {}
                }
            }
            let mut stays = stays.into_iter();
            elements.retain(|_| stays.next().unwrap_or(true));
        }
        _ => {}
    }
    Ok(())
}

/// Paths without their first keys.
fn rests<'p>(paths: &[&'p [Val]]) -> Vec<&'p [Val]> {
    paths.iter().map(|path| &path[1..]).collect()
}

/// `join(separator)`, in one go.
fn join(mut cv: Cv<'_, Limited>) -> ValXs<'_, Val> {
    let (budget, separator) = (*cv.0.data(), cv.0.pop_var());
    let values: Vec<&Val> = match &cv.1 {
        Val::Arr(elements) => elements.iter().collect(),
        Val::Obj(fields) => fields.values().collect(),
        other => return bome(Err(Error::typ(other.clone(), "iterable (array or object)"))),
    };
    let mut text = Vec::new();
    for (index, value) in values.into_iter().enumerate() {
        let before = text.len();
        if index > 0 {
            match &separator {
                Val::TStr(own) | Val::BStr(own) => text.extend_from_slice(own),
                Val::Null => {}
                other => return bome(Err(no_text(&text, other))),
            }
        }
        match value {
            Val::Null => {}
            Val::TStr(own) | Val::BStr(own) => text.extend_from_slice(own),
            Val::Bool(own) => text.extend_from_slice(own.to_string().as_bytes()),
            Val::Num(_) => {
                text.extend_from_slice(super::update::plain(value.clone()).to_string().as_bytes())
            }
            other => return bome(Err(no_text(&text, other))),
        }
        if !budget.make((text.len() - before).div_ceil(16), text.len()) {
            return halted();
        }
    }
    box_once(Ok(Val::utf8_str(text)))
}

fn no_text(text: &[u8], other: &Val) -> Error<Val> {
    Error::math(Val::utf8_str(text.to_vec()), Math::Add, other.clone())
}
