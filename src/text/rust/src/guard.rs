//! Runs code that hostile input may drive into a panic, deep recursion or a memory explosion.
//!
//! The code runs on a thread of its own with a large stack. Its allocations are counted by the global allocator; one that
//! would pass the budget, or that the system refuses, cannot fail (the crates abort the process on a refused allocation, and an
//! allocator must not unwind), so the thread reports it and then sleeps for ever, with at most its budget of memory. A handle that
//! was driven there once refuses further work ([`Fuse`]), so the loss is bounded by the number of hostile files loaded.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, Once};

use crate::{Failure, Outcome, Status};

/// Address space, not memory: pages are touched only by deep recursion.
const STACK_BYTES: usize = 256 << 20;

#[derive(Clone, Copy, PartialEq)]
enum Phase {
    Running,
    Finished,
    OverBudget,
    RefusedBySystem,
}

struct Signal {
    phase: Mutex<Phase>,
    changed: Condvar,
}

impl Signal {
    fn set(&self, phase: Phase) {
        *self.phase.lock().unwrap_or_else(|e| e.into_inner()) = phase;
        self.changed.notify_all();
    }
    fn wait(&self) -> Phase {
        let mut phase = self.phase.lock().unwrap_or_else(|e| e.into_inner());
        while *phase == Phase::Running {
            phase = self.changed.wait(phase).unwrap_or_else(|e| e.into_inner());
        }
        *phase
    }
}

thread_local! {
    // Bytes this thread may still allocate; only looked at while SIGNAL is set. Neither has a destructor, so that the
    // allocator may use them at any time in a thread's life.
    static LEFT: Cell<isize> = const { Cell::new(0) };
    static SIGNAL: Cell<*const Signal> = const { Cell::new(std::ptr::null()) };
}

struct CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn take(bytes: usize) {
    let signal = SIGNAL.get();
    if signal.is_null() {
        return;
    }
    let left = LEFT.get().saturating_sub(isize::try_from(bytes).unwrap_or(isize::MAX));
    LEFT.set(left);
    if left < 0 {
        stop(signal, Phase::OverBudget);
    }
}

/// What the system gave, or never back where it gave nothing.
fn given(pointer: *mut u8) -> *mut u8 {
    let signal = SIGNAL.get();
    if pointer.is_null() && !signal.is_null() {
        stop(signal, Phase::RefusedBySystem);
    }
    pointer
}

fn stop(signal: *const Signal, phase: Phase) -> ! {
    // What follows may allocate, and must not come back here.
    SIGNAL.set(std::ptr::null());
    // SAFETY: the Arc that owns the signal is held by this thread's closure, which never returns from here.
    unsafe { &*signal }.set(phase);
    loop {
        std::thread::sleep(std::time::Duration::from_secs(3600));
    }
}

fn give(bytes: usize) {
    if !SIGNAL.get().is_null() {
        LEFT.set(LEFT.get().saturating_add(isize::try_from(bytes).unwrap_or(isize::MAX)));
    }
}

// SAFETY: every request is passed on to the system allocator unchanged.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        take(layout.size());
        given(unsafe { System.alloc(layout) })
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        take(layout.size());
        given(unsafe { System.alloc_zeroed(layout) })
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        give(layout.size());
        unsafe { System.dealloc(pointer, layout) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        take(new_size);
        give(layout.size());
        given(unsafe { System.realloc(pointer, layout, new_size) })
    }
}

/// Set once a handle has exhausted its memory budget; from then on it refuses work.
#[derive(Clone, Default)]
pub struct Fuse(Arc<AtomicBool>);

impl Fuse {
    fn check(&self) -> Outcome<()> {
        match self.0.load(Ordering::Relaxed) {
            true => Err(Failure::limit("refused: an earlier call on this file exhausted its memory limit")),
            false => Ok(()),
        }
    }
}

/// Runs `work` with `budget` bytes of memory on its own thread and waits for it.
pub fn run<T, F>(fuse: &Fuse, budget: usize, work: F) -> Outcome<T>
where
    T: Send + 'static,
    F: FnOnce() -> Outcome<T> + Send + 'static,
{
    fuse.check()?;
    silence_guarded_panics();
    let signal = Arc::new(Signal { phase: Mutex::new(Phase::Running), changed: Condvar::new() });
    let inner = signal.clone();
    let thread = std::thread::Builder::new().name("haast-text".into()).stack_size(STACK_BYTES).spawn(move || {
        LEFT.set(isize::try_from(budget).unwrap_or(isize::MAX));
        SIGNAL.set(Arc::as_ptr(&inner));
        let outcome = catch(work);
        SIGNAL.set(std::ptr::null());
        inner.set(Phase::Finished);
        outcome
    });
    const REMEDY: &str = "raise its limits of processes and memory (ulimit -u, ulimit -v), or close other programs";
    let thread = thread.map_err(|e| {
        let stack = STACK_BYTES >> 20;
        Failure::new(Status::Resource, format!("the system refused a thread with a stack of {stack} MiB: {e}: {REMEDY}"))
    })?;
    let phase = signal.wait();
    if phase != Phase::Finished {
        fuse.0.store(true, Ordering::Relaxed);
    }
    match phase {
        Phase::OverBudget => return Err(Failure::limit(format!("needs more than its limit of {} MiB of memory", budget >> 20))),
        Phase::RefusedBySystem => return Err(Failure::new(Status::Resource, format!("the system refused memory: {REMEDY}"))),
        Phase::Finished | Phase::Running => {}
    }
    thread.join().unwrap_or_else(|_| Err(Failure::new(Status::Internal, "the worker thread panicked")))
}

/// Runs `work` on this thread; a panic becomes a failure. For short work on trusted data.
pub fn catch<T>(work: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|payload| {
        let text = payload
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| payload.downcast_ref::<&str>().copied())
            .unwrap_or("no message");
        Err(Failure::new(Status::Internal, format!("the text library panicked: {text}")))
    })
}

// The panic message is returned as an error; printing it as well would put file contents on the terminal.
fn silence_guarded_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if SIGNAL.get().is_null() {
                before(info);
            }
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_the_value() {
        assert_eq!(run(&Fuse::default(), 1 << 20, || Ok(7)).unwrap(), 7);
    }

    #[test]
    fn a_panic_is_an_error() {
        let failure = run::<(), _>(&Fuse::default(), 1 << 20, || panic!("boom {}", 1)).unwrap_err();
        assert_eq!(failure.status, Status::Internal);
        assert!(failure.message.contains("boom 1"), "{}", failure.message);
    }

    #[test]
    fn one_allocation_above_the_budget_is_an_error() {
        let fuse = Fuse::default();
        let failure = run(&fuse, 1 << 20, || Ok(vec![1u8; 1 << 50].len())).unwrap_err();
        assert_eq!(failure.status, Status::Limit);
        let again = run(&fuse, 1 << 20, || Ok(1)).unwrap_err();
        assert!(again.message.contains("refused"), "{}", again.message);
    }

    #[test]
    fn an_allocation_that_the_system_refuses_is_an_error() {
        let fuse = Fuse::default();
        let failure = run(&fuse, isize::MAX as usize, || Ok(vec![1u8; 1 << 60].len())).unwrap_err();
        assert_eq!(failure.status, Status::Resource);
        assert!(failure.message.contains("the system refused memory"), "{}", failure.message);
        assert!(run(&fuse, 1 << 20, || Ok(1)).is_err());
    }

    #[test]
    fn many_allocations_above_the_budget_are_an_error() {
        let failure = run(&Fuse::default(), 1 << 20, || {
            let mut kept = Vec::new();
            for i in 0..100_000usize {
                kept.push(vec![i; 16]);
            }
            Ok(kept.len())
        });
        assert_eq!(failure.unwrap_err().status, Status::Limit);
    }

    #[test]
    fn freed_memory_does_not_count() {
        let total = run(&Fuse::default(), 1 << 20, || Ok((0..1000).map(|i| vec![1u8; 500_000 + i].len()).sum::<usize>()));
        assert!(total.unwrap() > 500_000_000);
    }

    #[test]
    fn deep_recursion_has_room() {
        fn depth(n: usize) -> usize {
            if n == 0 {
                0
            } else {
                1 + std::hint::black_box(depth(n - 1))
            }
        }
        assert_eq!(run(&Fuse::default(), 1 << 20, || Ok(depth(1_000_000))).unwrap(), 1_000_000);
    }
}
