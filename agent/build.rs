//! Finds the eBPF object that the agent embeds.
fn main() {
    println!("cargo:rustc-env=VIPWARD_EBPF_OBJECT=target/bpf/vipward.o");
}
