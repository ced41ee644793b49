//! tonic: servers take a listener's streams, and handlers see both addresses of a connection.

use ::tonic::transport::server::{Connected, TcpConnectInfo};

use crate::TcpStream;

/// Both addresses, where tonic's `Request::remote_addr` and `local_addr` look for them.
impl Connected for TcpStream {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        TcpConnectInfo { local_addr: self.local_addr().ok(), remote_addr: self.peer_addr().ok() }
    }
}
