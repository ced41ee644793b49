//! Why a device does not open, against the kernel's answers.

use std::time::{Duration, Instant};

use ackclock_device::configure::{ConfigureError, add_address, link_state};
use ackclock_device::{EthernetOptions, OffloadMode, OpenError, PassedFd, TunDevice, open};

use super::common::{NAME, in_namespace, ip};

fn open_error(name: &str, mode: OffloadMode) -> OpenError {
    open(name, mode).map(drop).expect_err("it must not open")
}

#[test]
fn names_are_refused_before_the_kernel_sees_them() {
    // This error needs neither a runtime nor a privilege.
    assert!(matches!(open_error("", OffloadMode::Auto), OpenError::NameEmpty));
    let long = "sixteen-bytes-xx";
    assert_eq!(long.len(), 16);
    assert!(matches!(open_error(long, OffloadMode::Off), OpenError::NameTooLong { .. }));
    assert!(matches!(open_error("a/b", OffloadMode::On), OpenError::NameInvalid { .. }));
}

#[test]
fn a_device_in_use_names_its_holder() {
    in_namespace(|| async {
        for (first, second) in [(OffloadMode::Off, OffloadMode::On), (OffloadMode::On, OffloadMode::Off)] {
            let _held = open(NAME, first).unwrap();
            let error = open_error(NAME, second);
            assert!(matches!(error, OpenError::Busy { .. }), "{error:?}");
            let pid = std::process::id();
            assert!(error.to_string().contains(&format!("in use by process {pid} (")), "{error}");
        }
    });
}

#[test]
fn a_name_in_use_is_waited_for() {
    in_namespace(|| async {
        let waited_for = |what: &str, open: &dyn Fn() -> Result<(), OpenError>| {
            let began = Instant::now();
            assert!(matches!(open(), Err(OpenError::Busy { .. })), "{what}");
            assert!(began.elapsed() >= Duration::from_millis(100), "{what} after {:?}", began.elapsed());
        };
        let _tun = open(NAME, OffloadMode::Off).unwrap();
        waited_for("plain", &|| open(NAME, OffloadMode::Off).map(drop));
        waited_for("offload", &|| open(NAME, OffloadMode::On).map(drop));
        waited_for("passed", &|| PassedFd::make(NAME).map(drop));
        let tap = |mode| {
            EthernetOptions::new().address("10.9.0.2/24".parse().unwrap()).offload(mode).open_tap("tap0")
        };
        let _tap = tap(OffloadMode::Off).unwrap();
        waited_for("plain TAP", &|| tap(OffloadMode::Off).map(drop));
    });
}

#[test]
fn a_tap_device_is_of_the_wrong_kind() {
    in_namespace(|| async {
        ip("tuntap add dev tap0 mode tap");
        for mode in [OffloadMode::Off, OffloadMode::On, OffloadMode::Auto] {
            let error = open_error("tap0", mode);
            assert!(matches!(error, OpenError::WrongKind { .. }), "{error:?}");
            assert!(
                error.to_string().starts_with("tap0 is a TAP device with one queue, not a TUN"),
                "{error}"
            );
        }
    });
}

#[test]
fn a_multi_queue_device_is_of_the_wrong_kind() {
    in_namespace(|| async {
        ip("tuntap add dev tun0 mode tun multi_queue");
        assert!(matches!(open_error(NAME, OffloadMode::Auto), OpenError::WrongKind { .. }));
    });
}

#[test]
fn making_a_device_without_the_privilege_is_not_permitted() {
    in_namespace(|| async {
        ip("tuntap add dev tun1 mode tun");
        drop_capabilities();
        for mode in [OffloadMode::Off, OffloadMode::On, OffloadMode::Auto] {
            let error = open_error(NAME, mode);
            assert!(matches!(error, OpenError::NotPermitted { .. }), "{error:?}");
            assert!(error.to_string().contains("ip tuntap add dev tun0 mode tun user"), "{error}");
        }
        let error = add_address("tun1", "10.9.0.1/24".parse().unwrap(), None).unwrap_err();
        assert!(error.to_string().contains("sudo ip addr add 10.9.0.1/24 dev tun1"), "{error}");
    });
}

/// Takes every capability from the calling thread, which stays root to the file system.
#[expect(unsafe_code, reason = "capset")]
fn drop_capabilities() {
    // capset(2): the header is interface version 3 and 0 for the calling thread, followed by twice the three
    // sets of 32 capabilities.
    let header = [0x2008_0522u32, 0];
    let sets = [0u32; 6];
    // SAFETY: capset reads 8 and 24 bytes from the two addresses, which are those of live arrays of this
    // size.
    let result = unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), sets.as_ptr()) };
    assert_eq!(result, 0);
}

#[test]
fn an_interface_of_another_driver_is_of_the_wrong_kind() {
    in_namespace(|| async {
        ip("link add veth0 type veth peer name veth1");
        for (name, found) in
            [("lo", "a network interface of this machine"), ("veth0", "an interface of type veth")]
        {
            for mode in [OffloadMode::Off, OffloadMode::On, OffloadMode::Auto] {
                let error = open_error(name, mode);
                assert!(matches!(error, OpenError::WrongKind { .. }), "{error:?}");
                let said = error.to_string();
                assert!(said.starts_with(&format!("{name} is {found}, not a TUN device")), "{said}");
                // A name mistyped must not cost an interface.
                assert!(!said.contains("del"), "{said}");
            }
        }
    });
}

#[test]
fn outside_a_runtime_opening_is_an_error() {
    in_namespace(|| async {
        let thread = std::thread::spawn(|| TunDevice::open(NAME).map(drop));
        assert!(matches!(thread.join().unwrap(), Err(OpenError::NoRuntime)));
    });
}

#[test]
fn a_device_can_be_opened_again_after_it_was_dropped() {
    in_namespace(|| async {
        for _ in 0..3 {
            drop(open(NAME, OffloadMode::Auto).unwrap());
        }
        // A child that another test makes may hold a descriptor until it is executed.
        let until = Instant::now() + Duration::from_secs(5);
        while !matches!(link_state(NAME), Err(ConfigureError::NoInterface { .. })) {
            assert!(Instant::now() < until, "it lives with its device");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
}

#[test]
fn configuring_says_what_is_wrong() {
    in_namespace(|| async {
        let local = "10.9.0.1/24".parse().unwrap();
        let error = add_address("nosuch0", local, None).unwrap_err();
        assert!(matches!(error, ConfigureError::NoInterface { .. }), "{error}");
        let _device = open(NAME, OffloadMode::Auto).unwrap();
        let error = add_address(NAME, local, Some("fd00::1".parse().unwrap())).unwrap_err();
        assert!(matches!(error, ConfigureError::Families { .. }), "{error}");
        let error = ackclock_device::configure::set_mtu(NAME, 10).unwrap_err();
        assert!(error.to_string().contains("ip link set tun0 mtu 10"), "{error}");
        for name in ["nosuchcontrol", "a-name-longer-than-any"] {
            let to = "10.9.0.2/32".parse().unwrap();
            let error = ackclock_device::configure::add_controlled_route(NAME, to, name).unwrap_err();
            let command = format!("ip route add 10.9.0.2/32 dev tun0 congctl {name}");
            assert!(error.to_string().contains(&command), "{error}");
        }
    });
}
