//! Runs programs.

use crate::program::Program;
use crate::tasks;

/// A deliberate breach of the contract, which the model must find: the proof that it can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Twin {
    /// One submission in eight is said to be accepted, and its job is nowhere.
    LosesJobs,
    /// A message arrives with the request context of another one.
    MixesRequests,
    /// The end of one intercepted message is not told.
    LosesEnds,
    /// The end of one intercepted sending is not told.
    LosesSent,
    /// Answers of a stream change places.
    MixesAnswers,
    /// A copy for a member of a pool is not counted.
    LosesSpread,
    /// A message to a router is dropped.
    LosesRouted,
    /// A child that is to be stopped is not.
    KeepsChildren,
    /// A watcher is not told of an end.
    LosesWatches,
    /// A link is not made.
    LosesLinks,
    /// A delayed message arrives before its time.
    IsEarly,
    /// A repeated message goes on after its end.
    RepeatsOn,
    /// A subscriber misses a message of a topic.
    LosesCopies,
    /// A message to a pool is dropped.
    LosesPooled,
    /// A child is not restarted.
    LosesChildren,
    /// Items of a stream change places.
    MixesItems,
    /// A state that was saved is not the one that is read.
    LosesStates,
    /// A reminder is not kept.
    LosesReminders,
    /// A key of another node is taken for one of this node.
    KeepsKeys,
    /// A call is not made again.
    LosesAttempts,
    /// A supervisor restarts one child where it should restart several.
    RestartsOne,
}

/// All of them, by the names on the command line.
pub const TWINS: &[(&str, Twin)] = &[
    ("loses-jobs", Twin::LosesJobs),
    ("mixes-requests", Twin::MixesRequests),
    ("loses-ends", Twin::LosesEnds),
    ("loses-sent", Twin::LosesSent),
    ("mixes-answers", Twin::MixesAnswers),
    ("loses-spread", Twin::LosesSpread),
    ("loses-routed", Twin::LosesRouted),
    ("keeps-children", Twin::KeepsChildren),
    ("loses-watches", Twin::LosesWatches),
    ("loses-links", Twin::LosesLinks),
    ("is-early", Twin::IsEarly),
    ("repeats-on", Twin::RepeatsOn),
    ("loses-copies", Twin::LosesCopies),
    ("loses-pooled", Twin::LosesPooled),
    ("loses-children", Twin::LosesChildren),
    ("mixes-items", Twin::MixesItems),
    ("loses-states", Twin::LosesStates),
    ("loses-reminders", Twin::LosesReminders),
    ("keeps-keys", Twin::KeepsKeys),
    ("loses-attempts", Twin::LosesAttempts),
    ("restarts-one", Twin::RestartsOne),
];

/// Runs a program; the answer says how it broke the contract, and is empty if it did not.
#[must_use]
pub fn run(program: &Program, twin: Option<Twin>) -> Vec<String> {
    tasks::run(program, twin)
}
