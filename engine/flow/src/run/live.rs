//! The last lines that a process has written, as the sign of life of its step.

use parking_lot::Mutex;

use crate::limits::LIVE_OUTPUT_BYTES;

/// The end of an output. Only whole lines are shown: a part of one may be a part of a secret.
#[derive(Debug, Default)]
pub(super) struct Tail(Mutex<Lines>);

#[derive(Debug, Default)]
struct Lines {
    /// The last whole ones.
    whole: Vec<u8>,
    /// The one that has not ended.
    open: Vec<u8>,
    /// Whether the open one is too long and left out.
    is_left_out: bool,
}

impl Tail {
    /// Takes what was written, and answers the last lines if one has ended.
    pub(super) fn push(&self, written: &[u8]) -> Option<String> {
        let mut lines = self.0.lock();
        let mut has_ended = false;
        for piece in written.split_inclusive(|byte| *byte == b'\n') {
            has_ended |= lines.take(piece);
        }
        let excess = lines.whole.len().saturating_sub(LIVE_OUTPUT_BYTES);
        if excess > 0 {
            let end = lines.whole[excess - 1..].iter().position(|byte| *byte == b'\n');
            let end = end.map_or(lines.whole.len(), |end| excess + end);
            lines.whole.drain(..end);
        }
        has_ended.then(|| String::from_utf8_lossy(&lines.whole).into_owned())
    }
}

impl Lines {
    /// Takes a line or a part of one; whether it has ended.
    fn take(&mut self, piece: &[u8]) -> bool {
        let is_end = piece.ends_with(b"\n");
        if self.open.len() + piece.len() > LIVE_OUTPUT_BYTES {
            self.is_left_out = true;
            self.open = Vec::new();
        }
        if !self.is_left_out {
            self.open.extend_from_slice(piece);
        }
        if is_end {
            self.is_left_out = false;
            self.whole.append(&mut self.open);
        }
        is_end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_lines_are_shown() {
        let tail = Tail::default();
        assert_eq!(tail.push(b"one"), None);
        assert_eq!(tail.push(b" line\nand a"), Some("one line\n".to_owned()));
        assert_eq!(tail.push(b" half"), None);
        assert_eq!(tail.push(b"\n"), Some("one line\nand a half\n".to_owned()));
    }

    #[test]
    fn the_last_lines_stay_of_a_long_output() {
        let tail = Tail::default();
        let mut shown = String::new();
        for number in 0..10_000 {
            let line = format!("line {number}\n");
            shown = tail.push(line.as_bytes()).expect("a line has ended");
        }
        assert!(shown.len() <= LIVE_OUTPUT_BYTES, "{}", shown.len());
        assert!(shown.starts_with("line ") && shown.ends_with("line 9999\n"), "{shown}");
    }

    #[test]
    fn a_line_that_is_too_long_is_left_out() {
        let tail = Tail::default();
        for _ in 0..3 {
            assert_eq!(tail.push(&[b'x'; LIVE_OUTPUT_BYTES]), None);
        }
        assert!(tail.0.lock().open.len() <= LIVE_OUTPUT_BYTES);
        assert_eq!(tail.push(b"end\nnext\n"), Some("next\n".to_owned()));
    }
}
