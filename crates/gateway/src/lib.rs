//! Answers by programs: PHP over FastCGI, and CGI.
//!
//! Reading order: [`GatewayClient`] is the connection whose request a program answers. `parts` has
//! the parts that PHP and CGI share: collecting a request's content, and the relay of the answer.
//! [`php`] and [`cgi`] run the programs, and [`programs`] has their configuration, state and life.
//!
//! The server owns the connections, so the trait has the methods of a connection that an answer
//! needs. The trait is wide because an answer does everything that a connection can do: content
//! comes in, output goes out, the client may leave meanwhile, and the log gets the result. A
//! narrower trait would need an owner of buffers and timers between the two. Must never know
//! connections of the server, or choose the request that a program answers.

pub mod cgi;
mod parts;
pub mod php;
pub mod programs;

pub use parts::{
    Asking, Broken, Collected, ConfiguredBy, EndedAnswer, ErrorSink, Failure, FoundProgram, GatewayClient,
    GatewayCore, GatewayKind, Named, ParentFolder, PrivateWorkspace, Relayed, RunDirs, SendRefusal,
    SendSites, SpoolError, Spools, Trouble, encoded, send_roots,
};
