//! Set-ups of the papers from which ackclock's TCP comes, as scenarios: networks, senders, and what they
//! send. `ackclock-papers` measures them; the page of `ackclock-lab` shows them.

pub mod bfa;
pub mod jacobson;
pub mod vegas;
