//! The end of a page as an opaque text.

use super::code::Code;
use super::problem::Problem;

/// Tag at the begin of a list's cursor: another list's cursor is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum List {
    Plans,
    Steps,
    Schedules,
    Tree,
    Graph,
    Timeline,
    History,
    Calls,
    Letters,
    Flows,
    Jobs,
    Journeys,
    Launches,
    Actions,
    Locks,
}

impl List {
    const fn mark(self) -> u8 {
        match self {
            Self::Plans => b'p',
            Self::Steps => b's',
            Self::Schedules => b'c',
            Self::Tree => b't',
            Self::Graph => b'g',
            Self::Timeline => b'l',
            Self::History => b'h',
            Self::Calls => b'a',
            Self::Letters => b'd',
            Self::Flows => b'f',
            Self::Jobs => b'j',
            Self::Journeys => b'u',
            Self::Launches => b'n',
            Self::Actions => b'x',
            Self::Locks => b'k',
        }
    }
}

/// A place in a list as a cursor.
pub(super) fn write(list: List, place: &[u8]) -> String {
    let mut bytes = vec![list.mark()];
    bytes.extend(place);
    bytes.push(sum(&bytes));
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The place that a cursor names.
pub(super) fn read(list: List, text: &str) -> Result<Vec<u8>, Problem> {
    let wrong = || {
        let text: String = text.chars().take(80).collect();
        let detail = format!(
            "«{text}» is not a cursor of this list: give the «next» of the page before, or none for \
             the first page"
        );
        Problem::new(Code::CursorInvalid, detail)
    };
    if !text.is_ascii() || text.len() % 2 != 0 {
        return Err(wrong());
    }
    let bytes: Result<Vec<u8>, _> =
        (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16)).collect();
    let mut bytes = bytes.map_err(|_| wrong())?;
    let last = bytes.pop().ok_or_else(wrong)?;
    if sum(&bytes) != last || bytes.first() != Some(&list.mark()) {
        return Err(wrong());
    }
    bytes.remove(0);
    Ok(bytes)
}

/// The place in a cursor, of a list whose places have so many bytes; `None` for the first page.
pub(super) fn place<const N: usize>(
    list: List,
    text: Option<&str>,
) -> Result<Option<[u8; N]>, Problem> {
    let Some(text) = text else { return Ok(None) };
    <[u8; N]>::try_from(read(list, text)?).map(Some).map_err(|_| {
        let detail = "the cursor names no place in this list: begin with the first page";
        Problem::new(Code::CursorInvalid, detail)
    })
}

fn sum(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0x5a, |sum: u8, byte| sum.rotate_left(3) ^ byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers by chance, the same in each run.
    fn chance(state: &mut u64) -> u64 {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        *state
    }

    #[test]
    fn every_place_is_read_back_and_a_changed_cursor_is_refused_or_another_place() {
        let mut state = 0x9e37_79b9_7f4a_7c15;
        for _ in 0..2_000 {
            let length = chance(&mut state) as usize % 40;
            let place: Vec<u8> = (0..length).map(|_| chance(&mut state) as u8).collect();
            let cursor = write(List::Flows, &place);
            assert_eq!(read(List::Flows, &cursor).ok(), Some(place.clone()));
            assert!(read(List::Jobs, &cursor).is_err());
            // One sign is changed: nothing but a refusal, since the sum is of each bit.
            let at = chance(&mut state) as usize % cursor.len();
            let mut changed = cursor.clone().into_bytes();
            changed[at] = b"0123456789abcdef"[chance(&mut state) as usize % 16];
            let changed = String::from_utf8(changed).expect("digits");
            if changed != cursor {
                assert!(read(List::Flows, &changed).is_err(), "{cursor} as {changed}");
            }
            // A cut one is no cursor of this place.
            let cut = read(List::Flows, &cursor[..at]);
            assert_ne!(cut.ok(), Some(place));
        }
    }

    #[test]
    fn a_cursor_is_read_as_it_was_written_and_by_its_own_list() {
        let cursor = write(List::Plans, b"abc");
        assert_eq!(read(List::Plans, &cursor).expect("its own"), b"abc");
        assert!(read(List::Steps, &cursor).is_err());
        for bad in ["", "7", "zz", "70", "é", "7061", &cursor[2..]] {
            assert!(read(List::Plans, bad).is_err(), "{bad}");
        }
    }
}
