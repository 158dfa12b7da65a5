//! What is wrong is said in words that name it and the way out, with its exit code, and what is right goes on.

#[path = "bad_input/file.rs"]
mod file;
#[path = "bad_input/neighbours.rs"]
mod neighbours;
#[path = "bad_input/network.rs"]
mod network;
#[path = "bad_input/privileges.rs"]
mod privileges;
