//! A service of gRPC that streams both ways, written by hand in place of what `protoc` would make of
//!
//! ```proto
//! package ackclock.examples;
//! message Number { uint64 value = 1; }
//! service Sums { rpc Add(stream Number) returns (stream Number); }
//! ```

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio_stream::{Stream, StreamExt};
use tonic::body::Body;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::{Service, http};
use tonic::server::{NamedService, StreamingService};
use tonic::transport::Channel;
use tonic::{Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;

/// The message of both directions.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Number {
    /// A number, or the sum of those before it.
    #[prost(uint64, tag = "1")]
    pub value: u64,
}

/// Answers each number with the sum of all so far.
#[derive(Clone, Debug, Default)]
pub struct Sums;

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;
type Totals = Pin<Box<dyn Stream<Item = Result<Number, Status>> + Send>>;

const PATH: &str = "/ackclock.examples.Sums/Add";

/// Opens a stream of sums of these numbers.
///
/// # Errors
/// The server cannot be reached or refuses.
pub async fn add(
    channel: Channel,
    numbers: impl Stream<Item = Number> + Send + 'static,
) -> Result<Streaming<Number>, Status> {
    let mut client = Grpc::new(channel);
    client.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
    let codec = ProstCodec::<Number, Number>::default();
    let answer = client.streaming(Request::new(numbers), PathAndQuery::from_static(PATH), codec).await?;
    Ok(answer.into_inner())
}

impl StreamingService<Number> for Sums {
    type Response = Number;
    type ResponseStream = Totals;
    type Future = Boxed<Result<Response<Totals>, Status>>;

    fn call(&mut self, request: Request<Streaming<Number>>) -> Self::Future {
        // The connection that the request came on.
        if let (Some(peer), Some(local)) = (request.remote_addr(), request.local_addr()) {
            println!("{peer} adds at {local}");
        }
        let mut sum = 0u64;
        let totals = request.into_inner().map(move |number| {
            sum = sum.checked_add(number?.value).ok_or_else(|| Status::out_of_range("beyond 64 bits"))?;
            Ok(Number { value: sum })
        });
        Box::pin(async move { Ok(Response::new(Box::pin(totals) as Totals)) })
    }
}

impl Service<http::Request<Body>> for Sums {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Boxed<Result<http::Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let sums = self.clone();
        Box::pin(async move {
            if request.uri().path() != PATH {
                return Ok(Status::unimplemented("there is only Add").into_http());
            }
            let mut grpc = tonic::server::Grpc::new(ProstCodec::<Number, Number>::default());
            Ok(grpc.streaming(sums, request).await)
        })
    }
}

impl NamedService for Sums {
    const NAME: &'static str = "ackclock.examples.Sums";
}
