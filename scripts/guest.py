#!/usr/bin/env python3
"""Boots a Linux guest in QEMU on a Unix socket of a stack, and sends files both ways at once, with and without loss.

    scripts/guest.py                       both kinds of sockets, each with and without loss; a minute
    scripts/guest.py --megabytes 8         a smaller file each way [default: 32]
    scripts/guest.py --program PATH        the tcpcat to test [default: a release build]

The guest is the kernel of Debian's cloud image and BusyBox, in memory. `apt-get download` brings the kernel into target/guest;
nothing is installed. It takes QEMU 7.2, busybox-static and cpio: apt-get install qemu-system-x86 busybox-static cpio
"""

import argparse
import contextlib
import gzip
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

from measured import ROOT, build

FOLDER = ROOT / "target/guest"
# In the order in which they are loaded: each needs those before it.
MODULES = [
    "drivers/virtio/virtio_ring",
    "drivers/virtio/virtio",
    "drivers/virtio/virtio_pci_modern_dev",
    "drivers/virtio/virtio_pci_legacy_dev",
    "drivers/virtio/virtio_pci",
    "net/core/failover",
    "drivers/net/net_failover",
    "drivers/net/virtio_net",
]
INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t devtmpfs none /dev; mount -t proc none /proc
exec >/dev/ttyS0 2>&1 </dev/null
for module in {modules}; do insmod /$module.ko; done
ip link set eth0 up; ip addr add 10.68.0.2/24 dev eth0
head -c {bytes} /dev/urandom >/sent
echo "guest sends: $(sha256sum </sent)"
for attempt in 1 2 3 4 5; do nc 10.68.0.1 7000 </sent >/got && break; sleep 1; done
echo "guest got: $(sha256sum </got)"
poweroff -f
"""
# The stack's flags and QEMU's for each kind of socket.
KINDS = {
    "unix": "stream,id=net,server=off,addr.type=unix,addr.path={stack}",
    "unixgram": "dgram,id=net,local.type=unix,local.path={guest},remote.type=unix,remote.path={stack}",
}
LOSSES = ["0%", "1%"]
PATIENCE = 120


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--megabytes", type=int, default=32)
    options.add_argument("--program", type=pathlib.Path)
    args = options.parse_args()
    for command in ("qemu-system-x86_64", "busybox", "cpio"):
        if shutil.which(command) is None:
            sys.exit(f"{command} is missing: apt-get install qemu-system-x86 busybox-static cpio")
    program = args.program or build("-p", "tcpcat") / "tcpcat"
    kernel, modules = guest_kernel()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        image = folder / "image"
        write_image(image, modules, args.megabytes << 20)
        for kind in KINDS:
            for loss in LOSSES:
                transfer(program, kernel, image, folder, kind, loss, args.megabytes << 20)


def guest_kernel() -> tuple[pathlib.Path, pathlib.Path]:
    """The kernel's image and the folder of its modules."""
    unpacked = FOLDER / "unpacked"
    if not unpacked.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        depends = subprocess.run(["apt-cache", "depends", "linux-image-cloud-amd64"], stdout=subprocess.PIPE, text=True)
        package = re.search(r"Depends: (linux-image-\S+)", depends.stdout)
        if package is None:
            sys.exit("no kernel for the guest: apt-cache knows no linux-image-cloud-amd64 (it takes Debian on amd64)")
        subprocess.run(["apt-get", "download", "-qq", package[1]], cwd=FOLDER, check=True, stderr=subprocess.DEVNULL)
        [archive] = FOLDER.glob("linux-image-*.deb")
        subprocess.run(["dpkg", "-x", archive, FOLDER / "part"], check=True)
        archive.unlink()
        (FOLDER / "part").rename(unpacked)
    [kernel] = (unpacked / "boot").glob("vmlinuz-*")
    [modules] = (unpacked / "lib/modules").iterdir()
    return kernel, modules / "kernel"


def write_image(image: pathlib.Path, modules: pathlib.Path, size: int):
    """What the guest boots into."""
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)
        for folder in ("bin", "dev", "proc"):
            (root / folder).mkdir()
        shutil.copy(shutil.which("busybox"), root / "bin/busybox")
        for module in MODULES:
            shutil.copy(modules / f"{module}.ko", root)
        init = root / "init"
        init.write_text(INIT.format(modules=" ".join(pathlib.Path(module).name for module in MODULES), bytes=size))
        init.chmod(0o755)
        names = "\n".join(str(path.relative_to(root)) for path in sorted(root.rglob("*")))
        packed = subprocess.run(
            ["cpio", "-o", "-H", "newc", "--quiet"], input=names.encode(), stdout=subprocess.PIPE, cwd=root, check=True
        )
        image.write_bytes(gzip.compress(packed.stdout, 1))


def transfer(program, kernel, image, folder: pathlib.Path, kind: str, loss: str, size: int):
    """A file each way over one connection; the run ends if one did not arrive as it was sent."""
    there, got = folder / "there", folder / "got"
    there.write_bytes(os.urandom(size))
    stack, guest = folder / "stack", folder / "guest"
    with contextlib.ExitStack() as ended, there.open("rb") as sent, got.open("wb") as received:
        flags = f"-l 7000 --device {kind}:{stack} --addr 10.68.0.1/24 --loss {loss}"
        listens = subprocess.Popen([program, *flags.split()], stdin=sent, stdout=received, stderr=subprocess.PIPE)
        ended.callback(end, listens)
        deadline = time.monotonic() + PATIENCE
        while not stack.exists():
            if listens.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"tcpcat waits at no {kind} socket: {listens.stderr.read().decode()}")
            time.sleep(0.05)
        began = time.monotonic()
        said = boot(kernel, image, KINDS[kind].format(stack=stack, guest=guest))
        took = time.monotonic() - began
        _, errors = listens.communicate(timeout=PATIENCE)
    stack.unlink(missing_ok=True)
    guest.unlink(missing_ok=True)
    hashes = {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in (there, got)}
    words = dict(re.findall(r"guest (sends|got): (\w{64})", said))
    if listens.returncode != 0 or words != {"sends": hashes[got], "got": hashes[there]}:
        sys.exit(f"{kind}, {loss} lost: tcpcat ended with {listens.returncode}\n{errors.decode()}\n{said}")
    print(f"{kind}, {loss} lost: {size >> 20} MiB each way as sent, {took:.1f} s with the guest's start", flush=True)


def boot(kernel, image, network: str) -> str:
    """Runs the guest until it switches itself off, and gives what it printed."""
    command = ["qemu-system-x86_64", "-nodefaults", "-nographic", "-no-reboot", "-m", "512", "-accel", "tcg"]
    command += ["-serial", "stdio", "-kernel", kernel, "-initrd", image, "-append", "console=ttyS0 quiet panic=-1"]
    command += ["-netdev", network, "-device", "virtio-net-pci,netdev=net"]
    output = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    try:
        return subprocess.run(command, timeout=PATIENCE, **output).stdout.decode(errors="replace")
    except subprocess.TimeoutExpired as late:
        sys.exit(f"the guest did not end within {PATIENCE} s; it said:\n{(late.stdout or b'').decode(errors='replace')}")


def end(process: subprocess.Popen):
    process.kill()
    process.wait()


if __name__ == "__main__":
    main()
