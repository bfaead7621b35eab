//! The memory of one task: header, hooks the user's state, and the owner of each part.

use std::alloc::Layout;
use std::any::TypeId;
use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};

use super::extra::Extra;
use super::reference::TaskRef;
use super::refs::References;
use crate::checked::Life;
use crate::failure::{contain, Failure};
use crate::group::{Class, GroupShared};
use crate::slab;
use crate::sync::{
    keeps, order, Arc, AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicU8, Ordering, PlainCell,
    Step,
};
use crate::task::lane::inbox::Inbox;
use crate::task::lane::node::{Link, Node};
use crate::task::turn::lifecycle::{Hook, Hooks, OnFailure, Phase, Stage};
use crate::task::turn::run::Turn;
use crate::task::Context;

/// Bytes of a cache line.
const LINE: usize = 64;

/// Functions and offsets by which type-erased code reaches a task's state and hooks.
pub(crate) struct Vtable {
    /// Calls a lifecycle hook.
    pub(crate) hook: unsafe fn(NonNull<Header>, &mut Turn, Hook<'_>) -> Result<OnFailure, Failure>,
    /// The type of the attachment, if there is one.
    attachment: Option<fn() -> TypeId>,
    /// Offset of the state from the header, in bytes.
    pub(crate) state_offset: usize,
    /// Drops state and hooks.
    pub(crate) drop_state: unsafe fn(NonNull<Header>),
    /// Gives the memory back.
    pub(crate) dealloc: unsafe fn(NonNull<Header>),
    /// Size of the cell in bytes.
    pub(crate) bytes: usize,
}

/// Fields that only the runner of a task touches. Cells: a turn and the code that its jobs call use
/// them one within the other, so neither has a borrow for itself.
#[derive(Debug)]
pub(crate) struct Owner {
    /// Stub, or the node last taken from the submitted lane.
    pub(crate) position: Cell<*const Link>,
    /// First node of the fast lane.
    pub(crate) fast: Cell<*mut Node>,
    /// Nodes in the fast lane.
    pub(crate) fast_len: Cell<u32>,
    /// Whether the submitted lane may be consumed: phase Started and no exclusive future.
    pub(crate) open: Cell<bool>,
    /// Whether every handle is gone.
    pub(crate) orphaned: Cell<bool>,
    /// Whether a producer waits for room.
    pub(crate) room_wanted: Cell<bool>,
    /// Whether the urgent lane may have jobs.
    pub(crate) has_urgent: Cell<bool>,
}

/// The part of a task that does not depend on its types.
#[repr(C, align(64))]
pub(crate) struct Header {
    // First line: all that a submission touches.
    pub(crate) inbox: Inbox,
    /// Jobs the submitted lane holds; `u64::MAX` unbounded, 0 policy mailbox.
    pub(crate) capacity: u64,
    pub(crate) group: Arc<GroupShared>,
    /// Place in the group's list of tasks.
    pub(crate) registered: AtomicU32,
    phase: AtomicU8,
    /// Progress of the task's life. The runner only.
    stage: AtomicU8,
    /// Whether start and end futures are settled.
    pub(crate) is_settled: AtomicBool,
    pub(crate) system: bool,
    /// Number for the layer above, read by its senders; fixed.
    pub(crate) tag: u64,
    // Second line: fields of the runner, and fields that are rarely used.
    owner: Owner,
    extra: AtomicPtr<Extra>,
    /// Handles, plus one of the task's own until it is over.
    refs: References,
    pub(crate) vtable: &'static Vtable,
    class: NonNull<Class>,
    /// When the task was put into a queue, for one turn in 256; 0 otherwise. Nanoseconds.
    pub(crate) scheduled_ns: AtomicU64,
    /// Nothing unless checked.
    pub(crate) life: Life,
}

const _: () = assert!(
    std::mem::size_of::<Header>() == 2 * LINE || cfg!(any(turnwheel_checked, turnwheel_loom))
);
const _: () = assert!(std::mem::offset_of!(Header, owner) == LINE || cfg!(turnwheel_loom));

/// Header, attachment, hooks and state. Those without fields take no memory. `PlainCell` is
/// transparent, so the state is at its field's offset.
#[repr(C)]
struct TaskCell<S, L, K> {
    head: Head<K>,
    lifecycle: PlainCell<ManuallyDrop<L>>,
    state: PlainCell<ManuallyDrop<S>>,
}

/// Header and attachment: a value of the layer above that every handle may read.
#[repr(C)]
struct Head<K> {
    header: Header,
    attachment: K,
}

debug_fields!(impl Header, self => inbox: self.inbox);

/// A state with a value beside it that every handle of its task may read. The value lives until the
/// last handle is gone, weak ones included.
pub trait Attached: Send + 'static {
    /// The type of the value.
    type Attachment: Send + Sync + 'static;
}

/// An attachment, or none.
pub trait Attachment: Send + Sync + 'static {
    /// The type, if there is one.
    const TYPE: Option<fn() -> TypeId>;
}

impl Attachment for () {
    const TYPE: Option<fn() -> TypeId> = None;
}

/// An attachment.
#[derive(Debug)]
#[repr(transparent)]
pub struct Of<K>(pub(crate) K);

impl<K: Send + Sync + 'static> Attachment for Of<K> {
    const TYPE: Option<fn() -> TypeId> = Some(TypeId::of::<K>);
}

/// Parts of a new task.
pub(crate) struct Parts<S, K> {
    pub(crate) state: S,
    pub(crate) attachment: K,
    /// A number of the layer above.
    pub(crate) tag: u64,
    pub(crate) capacity: u64,
    pub(crate) class: NonNull<Class>,
    pub(crate) group: Arc<GroupShared>,
    pub(crate) system: bool,
    pub(crate) extra: Option<Box<Extra>>,
}

/// Makes the cell of a task with one handle. A task with hooks starts scheduled, in `Starting`.
pub(crate) fn make<S: Send + 'static, L: Hooks<S>, K: Attachment>(
    parts: Parts<S, K>,
    mut hooks: L,
) -> TaskRef {
    let starting = hooks.look().is_some();
    let phase = if starting { Phase::Starting } else { Phase::Started };
    // Taken before the cell is built, so that the cell is built in it and not on the stack.
    let place = slab::take(Layout::new::<TaskCell<S, L, K>>()).cast::<TaskCell<S, L, K>>();
    let extra = parts.extra.map_or(ptr::null_mut(), Box::into_raw);
    let header = Header {
        inbox: Inbox::new(starting),
        refs: References::new(),
        vtable: vtable::<S, L, K>(),
        capacity: parts.capacity,
        owner: Owner {
            position: Cell::new(ptr::null()),
            fast: Cell::new(ptr::null_mut()),
            fast_len: Cell::new(0),
            open: Cell::new(!starting),
            orphaned: Cell::new(false),
            room_wanted: Cell::new(false),
            has_urgent: Cell::new(false),
        },
        extra: AtomicPtr::new(extra),
        group: parts.group,
        class: parts.class,
        tag: parts.tag,
        scheduled_ns: AtomicU64::new(0),
        life: Life::new(),
        registered: AtomicU32::new(u32::MAX),
        phase: AtomicU8::new(phase as u8),
        stage: AtomicU8::new(Stage::Unbegun as u8),
        is_settled: AtomicBool::new(false),
        system: parts.system,
    };
    let cell = TaskCell {
        head: Head { header, attachment: parts.attachment },
        lifecycle: PlainCell::new(ManuallyDrop::new(hooks)),
        state: PlainCell::new(ManuallyDrop::new(parts.state)),
    };
    // SAFETY: the place is exclusive and large enough, and its alignment fits.
    unsafe { place.write(cell) };
    let raw = NonNull::new(place).expect("the allocator answers no null").cast::<Header>();
    // SAFETY: the count starts with this reference, and it is made once.
    let task = unsafe { TaskRef::counted(raw) };
    let stub = task.inbox.stub();
    task.owner.position.set(stub);
    task
}

/// Takes apart a task that no other thread has seen, and returns its state.
pub(crate) fn unmake<S: Send + 'static, L: Hooks<S>, K: Attachment>(task: TaskRef) -> S {
    let raw = task.0.cast::<TaskCell<S, L, K>>();
    std::mem::forget(task);
    // SAFETY: made by `make::<S, L, K>` and not shared since.
    let cell = unsafe { raw.as_ref() };
    // SAFETY: no other thread knows the cell.
    let hooks = cell.lifecycle.with_mut(|hooks| unsafe { &mut *hooks });
    // SAFETY: taken once; `ManuallyDrop` does not drop it again.
    let lifecycle = unsafe { ManuallyDrop::take(hooks) };
    drop(lifecycle);
    // SAFETY: as above.
    let place = cell.state.with_mut(|state| unsafe { &mut *state });
    // SAFETY: as above.
    let state = unsafe { ManuallyDrop::take(place) };
    // SAFETY: no other thread knows the cell; hooks and state were taken.
    unsafe { dealloc::<S, L, K>(raw.cast()) };
    state
}

fn vtable<S: Send + 'static, L: Hooks<S>, K: Attachment>() -> &'static Vtable {
    struct For<S, L, K>(std::marker::PhantomData<(S, L, K)>);
    impl<S: Send + 'static, L: Hooks<S>, K: Attachment> For<S, L, K> {
        const VTABLE: Vtable = Vtable {
            hook: call_hook::<S, L, K>,
            attachment: K::TYPE,
            state_offset: std::mem::offset_of!(TaskCell<S, L, K>, state),
            drop_state: drop_state::<S, L, K>,
            dealloc: dealloc::<S, L, K>,
            bytes: std::mem::size_of::<TaskCell<S, L, K>>(),
        };
    }
    &For::<S, L, K>::VTABLE
}

unsafe fn call_hook<S: Send + 'static, L: Hooks<S>, K>(
    header: NonNull<Header>,
    turn: &mut Turn,
    hook: Hook<'_>,
) -> Result<OnFailure, Failure> {
    // SAFETY: the vtable belongs to this cell type.
    let cell = unsafe { header.cast::<TaskCell<S, L, K>>().as_ref() };
    // SAFETY: hooks run in a turn, one at a time, and the hooks are dropped after the last one.
    let lifecycle = cell.lifecycle.with_mut(|hooks| unsafe { &mut *hooks });
    // SAFETY: the runner has the state for itself.
    let state = cell.state.with_mut(|state| unsafe { &mut *state });
    let Some(lifecycle) = lifecycle.look() else { return Ok(OnFailure::Resume) };
    let mut cx = Context::new(turn);
    match hook {
        Hook::Starting => lifecycle.starting(state, &mut cx)?,
        Hook::Started => lifecycle.started(state, &mut cx)?,
        Hook::CloseRequested => lifecycle.close_requested(state, &mut cx)?,
        Hook::Closing => lifecycle.closing(state, &mut cx)?,
        Hook::Closed => lifecycle.closed(state, &mut cx)?,
        Hook::Failed(failure) => lifecycle.failed(state, &mut cx, failure),
        Hook::OnFailure(failure) => return Ok(lifecycle.on_failure(state, &mut cx, failure)),
        Hook::Interrupted => lifecycle.interrupted(state, &mut cx)?,
    }
    Ok(OnFailure::Resume)
}

unsafe fn drop_state<S, L, K>(header: NonNull<Header>) {
    // SAFETY: the vtable belongs to this cell type.
    let cell = unsafe { header.cast::<TaskCell<S, L, K>>().as_ref() };
    // SAFETY: the runner of the last turn has them for itself.
    let hooks = cell.lifecycle.with_mut(|hooks| unsafe { &mut *hooks });
    // Contained one by one: both are dropped, and two panics at once would abort.
    contain("dropping the hooks of a task", || {
        // SAFETY: called once, in the last turn.
        unsafe { ManuallyDrop::drop(hooks) };
    });
    // SAFETY: the runner of the last turn has it for itself.
    let state = cell.state.with_mut(|state| unsafe { &mut *state });
    contain("dropping the state of a task", || {
        // SAFETY: called once, in the last turn.
        unsafe { ManuallyDrop::drop(state) };
    });
}

unsafe fn dealloc<S, L, K>(header: NonNull<Header>) {
    let cell = header.cast::<TaskCell<S, L, K>>().as_ptr();
    // User destructors may panic: they must not unwind into a turn whose task has ended by itself.
    // SAFETY: the last reference is gone.
    contain("dropping what a task kept", || unsafe { std::ptr::drop_in_place(cell) });
    // SAFETY: it came from the slab with this layout.
    unsafe { slab::give(cell.cast(), Layout::new::<TaskCell<S, L, K>>()) };
}

/// The attachment of a task with this state.
///
/// # Safety
///
/// A reference of the caller keeps the cell of a `Task<S>` for `'a`.
#[inline(always)]
pub(in crate::task) unsafe fn attachment<'a, S: Attached>(
    header: NonNull<Header>,
) -> &'a S::Attachment {
    // SAFETY: the caller keeps it.
    let vtable = unsafe { header.as_ref() }.vtable;
    assert!(vtable.attachment.is_some(), "the task has an attachment");
    // SAFETY: tasks of this state have an attachment of this type or none.
    unsafe { attached(header) }
}

/// The attachment of a task of any state type, if the attachment is of this type.
///
/// # Safety
///
/// A reference of the caller keeps the cell for `'a`.
pub(in crate::task) unsafe fn attachment_of_type<'a, K: 'static>(
    header: NonNull<Header>,
) -> Option<&'a K> {
    // SAFETY: the caller keeps it.
    let type_of = unsafe { header.as_ref() }.vtable.attachment?;
    // SAFETY: the type was compared.
    (type_of() == TypeId::of::<K>()).then(|| unsafe { attached(header) })
}

/// # Safety
///
/// The cell has an attachment of this type, and is kept for `'a`.
#[inline(always)]
unsafe fn attached<'a, K>(header: NonNull<Header>) -> &'a K {
    // SAFETY: it is behind the header, and no thread writes to it.
    &unsafe { header.cast::<Head<K>>().as_ref() }.attachment
}

impl Header {
    /// The fields that only the runner touches.
    ///
    /// # Safety
    ///
    /// The caller is the runner.
    #[inline(always)]
    pub(crate) unsafe fn owner(&self) -> &Owner {
        &self.owner
    }

    /// Prefetches the memory that the coming turn will touch; the submission has touched the rest.
    #[inline(always)]
    pub(crate) fn prefetch_for_turn(&self) {
        let start = ptr::from_ref(self).cast::<i8>();
        #[cfg(target_arch = "x86_64")]
        for line in [1, 2, 3] {
            use std::arch::x86_64::{_mm_prefetch, _MM_HINT_T0};
            // SAFETY: a hint; it may name any address.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(line * LINE)) };
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = start;
    }

    /// The optional part, if it was made.
    #[inline(always)]
    pub(crate) fn extra(&self) -> Option<&Extra> {
        // Acquire: pairs with the exchange in `extra_or_make`.
        let extra = self.extra.load(Ordering::Acquire);
        // SAFETY: once set it stays until the cell is freed.
        unsafe { extra.as_ref() }
    }

    /// The optional part; one allocation at its first use.
    #[inline(always)]
    pub(crate) fn extra_or_make(&self) -> &Extra {
        self.extra().unwrap_or_else(|| self.make_extra())
    }

    #[cold]
    #[inline(never)]
    fn make_extra(&self) -> &Extra {
        let fresh = Box::into_raw(Box::default());
        // AcqRel: publishes the new part, or shows the part of a faster installer.
        let set = order(Step::ExtraRelease, Ordering::AcqRel);
        let (none, seen) = (ptr::null_mut(), Ordering::Acquire);
        match self.extra.compare_exchange(none, fresh, set, seen) {
            // SAFETY: it stays until the cell is freed.
            Ok(_) => unsafe { &*fresh },
            Err(winner) => {
                // SAFETY: ours was never seen by anybody.
                drop(unsafe { Box::from_raw(fresh) });
                // SAFETY: as above.
                unsafe { &*winner }
            }
        }
    }

    /// As `extra`, but ordered after all earlier writes of an installer: a read-modify-write, so
    /// that either we see the part or its installer sees our writes.
    pub(crate) fn extra_settled(&self) -> Option<&Extra> {
        if !keeps(Step::ExtraSettled) {
            return self.extra();
        }
        let null = ptr::null_mut();
        let seen = self.extra.compare_exchange(null, null, Ordering::AcqRel, Ordering::Acquire);
        // SAFETY: once set it stays until the cell is freed.
        seen.err().and_then(|extra| unsafe { extra.as_ref() })
    }

    /// The phase now.
    #[inline(always)]
    pub(crate) fn phase(&self) -> Phase {
        Phase::from_u8(self.phase.load(Ordering::Acquire))
    }

    /// Progress of the task's life. Relaxed, as below: the run queue passes it from runner to
    /// runner.
    pub(crate) fn stage_owner(&self) -> Stage {
        match self.stage.load(Ordering::Relaxed) {
            0 => Stage::Unbegun,
            1 => Stage::Living,
            _ => Stage::Ending,
        }
    }

    pub(crate) fn set_stage_owner(&self, stage: Stage) {
        self.stage.store(stage as u8, Ordering::Relaxed);
    }

    /// Changes the phase; only the runner does.
    pub(crate) fn set_phase_owner(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Release);
    }

    /// The actor class for metrics.
    pub(crate) fn class(&self) -> &Class {
        // SAFETY: the group owns its classes and the header holds the group.
        unsafe { self.class.as_ref() }
    }

    /// The name, or the name of the class if it has none of its own.
    pub(crate) fn name(&self) -> &str {
        self.extra().and_then(|extra| extra.name.as_deref()).unwrap_or_else(|| self.class().name())
    }

    /// Sets signal bits and schedules the task if that is needed. Returns false if it is gone.
    pub(crate) fn signal(&self, set: u32) -> bool {
        let result = self.inbox.signal(set);
        if result.schedule {
            crate::group::schedule(TaskPtr(NonNull::from(self)));
        }
        !result.dead
    }

    /// The count of references.
    pub(in crate::task) fn refs(&self) -> &References {
        &self.refs
    }

    /// Whether no handle is left but such as are on their way out. Only before the task is over.
    pub(crate) fn is_unreferenced(&self) -> bool {
        self.refs.is_unreferenced()
    }
}

impl Drop for Header {
    fn drop(&mut self) {
        let extra = self.extra.load(Ordering::Acquire);
        if !extra.is_null() {
            // SAFETY: the last reference is gone, so no other thread reaches it.
            drop(unsafe { Box::from_raw(extra) });
        }
    }
}

/// A run queue's entry: a task that is scheduled and therefore alive. Not a counted reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TaskPtr(pub(crate) NonNull<Header>);

// SAFETY: an entry is handed to one runner at a time; the state inside is `Send`.
unsafe impl Send for TaskPtr {}

impl TaskPtr {
    /// The header of the scheduled task.
    ///
    /// # Safety
    ///
    /// The task is scheduled or running, and the borrow ends before its turn does.
    #[inline(always)]
    pub(crate) unsafe fn header<'a>(self) -> &'a Header {
        // SAFETY: forwarded to the caller.
        unsafe { self.0.as_ref() }.alive()
    }
}
