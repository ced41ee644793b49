//! The kernel's TCP as the program: what any stack in user space is compared with.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use super::{OWN, Service};

/// Serves all services on the kernel's sockets, each connection on its own thread, without end.
///
/// # Errors
/// A port is not free.
pub fn serve_kernel() -> io::Result<()> {
    let listeners = Service::ALL.map(|service| {
        let listener = TcpListener::bind((OWN, service.port()))?;
        Ok::<_, io::Error>(thread::spawn(move || accept(service, &listener)))
    });
    for listener in listeners {
        listener?.join().expect("a listener does not panic")?;
    }
    Ok(())
}

fn accept(service: Service, listener: &TcpListener) -> io::Result<()> {
    loop {
        let (stream, _) = listener.accept()?;
        // A client that disappears ends only its own service.
        thread::spawn(move || serve(service, stream));
    }
}

fn serve(service: Service, mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = vec![0x5a; if service == Service::Close { 64 } else { CHUNK }];
    loop {
        if service == Service::Source {
            stream.write_all(&buffer)?;
            continue;
        }
        let len = stream.read(&mut buffer)?;
        if len == 0 {
            return Ok(());
        }
        if service == Service::Echo {
            stream.write_all(&buffer[..len])?;
        }
    }
}

const CHUNK: usize = 256 << 10;
