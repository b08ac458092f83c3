//! Threads whose work is known exactly: page faults that they cause, and nothing else.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::SeqCst};
use std::thread::JoinHandle;

const PAGE: usize = 4096;

/// Touches so many pages of new memory, each of which is one page fault.
pub fn touch(pages: usize) {
    let length = pages.max(1) * PAGE;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: the mapping is new, is used within its length, and is unmapped once.
    unsafe {
        let memory = libc::mmap(std::ptr::null_mut(), length, access, kind, -1, 0);
        assert_ne!(memory, libc::MAP_FAILED);
        libc::madvise(memory, length, libc::MADV_NOHUGEPAGE);
        for page in 0..pages {
            memory.cast::<u8>().add(page * PAGE).write_volatile(1);
        }
        libc::munmap(memory, length);
    }
}

/// Threads that do work when they are told.
pub struct Crew(Vec<(UnixStream, JoinHandle<()>)>);

impl Crew {
    pub fn new(threads: usize, work: impl Fn(u64) + Copy + Send + 'static) -> Crew {
        let thread = |_| {
            let (ours, mut theirs) = UnixStream::pair().expect("a pair of sockets");
            let thread = std::thread::spawn(move || {
                let mut amount = [0; 8];
                while theirs.read_exact(&mut amount).is_ok() {
                    work(u64::from_ne_bytes(amount));
                    theirs.write_all(&amount).expect("the other end is open");
                }
            });
            (ours, thread)
        };
        let crew = Crew((0..threads).map(thread).collect());
        crew.run(1); // so that its stacks and code are there
        crew
    }

    /// Lets each thread do this much work, all at once, and waits for them.
    pub fn run(&self, amount: u64) {
        let mut bytes = amount.to_ne_bytes();
        for (stream, _) in &self.0 {
            (&*stream).write_all(&bytes).expect("the thread is there");
        }
        for (stream, _) in &self.0 {
            (&*stream).read_exact(&mut bytes).expect("the thread is there");
        }
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        for (stream, thread) in self.0.drain(..) {
            drop(stream);
            let _ = thread.join();
        }
    }
}

/// The stack of a bare thread, all of which is there.
const STACK: usize = 16 * PAGE;

/// What a bare thread does.
#[repr(C)]
struct Slot {
    /// 0 if the thread is gone: the kernel writes that.
    is_there: AtomicU32,
    pages: usize,
    /// Whether it waits until [`Bare::finish`] is called.
    waits: bool,
    go: *const AtomicBool,
}

/// Threads without a C library: they cause the page faults that they are told to, and no others.
pub struct Bare {
    memory: *mut u8,
    slots: usize,
    go: Box<AtomicBool>,
    /// The pages that all threads so far touch while they do not wait.
    pub touched: AtomicUsize,
    /// Those that the waiting threads will touch.
    pub waiting: AtomicUsize,
}

// SAFETY: the memory is used by the threads of this type, whose fields are atomic or written before the thread starts.
unsafe impl Sync for Bare {}
// SAFETY: as above.
unsafe impl Send for Bare {}

impl Bare {
    /// Makes room for so many threads at a time.
    pub fn new(slots: usize) -> Bare {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE;
        // SAFETY: the mapping is new.
        let memory =
            unsafe { libc::mmap(std::ptr::null_mut(), slots * STACK, access, kind, -1, 0) };
        assert_ne!(memory, libc::MAP_FAILED);
        Bare {
            memory: memory.cast(),
            slots,
            go: Box::new(AtomicBool::new(false)),
            touched: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
        }
    }

    /// The slot at the top of a stack.
    fn slot(&self, number: usize) -> *mut Slot {
        assert!(number < self.slots);
        // SAFETY: within the mapping, which is aligned.
        unsafe { self.memory.add((number + 1) * STACK - 256).cast() }
    }

    fn is_there(&self, number: usize) -> bool {
        // SAFETY: the memory is zeroed at first, and this field is used as an atomic alone.
        unsafe { (*self.slot(number)).is_there.load(SeqCst) != 0 }
    }

    /// Starts a thread with this stack, once the one before has gone.
    pub fn start(&self, number: usize, pages: usize, waits: bool) {
        while self.is_there(number) {
            std::thread::yield_now();
        }
        let total = if waits { &self.waiting } else { &self.touched };
        total.fetch_add(pages, SeqCst);
        let slot = self.slot(number);
        let flags = libc::CLONE_VM
            | libc::CLONE_FS
            | libc::CLONE_FILES
            | libc::CLONE_SIGHAND
            | libc::CLONE_THREAD
            | libc::CLONE_SYSVSEM
            | libc::CLONE_CHILD_CLEARTID;
        // SAFETY: no thread uses the stack. The new one runs `bare`, which uses neither thread-local storage nor more stack, and
        // the kernel clears `is_there` when it has ended.
        unsafe {
            let go: *const AtomicBool = &raw const *self.go;
            slot.write(Slot { is_there: AtomicU32::new(1), pages, waits, go });
            let gone = (&raw mut (*slot).is_there).cast::<libc::pid_t>();
            let none = std::ptr::null_mut::<libc::c_void>();
            let thread = libc::clone(bare, slot.cast(), flags, slot.cast(), none, none, gone);
            assert!(thread > 0, "{}", std::io::Error::last_os_error());
        }
    }

    /// Whether all threads that are there wait.
    pub fn are_only_waiting(&self) -> bool {
        // SAFETY: the field is written before the thread starts, by `start` alone.
        (0..self.slots)
            .all(|number| !self.is_there(number) || unsafe { (*self.slot(number)).waits })
    }

    /// Lets the waiting threads go on, and waits for all.
    pub fn finish(&self) {
        self.go.store(true, SeqCst);
        for number in 0..self.slots {
            while self.is_there(number) {
                std::thread::yield_now();
            }
        }
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        self.finish();
        // The kernel clears the mark before the thread has left the stack for good, in the kernel alone.
        // SAFETY: no thread uses the mapping any more.
        unsafe { libc::munmap(self.memory.cast(), self.slots * STACK) };
    }
}

extern "C" fn bare(slot: *mut libc::c_void) -> libc::c_int {
    // SAFETY: `start` passes a slot that is valid until the thread has ended.
    let slot = unsafe { &*slot.cast::<Slot>() };
    let pause = libc::timespec { tv_sec: 0, tv_nsec: 50_000 };
    // SAFETY: the flag outlives the threads, and `pause` is valid for the read.
    unsafe {
        while slot.waits && !(*slot.go).load(SeqCst) {
            libc::nanosleep(&raw const pause, std::ptr::null_mut());
        }
    }
    touch(slot.pages);
    0
}
