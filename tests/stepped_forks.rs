//! A signal handler forks after every instruction of `open` and `drop`: see `attacks/stepped_forks.rs`. There is no
//! test harness, because its threads would hold locks at the fork.
#![allow(missing_docs)]

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod attacks;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod process;
mod skips;

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
fn main() {
    skips::skip("stepped_forks", "it steps by x86-64's trap flag");
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn main() {
    use attacks::stepped_forks::{Plan, all, first};

    if let Err(why) = attacks::open(rdpmc::Event::TASK_CLOCK) {
        return skips::skip("stepped_forks", &why.to_string());
    }
    // The first call takes many more instructions, so it forks after every 97th, with three offsets. The other calls
    // fork after every instruction. The short walk has one offset of each.
    let phases: [&[u32]; 2] = match skips::is_whole("stepped_forks") {
        true => [&[0, 32, 64], &[0, 1, 2, 3, 4, 5, 6]],
        false => [&[32], &[3]],
    };
    let of_the_first = Plan { every: 97, phases: phases[0], most_steps: u32::MAX };
    let of_others = Plan { every: 7, phases: phases[1], most_steps: 20_000 };
    let result = first(&of_the_first).and_then(|()| all(&of_others, skips::say));
    match result {
        Ok(()) => println!("test stepped_forks ... ok"),
        Err(why) => {
            println!("test stepped_forks ... FAILED: {why}");
            std::process::exit(1);
        }
    }
}
