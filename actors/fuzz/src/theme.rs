//! Themes of programs: operations that belong together are drawn more often in one program, since
//! few of them meet where all are drawn alike.

use crate::kind::Kind;

/// How much more often an operation of the theme is drawn.
pub(crate) const THEME_FACTOR: usize = 8;

/// The subject of most operations of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Theme {
    /// Everything alike.
    All,
    /// Ends of actors: watch, link, supervisors.
    Ends,
    /// Messages by ways other than an address: topics, pools, streams, timers.
    Ways,
    /// Entities, their state and their reminders.
    Entities,
}

/// Themes, one of which is drawn for each program.
pub(crate) const THEMES: [Theme; 5] =
    [Theme::All, Theme::All, Theme::Ends, Theme::Ways, Theme::Entities];

impl Theme {
    /// The operations that are drawn more often.
    pub(crate) fn kinds(self) -> &'static [Kind] {
        match self {
            Self::All => &[],
            Self::Ends => &[
                Kind::Actor,
                Kind::Tell,
                Kind::Watch,
                Kind::Link,
                Kind::Unlink,
                Kind::Supervise,
                Kind::FindChild,
                Kind::StartChild,
                Kind::StopChild,
                Kind::EndSupervisor,
                Kind::CloseActor,
                Kind::StopActor,
                Kind::KillActor,
                Kind::FailActor,
                Kind::Idle,
                Kind::Advance,
            ],
            Self::Ways => &[
                Kind::Actor,
                Kind::Tell,
                Kind::TellLater,
                Kind::CancelLater,
                Kind::TellEvery,
                Kind::CancelEvery,
                Kind::Subscribe,
                Kind::Unsubscribe,
                Kind::Publish,
                Kind::Pool,
                Kind::PoolTell,
                Kind::PoolAsk,
                Kind::Broadcast,
                Kind::ClosePool,
                Kind::Route,
                Kind::RouterTell,
                Kind::RouterAsk,
                Kind::Attach,
                Kind::Detach,
                Kind::AskStream,
                Kind::TakeAnswer,
                Kind::DropAnswers,
                Kind::AskRetried,
                Kind::Within,
                Kind::Idle,
                Kind::Advance,
            ],
            Self::Entities => &[
                Kind::EntityTell,
                Kind::EntityAsk,
                Kind::Passivate,
                Kind::FailActivation,
                Kind::Save,
                Kind::Restore,
                Kind::FailStore,
                Kind::MoveKey,
                Kind::Remind,
                Kind::Forget,
                Kind::Within,
                Kind::Idle,
                Kind::Advance,
            ],
        }
    }
}
