//! What flows do outside.

mod container;
mod files;
#[cfg(feature = "grpc")]
mod grpc;
#[cfg(feature = "grpc")]
mod grpc_server;
mod http;
mod process;
mod talk;
#[cfg(feature = "websocket")]
mod websocket;
