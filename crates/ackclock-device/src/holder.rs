//! Finds which process holds a TUN device, for error messages.

use std::fs;
use std::path::Path;

/// Describes the process attached to the interface `name`.
pub(crate) fn describe(name: &str) -> String {
    find(name).unwrap_or_else(|| "another process".to_owned())
}

/// Searches the descriptors of all processes visible to this user.
fn find(name: &str) -> Option<String> {
    // Linux drivers/net/tun.c, tun_chr_show_fdinfo: a TUN descriptor's fdinfo has a line `iff:\tNAME`.
    let wanted = format!("iff:\t{name}\n");
    let processes = fs::read_dir("/proc").ok()?.flatten();
    for process in processes.filter(|p| p.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit)) {
        // Another network namespace may have an interface of the same name.
        if !shares_namespace(&process.path()) {
            continue;
        }
        let Ok(descriptors) = fs::read_dir(process.path().join("fdinfo")) else { continue };
        let holds = |path: &Path| fs::read_to_string(path).is_ok_and(|text| text.contains(&wanted));
        if descriptors.flatten().any(|d| holds(&d.path())) {
            let command = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            return Some(format!("process {} ({})", process.file_name().display(), command.trim()));
        }
    }
    None
}

/// Whether a thread of the process at `proc` is in the network namespace of this one.
fn shares_namespace(proc: &Path) -> bool {
    let Ok(ours) = fs::read_link("/proc/thread-self/ns/net") else { return true };
    let Ok(threads) = fs::read_dir(proc.join("task")) else { return false };
    threads.flatten().any(|thread| fs::read_link(thread.path().join("ns/net")).is_ok_and(|ns| ns == ours))
}
