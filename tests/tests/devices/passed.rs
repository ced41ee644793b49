//! A stack on a device that a helper process opened, attached and passed over a Unix socket (`SCM_RIGHTS`):
//! in the helper's network namespace and in another.

use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

use ackclock::TcpConfig;
use ackclock_device::{Device, FdError, Medium, PassedFd};
use ackclock_tests::devices::{Needs, in_namespaces_with};
use ackclock_tests::kernel::program::{Program, have};
use ackclock_tests::kernel::scene::{TUN, stack_on};
use ackclock_tests::kernel::wire::{LIMIT, addressed, both_ways, wait_until};
use ackclock_tests::netns::Namespace;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

#[test]
fn a_stack_runs_on_a_device_that_a_helper_opens_in_its_own_namespace() {
    with_a_helper(|near, far| {
        for (kind, header) in [("tun", "plain"), ("tun", "header"), ("tap", "plain"), ("tap", "header")] {
            let fd = PassedFd::new(far.run(passed(kind, header, 1)).pop().expect("a descriptor")).unwrap();
            assert_eq!((fd.name(), fd.medium() == Medium::Ip), (TUN, kind == "tun"));
            far.ip("addr add 10.9.0.1/24 dev tun0");
            far.ip("-6 addr add fd09::1/64 dev tun0 nodad");
            far.ip("link set tun0 mtu 1400 up");
            wait_until(far, "fd09::1");
            let kernel = far.handle().clone();
            near.run(async move {
                let device: Box<dyn Device> = match fd.medium() {
                    Medium::Ip => fd.open(Some(1400)).unwrap(),
                    _ => Box::new(addressed().mtu(1400).open_fd(fd).unwrap()),
                };
                let capabilities = device.capabilities();
                assert_eq!(capabilities.mtu, 1400);
                assert_eq!(capabilities.tx_checksum, header == "header", "the descriptor says whether");
                let stack = stack_on(device, TcpConfig::default());
                both_ways(&stack, &kernel, LEN).await;
                assert_eq!(stack.counters().dropped_tcp_checksum, 0);
                stack.shutdown().await;
            });
        }
    });
}

#[test]
fn an_interface_that_cannot_be_asked_needs_its_mtu() {
    with_a_helper(|near, far| {
        let fds = far.run(passed("tun", "header", 2));
        near.run(async move {
            let mut fds = fds.into_iter().map(|fd| PassedFd::new(fd.try_clone().unwrap()).unwrap());
            let (first, second) = (fds.next().unwrap(), fds.next().unwrap());
            let error = PassedFd::open_queues(first, vec![second], None).map(drop).unwrap_err();
            assert!(matches!(&error, FdError::MtuUnknown { name, .. } if name == TUN), "{error:?}");
            assert!(error.to_string().contains("give the MTU"), "{error}");
        });
        let fds = far.run(passed("tun", "header", 2));
        near.run(async move {
            let mut fds = fds.into_iter().map(|fd| PassedFd::new(fd).unwrap());
            let (first, second) = (fds.next().unwrap(), fds.next().unwrap());
            let queues = first.open_queues(vec![second], Some(1500)).unwrap();
            assert!(queues.len() == 2 && queues.iter().all(|queue| queue.capabilities().queues == 2));
        });
    });
}

/// Runs `scene` with the namespace of a stack and that of a helper.
fn with_a_helper(scene: impl FnOnce(&Namespace, &Namespace)) {
    if have("python3") {
        in_namespaces_with(Needs::Tun, |[near, far]: [Namespace; 2]| scene(&near, &far));
    }
}

/// Starts a helper in the namespace of the calling thread and waits for its end. Returns the descriptors that
/// it passes: `queues` queues of `tun0`.
async fn passed(kind: &'static str, header: &'static str, queues: u8) -> Vec<OwnedFd> {
    // An abstract name belongs to the namespace, and ends with the socket.
    let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name("helper").unwrap()).unwrap();
    listener.set_nonblocking(true).unwrap();
    let listener = tokio::net::UnixListener::from_std(listener).unwrap();
    let helper = Program::start("python3", &["-c", HELPER, kind, header, &queues.to_string()], Vec::new());
    let accepted = tokio::time::timeout(LIMIT, listener.accept()).await;
    let socket = accepted.expect("the helper connects").unwrap().0;
    tokio::task::spawn_blocking(|| helper.finish()).await.unwrap();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    recvmsg(&socket, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC).unwrap();
    let mut fds = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fds.extend(rights);
        }
    }
    assert_eq!(fds.len(), usize::from(queues));
    fds
}

/// Opens queues of `tun0`, passes them and ends. The numbers are IFF_TUN, IFF_TAP, IFF_NO_PI, IFF_VNET_HDR,
/// IFF_MULTI_QUEUE and TUNSETIFF.
const HELPER: &str = r#"
import fcntl, os, socket, struct, sys, time
kind, header, queues = sys.argv[1], sys.argv[2], int(sys.argv[3])
flags = {"tun": 1, "tap": 2}[kind] | 0x1000
flags |= 0x4000 if header == "header" else 0
flags |= 0x0100 if queues > 1 else 0
fds = []
for _ in range(queues):
    fds.append(os.open("/dev/net/tun", os.O_RDWR))
    for attempt in range(500):
        # The device of an earlier scene may end a moment after its stack.
        try:
            fcntl.ioctl(fds[-1], 0x400454CA, struct.pack("16sH22x", b"tun0", flags))
            break
        except OSError:
            time.sleep(0.01)
channel = socket.socket(socket.AF_UNIX)
channel.connect("\0helper")
socket.send_fds(channel, [b"x"], fds)
"#;

const LEN: u64 = 1 << 20;
