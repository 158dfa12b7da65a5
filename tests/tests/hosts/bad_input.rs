//! What is wrong is said in words that name it and the way out, with its exit code, and what is right goes on.

mod file;
mod neighbours;
mod network;
mod privileges;
