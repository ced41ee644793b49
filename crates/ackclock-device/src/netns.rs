//! Private network namespaces, in which devices can be made without root.
//!
//! Source: namespaces(7), user_namespaces(7), unshare(2).

use std::fs;
use std::io;

use crate::sys;

/// How a private network was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Right {
    /// The process has `CAP_SYS_ADMIN`.
    Privileged,
    /// The process also made a user namespace, in which it is root.
    UserNamespace,
}

/// Why a private network could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NetnsError {
    /// The system permits neither way.
    #[error(
        "no namespace can be made ({0}): run as root, or allow them to users \
         (sudo sysctl -w kernel.unprivileged_userns_clone=1 kernel.apparmor_restrict_unprivileged_userns=0 \
         user.max_user_namespaces=10000, whichever exists)"
    )]
    Refused(#[source] io::Error),
    /// User and group could not be mapped into the user namespace.
    #[error("the user cannot be mapped into a new user namespace: {0}")]
    Map(#[source] io::Error),
}

/// Moves the calling thread, and everything that it will start, into a new network namespace. If necessary,
/// moves its process into a new user namespace. Call it while the process has one thread. The namespaces end
/// with the last thread in them and take all devices with them.
///
/// # Errors
/// See [`NetnsError`]; also if the process has more than one thread and a user namespace is needed. If the
/// user could not be mapped, the process is in the new namespaces nevertheless, without rights there.
pub fn enter_private() -> Result<Right, NetnsError> {
    if sys::unshare(libc::CLONE_NEWNET).is_ok() {
        return Ok(Right::Privileged);
    }
    let (user, group) = sys::effective_ids();
    sys::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNET).map_err(NetnsError::Refused)?;
    // user_namespaces(7): the group may be mapped only once setgroups(2) is denied.
    fs::write("/proc/self/setgroups", "deny").map_err(NetnsError::Map)?;
    fs::write("/proc/self/uid_map", format!("0 {user} 1")).map_err(NetnsError::Map)?;
    fs::write("/proc/self/gid_map", format!("0 {group} 1")).map_err(NetnsError::Map)?;
    Ok(Right::UserNamespace)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_private_network_has_a_loopback_only() {
        // The namespace belongs to the thread and ends with it.
        let thread = std::thread::spawn(|| {
            if let Err(why) = enter_private() {
                assert!(std::env::var_os("CI").is_none(), "no test may be skipped here: {why}");
                // Not `eprintln!`: the test harness hides that when a test passes.
                writeln!(std::io::stderr(), "skipped: {why}").unwrap();
                return;
            }
            let table = fs::read_to_string("/proc/thread-self/net/dev").unwrap();
            let names: Vec<&str> =
                table.lines().skip(2).filter_map(|line| line.trim().split(':').next()).collect();
            // Some kernels put tunnel devices into every namespace; none of them is up.
            assert!(names.contains(&"lo"), "{names:?}");
            assert!(!crate::configure::link_state("lo").unwrap().up);
        });
        thread.join().unwrap();
    }
}
