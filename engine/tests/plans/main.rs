//! Plans: how they are made, what runs in which order, and what of them is kept.

#[path = "../common/mod.rs"]
mod common;

mod action_kit;
mod batches;
mod before;
mod chains;
mod clock;
mod continued;
mod execution;
mod extends;
mod fan_out;
mod growth;
mod many_sub_plans;
mod middleware;
mod order;
mod outputs;
mod parts;
mod planning;
mod rounds;
mod scenarios;
mod short;
mod sub_plans;
mod versions;
mod vocabulary;
mod waits;
