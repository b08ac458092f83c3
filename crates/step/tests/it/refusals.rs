//! Each system call refused in turn, a fork while a thread counts, and threads that want to count at the same time.

use crate::in_turn;
use rdpmc_step::{StepError, Steps, count};
use rdpmc_testing::process::close_all;
use rdpmc_testing::process::{fork, in_child, refuse, wait};
use rdpmc_testing::skips;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

/// The handler of SIGTRAP, and the signal stack.
fn state() -> (usize, usize, i32) {
    // SAFETY: structures of integers and addresses, for which zeros are valid, and calls that fill them.
    unsafe {
        let (mut action, mut stack): (libc::sigaction, libc::stack_t) = std::mem::zeroed();
        libc::sigaction(libc::SIGTRAP, std::ptr::null(), &mut action);
        libc::sigaltstack(std::ptr::null(), &mut stack);
        (action.sa_sigaction, stack.ss_sp as usize, stack.ss_flags)
    }
}

/// A refusal of the first, second or last call is an error, the code has not run, and what was done before is undone.
#[test]
fn refused_calls() {
    in_turn(|| {
        for (call, name) in [
            (libc::SYS_sigaltstack, "sigaltstack"),
            (libc::SYS_rt_sigaction, "sigaction"),
            (libc::SYS_rt_sigprocmask, "pthread_sigmask"),
        ] {
            let outcome = in_child(|| {
                let before = state();
                let mut has_run = false;
                refuse(call, libc::EACCES);
                let counted = count(1_000, || has_run = true);
                let expected = Err::<u64, _>((name, libc::EACCES));
                let counted = counted.map_err(|why| match why {
                    StepError::System { call, errno, .. } => (call, errno),
                    other => panic!("{other}"),
                });
                if counted != expected || has_run {
                    return Err(format!("{name}: {counted:?}, {has_run}"));
                }
                // A refused call cannot tell its state, nor undo it. No other has to.
                let is_as_before = call != libc::SYS_rt_sigprocmask || state() == before;
                if is_as_before { Ok(()) } else { Err(format!("{:?}, was {before:?}", state())) }
            });
            assert_eq!(outcome, Ok(()));
        }
    });
}

/// Stepping uses no descriptor: code that closes all of them is counted as often as it runs.
#[test]
fn code_that_closes_all_descriptors() {
    in_turn(|| {
        let status = wait(fork(|| {
            let counted =
                [(); 3].map(|()| count(1_000_000, close_all).map_err(|why| why.to_string()));
            let [Ok(first), Ok(second), Ok(third)] = &counted else {
                skips::say(&format!("{counted:?}"));
                return 1;
            };
            i32::from(!(*first > 0 && first == second && second == third))
        }));
        assert_eq!(status, 0);
    });
}

/// The child of another thread's fork, while this one counts, counts by itself. So does the child of the counted code.
#[test]
fn children_count() {
    in_turn(|| {
        let (is_counting, is_done) = (AtomicBool::new(false), AtomicBool::new(false));
        let child_counts = || match (count(1_000, || black_box(1)), count(1_000, || black_box(1))) {
            (Ok(one), Ok(other)) if one == other => 0,
            _ => 1,
        };
        let counted = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_counting.load(SeqCst) {
                    std::hint::spin_loop();
                }
                let ended: Vec<i32> = (0..20).map(|_| wait(fork(child_counts))).collect();
                is_done.store(true, SeqCst); // also if one failed
                assert_eq!(ended, [0; 20]);
            });
            let steps = Steps::start(u64::MAX).unwrap();
            is_counting.store(true, SeqCst);
            while !is_done.load(SeqCst) {
                std::hint::spin_loop();
            }
            steps.stop()
        });
        assert!(counted.is_ok_and(|count| count > 20), "{counted:?}");
        let mut status = None;
        let counted = count(u64::MAX, || status = Some(wait(fork(child_counts))));
        assert_eq!((counted, status), (Err(StepError::Disturbed), Some(0)));
    });
}

/// Of several threads, one counts, and the others are told. None counts another's instructions.
#[test]
fn threads_take_turns() {
    in_turn(|| {
        let each_thread = if skips::is_whole("threads_take_turns") { 20 } else { 5 };
        let (right, busy) = (AtomicU64::new(0), AtomicU64::new(0));
        // One copy of the code, so that all threads count the same.
        #[inline(never)]
        fn work(rounds: u64) -> Result<u64, StepError> {
            count(10_000, || {
                (0..black_box(rounds)).for_each(|n| {
                    black_box(n);
                })
            })
        }
        let each = loop {
            if let (Ok(one), Ok(many)) = (work(1), work(11)) {
                break many - one;
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut done = 0;
                    while done < each_thread {
                        match (work(1), work(11)) {
                            (Ok(one), Ok(many)) => {
                                done += 1;
                                right.fetch_add(u64::from(many - one == each), SeqCst);
                            }
                            (Err(StepError::Busy), _) | (_, Err(StepError::Busy)) => {
                                busy.fetch_add(1, SeqCst);
                                std::thread::yield_now();
                            }
                            other => panic!("{other:?}"),
                        }
                    }
                });
            }
        });
        println!("{} right, {} times busy", right.load(SeqCst), busy.load(SeqCst));
        assert_eq!(right.load(SeqCst), 4 * each_thread);
    });
}
