//! Patterns of regular expressions with their flags, compiled.

use regex_automata::nfa::thompson::{Compiler, Config, WhichCaptures, NFA};
use regex_automata::util::syntax;

use super::around::{self, Around};

/// Bytes of a pattern.
const PATTERN_MAX: usize = 16 << 10;

/// Bytes of an automaton.
const AUTOMATON_MAX: usize = 1 << 20;

/// Places of groups that are kept for all states of an automaton together.
const SLOTS_MAX: usize = 1 << 20;

/// Regular expression with its flags.
#[derive(Debug)]
pub(super) struct Regex {
    pub(super) automaton: NFA,
    /// Look-arounds, each with the empty group that stands for it.
    pub(super) around: Vec<(usize, Around)>,
    pub(super) is_global: bool,
    pub(super) ignores_empty: bool,
    /// Whether of the matches at one place the longest is taken, instead of the preferred one.
    pub(super) is_longest: bool,
    /// Names of the groups; the first is the match itself.
    pub(super) names: Vec<Option<String>>,
}

impl Regex {
    pub(super) fn new(pattern: &str, flags: &str) -> Result<Self, String> {
        if pattern.len() > PATTERN_MAX {
            return Err(format!("a regular expression may have {PATTERN_MAX} bytes"));
        }
        let (mut is_global, mut ignores_empty, mut is_longest) = (false, false, false);
        let (mut config, mut is_spaced) = (syntax::Config::new(), false);
        for flag in flags.chars() {
            config = match flag {
                'g' => {
                    is_global = true;
                    config
                }
                'n' => {
                    ignores_empty = true;
                    config
                }
                'i' => config.case_insensitive(true),
                'm' | 'p' => config.dot_matches_new_line(true),
                // The begin and the end are those of the text without it, too.
                's' => config,
                'l' => {
                    is_longest = true;
                    config
                }
                'x' => {
                    is_spaced = true;
                    config.ignore_whitespace(true)
                }
                other => return Err(format!("{other} is no flag of a regular expression")),
            };
        }
        let (own, parts) = around::taken_out(pattern, is_spaced)
            .map_err(|problem| format!("{pattern} is no regular expression: {problem}"))?;
        let built = |text: &str, settings: Config| {
            let mut compiler = Compiler::new();
            compiler.configure(settings.nfa_size_limit(Some(AUTOMATON_MAX))).syntax(config);
            compiler.build(text).map_err(|error| invalid(pattern, &error))
        };
        let automaton = built(&own, NFA::config())?;
        let names = automaton.group_info().all_names();
        let names: Vec<_> = names.map(|(_, _, name)| name.map(str::to_owned)).collect();
        if automaton.states().len() * names.len() * 2 > SLOTS_MAX {
            return Err("the regular expression has too many groups".to_owned());
        }
        let around = parts.iter().enumerate().map(|(index, part)| {
            let settings = NFA::config().which_captures(WhichCaptures::None);
            let automaton = built(&part.text, settings.reverse(part.is_ahead))?;
            let name = around::group(index);
            let group = names.iter().position(|known| known.as_deref() == Some(&*name));
            let group = group.ok_or_else(|| format!("{pattern} has an empty group too few"))?;
            Ok((group, Around::new(automaton, part)))
        });
        let around = around.collect::<Result<_, String>>()?;
        Ok(Self { automaton, around, is_global, ignores_empty, is_longest, names })
    }

    /// Steps that were needed to compile it.
    pub(super) fn steps(&self) -> u64 {
        let own = self.automaton.states().len();
        (own + self.around.iter().map(|(_, around)| around.states()).sum::<usize>()) as u64
    }

    /// Whether a group stands for a look-around, and is none of the pattern.
    pub(super) fn is_around(&self, group: usize) -> bool {
        self.around.iter().any(|(known, _)| *known == group)
    }
}

fn invalid(pattern: &str, error: &dyn std::error::Error) -> String {
    let cause = error.source().map_or_else(|| error.to_string(), ToString::to_string);
    // The last line says what is wrong; those before it point at the place.
    let cause = cause.lines().last().unwrap_or_default().trim_start_matches("error: ");
    format!("{pattern} is no regular expression: {cause}")
}
