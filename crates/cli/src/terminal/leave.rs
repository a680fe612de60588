//! Ctrl-D while nobody reads what is typed.

use std::io::{self, IsTerminal};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// Whether Ctrl-D was pressed, or the terminal is gone. Takes it away then; what else is typed stays where it is, for
/// whoever reads next. Where something was typed before it, it cannot be seen.
pub(crate) fn is_wanted() -> bool {
    let stdin = io::stdin();
    if !stdin.is_terminal() {
        return false;
    }
    // Lines can be read as soon as they are whole. One without a single byte, not even that of its end, is Ctrl-D.
    let mut waiting = [PollFd::new(&stdin, PollFlags::IN)];
    let is_ready = poll(&mut waiting, Some(&AT_ONCE)).is_ok_and(|ready| ready > 0);
    let is_end = is_ready && rustix::io::ioctl_fionread(&stdin).is_ok_and(|bytes| bytes == 0);
    if is_end {
        // Gives nothing. Left there, it would end the shell.
        let _nothing = rustix::io::read(&stdin, &mut [0_u8; 1]);
    }
    is_end
}
