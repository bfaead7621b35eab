//! The operations of programs, with the weights of the generator.

/// Meaning of an operation's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// Nothing: the operation has no body.
    None,
    /// A job, and the destructor of what it captures.
    Job,
    /// The hooks and the destructor of a task's state.
    Hooks,
    /// The steps of a future, its continuation, its destructor.
    Future,
    /// The destructor of a value.
    Value,
    /// Behaviour of a waker when it is called and when it is dropped.
    Waker,
    /// The hooks of an actor.
    ActorHooks,
    /// Behaviour of a message's handler, and of the message's destructor.
    Message,
    /// Operations without a context.
    Loose,
}

/// Where an operation is performed; decides which ones are possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// On the thread of the simulation, outside of turns.
    Main,
    /// In a job or hook with its context.
    Job,
    /// In a handler of an actor.
    Handler,
    /// In a destructor, a waker or the poll of a future: without a context.
    Loose,
}

macro_rules! kinds {
    ($($name:ident $text:literal $main:literal $job:literal $loose:literal $body:ident,)*) => {
        /// An operation. The name in a printed program says which function of the API it calls.
        #[expect(missing_docs, reason = "the names are those of the API")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Kind {
            $($name,)*
        }

        /// All operations.
        pub const KINDS: &[Kind] = &[$(Kind::$name,)*];

        impl Kind {
            /// The name in a printed program.
            #[must_use]
            pub fn text(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }

            /// How often the generator draws it there; 0 where it is impossible.
            #[must_use]
            pub fn weight(self, place: Place) -> usize {
                let [main, job, loose]: [usize; 3] = match self {
                    $(Self::$name => [$main, $job, $loose],)*
                };
                match place {
                    Place::Main => main,
                    Place::Job => job,
                    Place::Handler => loose + self.handler_weight(),
                    Place::Loose => loose,
                }
            }

            /// The description in its body.
            #[must_use]
            pub fn body(self) -> Body {
                match self {
                    $(Self::$name => Body::$body,)*
                }
            }
        }
    };
}

kinds! {
    Spawn "spawn" 14 4 3 Hooks,
    CloneTask "clone-task" 1 1 1 None,
    DropTask "drop-task" 3 2 2 None,
    Downgrade "downgrade" 1 1 1 None,
    Upgrade "upgrade" 1 1 1 None,
    Submit "submit" 14 8 8 Job,
    Run "run" 2 6 6 Job,
    RunSelf "run-self" 0 10 0 Job,
    SubmitSelf "submit-self" 0 5 0 Job,
    Call "call" 6 3 3 Job,
    Urgent "submit-urgent" 4 3 3 Job,
    Keyed "submit-keyed" 4 2 2 Job,
    Again "submit-again" 4 3 2 Job,
    RunAgain "run-again" 0 3 0 Job,
    Reserve "reserve" 4 2 2 Waker,
    DropReserve "drop-reserve" 2 1 1 None,
    PermitSubmit "permit-submit" 4 2 2 Job,
    DropPermit "drop-permit" 2 1 1 None,
    Close "close" 2 1 2 None,
    CloseWithin "close-within" 2 1 1 None,
    Stop "stop" 2 1 2 None,
    Kill "kill" 2 1 2 None,
    Fail "fail" 2 1 1 None,
    Interrupt "interrupt" 2 2 2 None,
    CloseSelf "close-self" 0 1 0 None,
    StopSelf "stop-self" 0 2 0 None,
    FailSelf "fail-self" 0 2 0 None,
    Yield "yield" 0 3 0 None,
    Panic "panic" 0 8 6 None,
    Raise "raise" 0 3 1 None,
    Started "started" 2 1 1 None,
    Closed "closed" 2 1 1 None,
    After "after" 0 7 0 Job,
    At "at" 0 2 0 Job,
    Every "every" 0 3 0 Job,
    EveryAfter "every-after" 0 2 0 Job,
    CancelTimer "cancel-timer" 4 4 4 None,
    Condition "condition" 0 5 0 Job,
    Signal "signal" 6 6 6 None,
    CancelCondition "cancel-condition" 1 1 1 None,
    DropCondition "drop-condition" 1 1 1 None,
    Send "send" 5 4 4 Value,
    TryTake "try-take" 2 1 1 None,
    Consume "consume" 0 4 0 Job,
    DropConsumer "drop-consumer" 1 1 1 None,
    CloseChannel "close-channel" 1 1 1 None,
    Drained "drained" 1 1 1 None,
    Make "completion" 6 4 3 None,
    Complete "complete" 6 5 5 Value,
    CompleteFail "complete-fail" 2 1 1 None,
    CloneCompleter "clone-completer" 1 1 1 None,
    DropCompleter "drop-completer" 3 2 2 None,
    CancelCompletion "cancel-completion" 2 2 2 None,
    DropCompletion "drop-completion" 2 1 1 None,
    Poll "poll" 3 2 2 Waker,
    OnCancel "on-cancel" 2 1 1 Waker,
    OnCompletion "on-completion" 0 5 0 Job,
    OnHolding "on-completion-holding" 0 3 0 Job,
    OnAll "on-all" 0 2 0 Job,
    ThenOn "then-on" 4 3 3 Job,
    ThenInline "then-inline" 2 1 1 Value,
    All "all" 2 1 1 None,
    First "first-success" 2 1 1 None,
    Race "race" 2 1 1 None,
    Shared "shared" 2 1 1 None,
    Sleep "sleep" 2 2 2 None,
    Interleaved "await-interleaved" 0 6 0 Future,
    Holding "await-holding" 0 4 0 Future,
    Exclusive "await-exclusive" 0 6 0 Future,
    RunExclusive "run-exclusive" 0 3 0 Future,
    Blocking "run-blocking" 0 2 0 Loose,
    CancelSubscription "cancel-subscription" 2 2 2 None,
    CancelAll "cancel-subscriptions" 0 1 0 None,
    Actor "actor" 6 1 1 ActorHooks,
    DropAddress "drop-address" 1 1 1 None,
    Tell "tell" 8 3 5 Message,
    TellUrgent "tell-urgent" 2 1 2 Message,
    Ask "ask" 6 2 4 Message,
    DropAsk "drop-ask" 2 1 1 None,
    CloseActor "close-actor" 1 1 1 None,
    StopActor "stop-actor" 1 1 1 None,
    KillActor "kill-actor" 1 1 1 None,
    EntityTell "entity-tell" 5 2 3 Message,
    EntityAsk "entity-ask" 5 2 3 Message,
    Passivate "passivate" 2 1 1 None,
    FailActivation "fail-activation" 1 0 1 None,
    Answer "answer" 3 2 2 None,
    DropReply "drop-reply" 1 1 1 None,
    Forward "forward" 0 0 0 Message,
    TellSelf "tell-self" 0 0 0 Message,
    TellAfter "tell-after" 0 0 0 Message,
    Pipe "pipe" 0 0 0 Message,
    FailActor "fail-own-actor" 0 0 0 None,
    Within "within-request" 3 1 2 Loose,
    Watch "watch" 0 0 0 Message,
    Link "link" 2 1 1 None,
    Unlink "unlink" 1 1 1 None,
    TellLater "tell-later" 4 2 3 Message,
    CancelLater "cancel-later" 2 1 1 None,
    TellEvery "tell-every" 0 0 0 None,
    CancelEvery "cancel-every" 2 1 1 None,
    Subscribe "subscribe" 5 2 3 None,
    Unsubscribe "unsubscribe" 1 1 1 None,
    Publish "publish" 6 3 4 Value,
    Pool "pool" 3 1 1 ActorHooks,
    PoolTell "pool-tell" 6 2 3 Message,
    PoolAsk "pool-ask" 3 1 2 Message,
    Broadcast "pool-broadcast" 3 1 2 Value,
    ClosePool "close-pool" 1 1 1 None,
    Route "route" 3 1 2 None,
    RouterTell "router-tell" 5 2 3 Message,
    RouterAsk "router-ask" 3 1 2 Message,
    DropRouter "drop-router" 1 1 1 None,
    Supervise "supervise" 3 1 1 ActorHooks,
    FindChild "find-child" 5 1 2 None,
    StartChild "start-child" 3 1 1 ActorHooks,
    StopChild "stop-child" 3 1 1 None,
    EndSupervisor "end-supervisor" 1 1 1 None,
    Attach "attach-stream" 4 1 2 Value,
    Detach "detach-stream" 1 1 1 None,
    AskStream "ask-stream" 5 2 3 Future,
    TakeAnswer "take-answer" 5 2 3 Waker,
    DropAnswers "drop-answers" 1 1 1 None,
    Save "save" 6 2 3 None,
    Restore "restore" 3 1 2 None,
    FailStore "fail-store" 2 1 1 None,
    MoveKey "move-key" 2 1 1 None,
    AskRetried "ask-retried" 3 1 2 None,
    Remind "remind" 3 1 2 None,
    Forget "unremind" 1 1 1 None,
    Idle "idle" 12 0 0 None,
    Step "step" 5 0 0 None,
    Advance "advance" 8 0 0 None,
    LoseHints "lose-hints" 1 0 0 None,
    SlowWorker "slow-worker" 1 0 0 None,
    Pend "pend" 0 0 0 None,
    Then "then" 0 0 0 Job,
    OnDrop "on-drop" 0 0 0 Loose,
    OnWake "on-wake" 0 0 0 Loose,
    OnStarting "on-starting" 0 0 0 Job,
    OnStarted "on-started" 0 0 0 Job,
    OnCloseRequested "on-close-requested" 0 0 0 Job,
    OnClosing "on-closing" 0 0 0 Job,
    OnClosed "on-closed" 0 0 0 Job,
    OnFailed "on-failed" 0 0 0 Job,
    OnFailure "on-failure" 0 0 0 Job,
    OnInterrupted "on-interrupted" 0 0 0 Job,
    OnEnded "on-ended" 0 0 0 Loose,
}

impl Kind {
    /// The weight that it has in handlers alone.
    fn handler_weight(self) -> usize {
        match self {
            Self::TellSelf | Self::TellAfter | Self::Forward => 5,
            Self::Pipe => 4,
            Self::Watch => 5,
            Self::TellEvery => 3,
            Self::FailActor => 2,
            Self::Pend => 8,
            _ => 0,
        }
    }

    /// The operation of this name.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        KINDS.iter().copied().find(|kind| kind.text() == text)
    }
}

/// The hooks of an actor.
pub const ACTOR_HOOKS: &[Kind] =
    &[Kind::OnStarting, Kind::OnClosing, Kind::OnFailure, Kind::OnEnded];

/// The hooks of a task.
pub const HOOKS: &[Kind] = &[
    Kind::OnStarting,
    Kind::OnStarted,
    Kind::OnCloseRequested,
    Kind::OnClosing,
    Kind::OnClosed,
    Kind::OnFailed,
    Kind::OnFailure,
    Kind::OnInterrupted,
];
