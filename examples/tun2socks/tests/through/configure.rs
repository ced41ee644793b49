//! `--configure`: rules and routes for the whole host, and that they are taken back.

use std::io;
use std::path::PathBuf;
use std::process::Command;

use ackclock_tests::kernel::program::{Program, eventually};
use ackclock_tests::netns::{Namespace, in_namespaces};
use tokio::net::TcpListener;

use crate::{PROXY, V4, V6, addr, ended, exchange, join, mirror, row, socks};

/// The output of `ip` with these arguments.
fn ip(arguments: &str) -> String {
    let output = Command::new("ip").args(arguments.split(' ')).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// All rules, and all routes that are not of a device that goes.
fn host() -> [String; 4] {
    ["-4 rule show", "-6 rule show", "-4 route show table all", "net/ipv4/conf/all/src_valid_mark"].map(
        |what| {
            if what.contains('/') {
                std::fs::read_to_string(format!("/proc/sys/{what}")).unwrap()
            } else {
                ip(what)
            }
        },
    )
}

/// A folder for the program's file, which the test removes.
fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("tun2socks-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Starts the program for the whole host, and waits until a connection goes through it.
async fn start(state: &str, more: &[&str]) -> Program {
    let all = ["--proxy", PROXY, "--configure", "--state", state];
    let addresses = ["--address", "198.18.0.1/30", "--address", "fd00:9::1/64"];
    let program =
        Program::start(env!("CARGO_BIN_EXE_tun2socks"), &[&all[..], &addresses, more].concat(), Vec::new());
    eventually(|| async {
        let led = ip("route get 203.0.113.7").contains("dev tun0")
            && ip("route get 2001:db8::7").contains("fd00:9::1");
        if led { Ok(()) } else { Err(io::Error::other(ip("rule show"))) }
    })
    .await;
    program
}

/// Runs `test` in a host whose default route leads to the world, where the proxy is.
fn on_a_host<F>(test: impl FnOnce() -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    in_namespaces(|[inside, outside]: [Namespace; 2]| {
        join(&inside, &outside);
        inside.ip("route add default via 10.1.0.1");
        outside.run(async {
            socks::serve(addr(PROXY), None).await.unwrap();
            mirror().await.unwrap();
        });
        inside.run(test());
    });
}

#[test]
fn a_whole_host_goes_through_the_proxy_and_is_as_before_at_the_end() {
    for bypass in ["mark", "route", "device"] {
        on_a_host(move || async move {
            let state = folder(bypass);
            let before = host();
            let via: &[&str] = if bypass == "device" { &["--via", "eth0"] } else { &[] };
            let arguments = [&["--bypass", bypass], via].concat();
            let program = start(state.to_str().unwrap(), &arguments).await;
            for (to, seed) in [(V4, 1), (V6, 2)] {
                exchange(to, 100_000, seed).await;
            }
            let said = ended(program).await;
            assert_eq!(row(&said, "connections"), 2, "{bypass}: {said}");
            assert_eq!(host(), before, "{bypass}");
            assert_eq!(std::fs::read_dir(&state).unwrap().count(), 0, "{bypass}: a file is left");
            std::fs::remove_dir(&state).unwrap();
        });
    }
}

#[test]
fn what_a_killed_gateway_left_is_taken_back_by_the_next() {
    on_a_host(|| async {
        let state = folder("killed");
        let path = state.to_str().unwrap();
        let before = host();
        let mut program = start(path, &[]).await;
        program.kill();
        assert_ne!(host(), before, "what it set is still there");
        let program = start(path, &[]).await;
        // One of each: not those of the killed one too.
        assert_eq!(ip("-4 rule show").matches("lookup 7426").count(), 1);
        exchange(V4, 1000, 1).await;
        ended(program).await;
        assert_eq!(host(), before);
        std::fs::remove_dir(&state).unwrap();
    });
}

#[test]
fn local_networks_and_excluded_ones_stay_outside_but_queries_of_dns_do_not() {
    on_a_host(|| async {
        let state = folder("excluded");
        let path = state.to_str().unwrap();
        let program = start(path, &["--exclude", "192.0.2.0/24", "--names", "198.19.0.0/16"]).await;
        for (to, way) in [
            ("10.1.0.9", "dev eth0"),
            ("192.0.2.9", "via 10.1.0.1 dev eth0"),
            ("198.19.0.1", "dev tun0"),
            ("203.0.113.9 mark 7426", "via 10.1.0.1 dev eth0"),
            ("10.1.0.9 ipproto udp dport 53", "dev tun0"),
        ] {
            let led = ip(&format!("route get {to}"));
            assert!(led.contains(way), "{to}: {led}");
        }
        // A server of the host's own is reached from outside as before.
        let listener = TcpListener::bind("10.1.0.2:0").await.unwrap();
        assert!(ip("route get 10.1.0.1").contains("dev eth0"), "its answers leave by the cable");
        drop(listener);
        ended(program).await;
        std::fs::remove_dir(&state).unwrap();
    });
}

#[test]
fn a_second_gateway_for_the_same_device_does_not_take_the_rules_of_the_first_back() {
    on_a_host(|| async {
        let state = folder("second");
        let path = state.to_str().unwrap();
        let program = start(path, &[]).await;
        let during = host();
        let second = Command::new(env!("CARGO_BIN_EXE_tun2socks"))
            .args(["--proxy", PROXY, "--configure", "--state", path])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&second.stderr).into_owned();
        assert!(!second.status.success() && said.contains("choose another --device"), "{said}");
        assert_eq!(host(), during);
        ended(program).await;
        std::fs::remove_dir(&state).unwrap();
    });
}
