//! Private network namespaces, in which devices can be made without root.
//!
//! Source: namespaces(7), user_namespaces(7), unshare(2), mount_namespaces(7).

use std::fs;
use std::io;
use std::path::Path;

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

/// Who the process is in a user namespace that it makes. Until it runs another program, it has all
/// capabilities there in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Identity {
    /// Root. The programs that it runs have all capabilities, too.
    Root,
    /// Itself. The programs that it runs have no capability.
    Same,
}

/// Why a private network could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NetnsError {
    /// The system permits neither way.
    #[error(
        "no namespace can be made ({0}): run as root (sudo), or allow them to users (sudo sysctl -w {settings})",
        settings = forbidding()
    )]
    Refused(#[source] io::Error),
    /// User and group could not be mapped into the user namespace.
    #[error(
        "the user cannot be mapped into a new user namespace ({0}): run as root (sudo), or allow it (sudo \
         sysctl -w {settings})",
        settings = forbidding()
    )]
    Map(#[source] io::Error),
    /// The process may have no mount namespace, or the file cannot be put there.
    #[error("{target} cannot be replaced in a mount namespace: {source}")]
    Mount {
        /// The file to replace.
        target: String,
        /// The system's answer.
        source: io::Error,
    },
}

/// Moves the calling thread, and everything that it will start, into a new network namespace. If necessary,
/// moves its process into a new user namespace, as root. Call it while the process has one thread. The
/// namespaces end with the last thread in them and take all devices with them.
///
/// # Errors
/// See [`NetnsError`]; also if the process has more than one thread and a user namespace is needed. If the
/// user could not be mapped, the process is in the new namespaces nevertheless, without rights there.
pub fn enter_private() -> Result<Right, NetnsError> {
    enter_private_as(Identity::Root)
}

/// As [`enter_private`], with a choice who the process is in a new user namespace.
///
/// # Errors
/// As [`enter_private`].
pub fn enter_private_as(identity: Identity) -> Result<Right, NetnsError> {
    if sys::unshare(libc::CLONE_NEWNET).is_ok() {
        return Ok(Right::Privileged);
    }
    let (user, group) = sys::effective_ids();
    let (new_user, new_group) = match identity {
        Identity::Root => (0, 0),
        Identity::Same => (user, group),
    };
    sys::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNET).map_err(NetnsError::Refused)?;
    // user_namespaces(7): the group may be mapped only once setgroups(2) is denied.
    fs::write("/proc/self/setgroups", "deny").map_err(NetnsError::Map)?;
    fs::write("/proc/self/uid_map", format!("{new_user} {user} 1")).map_err(NetnsError::Map)?;
    fs::write("/proc/self/gid_map", format!("{new_group} {group} 1")).map_err(NetnsError::Map)?;
    Ok(Right::UserNamespace)
}

/// Puts the file `source` in the place of `target`, for the calling thread and everything that it will start,
/// in a new mount namespace. `target` exists; a symbolic link is followed. The thread needs `CAP_SYS_ADMIN`,
/// which it has in a user namespace that it made.
///
/// # Errors
/// [`NetnsError::Mount`].
pub fn replace_file(source: &Path, target: &Path) -> Result<(), NetnsError> {
    sys::unshare(libc::CLONE_NEWNS)
        // Mounts made here from now on must not show outside.
        .and_then(|()| sys::mount(None, Path::new("/"), libc::MS_REC | libc::MS_SLAVE))
        .and_then(|()| sys::mount(Some(source), target, libc::MS_BIND))
        .map_err(|error| NetnsError::Mount { target: target.display().to_string(), source: error })
}

/// The settings that keep users from namespaces on this system, with the values that allow them.
fn forbidding() -> String {
    let set_to = |(setting, allowed, forbids): &Setting| {
        let path = format!("/proc/sys/{}", setting.replace('.', "/"));
        let value = fs::read_to_string(path).ok()?.trim().parse().ok()?;
        forbids(value).then(|| format!("{setting}={allowed}"))
    };
    let found: Vec<String> = SETTINGS.iter().filter_map(set_to).collect();
    if found.is_empty() {
        let all = SETTINGS.iter().map(|(setting, allowed, _)| format!("{setting}={allowed}"));
        return format!("{}, whichever exists", all.collect::<Vec<_>>().join(" "));
    }
    found.join(" ")
}

/// A setting under `/proc/sys`, a value that allows users their namespaces, and whether a value forbids them.
type Setting = (&'static str, &'static str, fn(u64) -> bool);

/// Debian's and Ubuntu's own, AppArmor's, and that of every kernel.
const SETTINGS: [Setting; 3] = [
    ("kernel.unprivileged_userns_clone", "1", |value| value == 0),
    ("kernel.apparmor_restrict_unprivileged_userns", "0", |value| value != 0),
    ("user.max_user_namespaces", "10000", |value| value == 0),
];

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
