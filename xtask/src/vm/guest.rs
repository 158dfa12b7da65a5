//! The first process of a machine, and the tests that it starts.

use crate::process;

/// Prefix of the line with the exit code.
pub(super) const EXIT: &str = "vm-exit: ";
/// Prefix of a line of the tests' report.
pub(super) const ROW: &str = "vm-row: ";
/// Line printed when the tests begin.
pub(super) const UP: &str = "vm-up";
/// Name of the share with this machine's files.
pub(super) const HOST_TAG: &str = "host";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Root {
    /// This machine's, below a layer in memory that takes what the tests write.
    Host,
    Initramfs,
}

/// Mounts this machine's root, and runs the tests in it.
const ON_HOST: &str = "\
mkdir /host /layer
mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000,cache=loose,ro host /host
mount -t tmpfs layer /layer
mkdir /layer/upper /layer/work
mount -t overlay -o lowerdir=/host,upperdir=/layer/upper,workdir=/layer/work overlay /root
for dir in dev proc sys; do mount --bind /$dir /root/$dir; done
mount -t bpf bpf /root/sys/fs/bpf
cp /tests /root/vm-tests
report=/root/vm-report
chroot /root /bin/sh /vm-tests
";

const ON_INITRAMFS: &str = "\
mount -t bpf bpf /sys/fs/bpf
report=/vm-report
sh /tests
";

/// Returns the script of the first process.
pub(super) fn init(root: Root) -> String {
    let run = match root {
        Root::Host => ON_HOST,
        Root::Initramfs => ON_INITRAMFS,
    };
    format!(
        "\
#!/bin/busybox sh
/bin/busybox --install -s
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
while read -r module; do
  insmod /modules/$module.ko || echo \"failed to load $module\"
done </modules/order
until [ -c /dev/vport*p1 ]; do sleep 0.1; done
port=$(echo /dev/vport*p1)
exec >$port 2>&1
echo {UP}
{run}code=$?
[ ! -e $report ] || sed 's/^/{ROW}/' $report
echo {EXIT}$code
reboot -f
"
    )
}

/// Returns the script that runs the tests: a program with variables and arguments.
pub(super) fn tests(variables: &[(&str, String)], directory: &str, program: &str, args: &[String]) -> String {
    let exports = variables.iter().map(|(name, value)| format!("export {name}={}\n", process::quoted(value)));
    let script: String = exports.collect();
    let words = std::iter::once(program).chain(args.iter().map(String::as_str));
    let words: Vec<_> = words.map(process::quoted).collect();
    script + &format!("cd {} && exec {}\n", process::quoted(directory), words.join(" "))
}
