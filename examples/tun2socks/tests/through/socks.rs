//! A SOCKS5 proxy over the kernel's sockets (RFC 1928, RFC 1929), and one for CONNECT of HTTP, for the tests.
//! Both know names of their own.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream, UdpSocket};

/// Serves clients at `addr`; asks for this name and password, if given.
pub(crate) async fn serve(addr: SocketAddr, credentials: Option<&'static str>) -> io::Result<()> {
    let listener = TcpListener::bind(addr).await?;
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(one(client, credentials));
        }
    });
    Ok(())
}

async fn one(mut client: TcpStream, credentials: Option<&str>) -> io::Result<()> {
    let methods = client.read_u8().await.and(client.read_u8().await)?;
    let mut offered = vec![0; methods.into()];
    client.read_exact(&mut offered).await?;
    let method = if credentials.is_some() { 2 } else { 0 };
    if !offered.contains(&method) {
        return client.write_all(&[5, 0xff]).await;
    }
    client.write_all(&[5, method]).await?;
    if let Some(credentials) = credentials {
        let right = credentials == said(&mut client).await?;
        client.write_all(&[1, u8::from(!right)]).await?;
        if !right {
            return Ok(());
        }
    }
    let mut head = [0; 3];
    client.read_exact(&mut head).await?;
    let destination = match read_addr(&mut client).await {
        Ok(destination) => destination,
        Err(error) if error.kind() == ErrorKind::HostUnreachable => {
            return client.write_all(&reply(4, ([0, 0, 0, 0], 0).into())).await;
        }
        Err(error) => return Err(error),
    };
    match head[1] {
        1 => connect(client, destination).await,
        3 => associate(client).await,
        _ => client.write_all(&reply(7, destination)).await,
    }
}

/// `USER:PASSWORD`.
async fn said(client: &mut TcpStream) -> io::Result<String> {
    client.read_u8().await?;
    let mut words = Vec::new();
    for _ in 0..2 {
        let mut word = vec![0; client.read_u8().await?.into()];
        client.read_exact(&mut word).await?;
        words.push(String::from_utf8_lossy(&word).into_owned());
    }
    Ok(words.join(":"))
}

/// A port that the proxy tries to reach for ever.
pub(crate) const SILENT: u16 = 99;

/// The addresses of names that the proxy alone knows: those of the test's world.
fn look_up(name: &str) -> io::Result<IpAddr> {
    match name {
        "first.example" => Ok(IpAddr::from([203, 0, 113, 7])),
        "second.example" => Ok(IpAddr::from([203, 0, 113, 8])),
        "sixth.example" => Ok(IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, 7])),
        _ => Err(io::Error::new(ErrorKind::HostUnreachable, format!("no name: {name}"))),
    }
}

/// Serves CONNECT at `addr`; asks for this `user:password` in base64, if given.
pub(crate) async fn serve_http(addr: SocketAddr, credentials: Option<&'static str>) -> io::Result<()> {
    let listener = TcpListener::bind(addr).await?;
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(one_http(client, credentials));
        }
    });
    Ok(())
}

async fn one_http(mut client: TcpStream, credentials: Option<&str>) -> io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(client.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let to = head.strip_prefix("CONNECT ").and_then(|rest| rest.split(' ').next()).unwrap_or_default();
    if credentials.is_some_and(|said| !head.contains(&format!("\r\nProxy-Authorization: Basic {said}\r\n"))) {
        return client.write_all(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n").await;
    }
    let destination = match (to.parse(), to.rsplit_once(':')) {
        (Ok(addr), _) => Ok(addr),
        (_, Some((name, port))) => {
            look_up(name).map(|ip| SocketAddr::new(ip, port.parse().unwrap_or_default()))
        }
        _ => return client.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await,
    };
    let upstream = match destination {
        Ok(destination) => TcpStream::connect(destination).await,
        Err(error) => Err(error),
    };
    match upstream {
        Ok(upstream) => {
            client.write_all(b"HTTP/1.1 200 Connection established\r\nVia: a test\r\n\r\n").await?;
            carry(client, upstream).await
        }
        Err(error) => {
            let status = match error.kind() {
                ErrorKind::ConnectionRefused => "502 Bad Gateway",
                ErrorKind::HostUnreachable => "504 Gateway Timeout",
                ErrorKind::NetworkUnreachable => "503 Service Unavailable",
                _ => "500 Internal Server Error",
            };
            client.write_all(format!("HTTP/1.1 {status}\r\n\r\n").as_bytes()).await
        }
    }
}

async fn connect(mut client: TcpStream, destination: SocketAddr) -> io::Result<()> {
    if destination.port() == SILENT {
        std::future::pending::<()>().await;
    }
    let upstream = match TcpStream::connect(destination).await {
        Ok(upstream) => upstream,
        Err(error) => {
            let code = match error.kind() {
                ErrorKind::NetworkUnreachable => 3,
                ErrorKind::HostUnreachable => 4,
                ErrorKind::ConnectionRefused => 5,
                ErrorKind::PermissionDenied => 2,
                _ => 1,
            };
            return client.write_all(&reply(code, destination)).await;
        }
    };
    client.write_all(&reply(0, upstream.local_addr()?)).await?;
    carry(client, upstream).await
}

async fn carry(mut client: TcpStream, mut upstream: TcpStream) -> io::Result<()> {
    if copy_bidirectional(&mut client, &mut upstream).await.is_err() {
        client.set_zero_linger()?;
        upstream.set_zero_linger()?;
    }
    Ok(())
}

/// A relay with a socket for each family besides the one that the client sends to.
async fn associate(mut client: TcpStream) -> io::Result<()> {
    let inside = UdpSocket::bind(SocketAddr::new(client.local_addr()?.ip(), 0)).await?;
    let outside = [
        UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).await?,
        UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)).await?,
    ];
    client.write_all(&reply(0, inside.local_addr()?)).await?;
    let mut relayed = None;
    let (mut up, mut v4, mut v6) = (vec![0; 65_535], vec![0; 65_535], vec![0; 65_535]);
    loop {
        tokio::select! {
            received = inside.recv_from(&mut up) => {
                let (len, from) = received?;
                relayed = Some(from);
                let mut rest = &up[3..len];
                let destination = read_addr(&mut rest).await?;
                outside[usize::from(destination.is_ipv6())].send_to(rest, destination).await?;
            }
            received = outside[0].recv_from(&mut v4) => down(&inside, relayed, received?, &v4).await?,
            received = outside[1].recv_from(&mut v6) => down(&inside, relayed, received?, &v6).await?,
            _ = client.read_u8() => return Ok(()),
        }
    }
}

async fn down(
    inside: &UdpSocket,
    client: Option<SocketAddr>,
    (len, from): (usize, SocketAddr),
    buf: &[u8],
) -> io::Result<()> {
    let client = client.expect("answers come after questions");
    let mut wrapped = vec![0, 0, 0];
    put_addr(&mut wrapped, from);
    wrapped.extend_from_slice(&buf[..len]);
    inside.send_to(&wrapped, client).await.map(drop)
}

fn reply(code: u8, addr: SocketAddr) -> Vec<u8> {
    let mut reply = vec![5, code, 0];
    put_addr(&mut reply, addr);
    reply
}

fn put_addr(out: &mut Vec<u8>, addr: SocketAddr) {
    match addr.ip() {
        IpAddr::V4(ip) => out.extend([&[1][..], &ip.octets()].concat()),
        IpAddr::V6(ip) => out.extend([&[4][..], &ip.octets()].concat()),
    }
    out.extend(addr.port().to_be_bytes());
}

async fn read_addr(from: &mut (impl AsyncReadExt + Unpin)) -> io::Result<SocketAddr> {
    let ip = match from.read_u8().await? {
        1 => IpAddr::from(from.read_u32().await?.to_be_bytes()),
        3 => {
            let mut name = vec![0; from.read_u8().await?.into()];
            from.read_exact(&mut name).await?;
            let port = from.read_u16().await?;
            return Ok(SocketAddr::new(look_up(&String::from_utf8_lossy(&name))?, port));
        }
        4 => IpAddr::from(from.read_u128().await?.to_be_bytes()),
        other => return Err(io::Error::other(format!("an address of kind {other}"))),
    };
    Ok(SocketAddr::new(ip, from.read_u16().await?))
}
