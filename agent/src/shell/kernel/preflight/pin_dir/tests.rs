use std::os::unix::fs::PermissionsExt;
use std::process::id;
use std::sync::atomic::{AtomicBool, Ordering};

use caps::{CapSet, Capability};
use nix::mount::{MntFlags, umount2};
use nix::sched::CloneFlags;

use super::*;
use crate::shell::testing::{TempDir, in_namespaces};

/// Runs `test` with private mounts, and without a bpffs at the usual place.
fn without_bpffs(test: impl FnOnce() + Send + 'static) {
    in_namespaces(CloneFlags::CLONE_NEWNS, || {
        let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
        mount::<str, str, str, str>(None, "/", None, private, None).expect("mounts stay in here");
        while umount2(BPFFS, MntFlags::MNT_DETACH).is_ok() {}
        test();
    });
}

fn mount_bpffs(at: &Path) {
    mount::<str, _, str, str>(Some("bpf"), at, Some("bpf"), MsFlags::empty(), None).expect("a bpffs");
}

#[test]
fn bpffs_is_mounted_at_its_usual_place_and_the_directory_made_for_us_alone() {
    without_bpffs(|| {
        let dir = Path::new("/sys/fs/bpf/vipward/deeper");
        for _ in 0..2 {
            ensure_bpffs(dir).expect("mounted, then found");
        }
        assert!(is_bpffs(dir).expect("it exists"));
        for made in [dir, Path::new("/sys/fs/bpf/vipward")] {
            let mode = std::fs::metadata(made).expect("it exists").permissions().mode();
            assert_eq!(mode & 0o777, 0o700, "{made:?}");
        }
        umount2(BPFFS, MntFlags::MNT_DETACH).expect("it was mounted");
        assert!(!is_bpffs(Path::new(BPFFS)).expect("it exists"), "it was mounted once only");
    });
}

#[test]
fn a_directory_on_a_bpffs_elsewhere_is_used_as_it_is() {
    without_bpffs(|| {
        let temp = TempDir::new();
        mount_bpffs(&temp.0);
        ensure_bpffs(&temp.0.join("a/b")).expect("made");
        assert!(temp.0.join("a/b").is_dir());
        assert!(!is_bpffs(Path::new(BPFFS)).expect("it exists"), "nothing else was mounted");
        umount2(&temp.0, MntFlags::MNT_DETACH).expect("unmounted");
    });
}

#[test]
fn a_directory_on_another_filesystem_is_refused_with_the_way_out() {
    let temp = TempDir::new();
    let dir = temp.0.join("pins/here");
    let error = ensure_bpffs(&dir).expect_err("it is not a bpffs");
    assert_eq!(
        error.to_string(),
        format!("{} is not on a bpffs: choose a --pin-dir below /sys/fs/bpf", dir.display())
    );
    assert!(!temp.0.join("pins").exists(), "nothing was made");
}

#[test]
fn an_agent_that_may_not_mount_names_the_command() {
    without_bpffs(|| {
        caps::drop(None, CapSet::Effective, Capability::CAP_SYS_ADMIN).expect("dropped");
        let error = ensure_bpffs(Path::new("/sys/fs/bpf/vipward")).expect_err("it may not be mounted");
        assert_eq!(
            error.to_string(),
            "no bpffs is mounted on /sys/fs/bpf and mounting it failed: run `mount -t bpf bpf /sys/fs/bpf` as root, \
             or choose a --pin-dir on a bpffs that is mounted elsewhere"
        );
        assert!(matches!(error, PinDirError::Mount(Errno::EPERM)));
    });
}

#[test]
fn one_agent_at_a_time_uses_a_pin_directory_and_the_error_of_another_names_it() {
    without_bpffs(|| {
        let temp = TempDir::new();
        mount_bpffs(&temp.0);
        let (dir, other) = (temp.0.join("pins"), temp.0.join("other"));
        ensure_bpffs(&dir).expect("made");
        ensure_bpffs(&other).expect("made");
        let lock = PinDirLock::acquire(&dir).expect("no process has it");
        let _elsewhere = PinDirLock::acquire(&other).expect("no process has that one");

        let error = PinDirLock::acquire(&dir).expect_err("it is taken");
        assert_eq!(
            error.to_string(),
            format!(
                "another vipward agent (pid {}) uses {}: stop it; two agents need network namespaces and pin \
                 directories (--pin-dir) of their own",
                id(),
                dir.display()
            )
        );
        drop(lock);
        PinDirLock::acquire(&dir).expect("it was given back");
        umount2(&temp.0, MntFlags::MNT_DETACH).expect("unmounted");
    });
}

#[test]
fn a_look_for_the_user_of_a_directory_refuses_no_agent() {
    let temp = TempDir::new();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                user_of(&temp.0).expect("read");
            }
        });
        let refused = (0..500).find_map(|_| PinDirLock::acquire(&temp.0).err());
        is_over.store(true, Ordering::Relaxed);
        assert!(refused.is_none(), "{refused:?}");
    });
}

#[test]
fn a_lock_is_of_the_directory_that_was_locked_and_of_none_that_replaces_it() {
    let temp = TempDir::new();
    let dir = temp.0.join("pins");
    std::fs::create_dir(&dir).expect("made");
    let lock = PinDirLock::acquire(&dir).expect("no process has it");
    assert!(lock.is_of(&dir).expect("read"));
    std::fs::remove_dir(&dir).expect("removed");
    assert!(!lock.is_of(&dir).expect("read"));
    std::fs::create_dir(&dir).expect("made again");
    assert!(!lock.is_of(&dir).expect("read"));
}

#[test]
fn a_holder_that_cannot_be_seen_is_left_out() {
    let error = PinDirError::InUse { dir: "/pins".into(), pid: None };
    assert_eq!(
        error.to_string(),
        "another vipward agent uses /pins: stop it; two agents need network namespaces and pin directories \
         (--pin-dir) of their own"
    );
    let error = PinDirLock::acquire(Path::new("/none/such")).expect_err("it does not exist");
    assert_eq!(error.to_string(), "failed to inspect the pin directory /none/such");
}

#[test]
fn the_holder_of_a_lock_is_found_by_device_and_inode() {
    let ours = nix::sys::stat::makedev(0, 0x28);
    let table = [
        ("found", "1: FLOCK  ADVISORY  WRITE 4711 00:28:60033 0 EOF", Some(4711)),
        (
            "behind another",
            "1: POSIX  ADVISORY  READ 1 fd:00:9 0 EOF\n2: FLOCK ADVISORY WRITE 7 00:28:60033 0 EOF",
            Some(7),
        ),
        ("shared", "1: FLOCK  ADVISORY  READ 4711 00:28:60033 0 EOF", None),
        ("not a flock", "1: POSIX  ADVISORY  WRITE 4711 00:28:60033 0 EOF", None),
        ("waits for it", "1: -> FLOCK  ADVISORY  WRITE 4711 00:28:60033 0 EOF", None),
        ("another inode", "1: FLOCK  ADVISORY  WRITE 4711 00:28:6003 0 EOF", None),
        ("another device", "1: FLOCK  ADVISORY  WRITE 4711 00:29:60033 0 EOF", None),
        ("another namespace's process", "1: FLOCK  ADVISORY  WRITE -1 00:28:60033 0 EOF", None),
        ("cut", "1: FLOCK  ADVISORY", None),
        ("empty", "", None),
    ];
    for (what, locks, expected) in table {
        assert_eq!(flock_holder(locks, ours, 60033), expected, "{what}");
    }
}

#[test]
fn a_directory_that_others_can_change_is_refused() {
    let temp = TempDir::new();
    let set =
        |mode| std::fs::set_permissions(&temp.0, std::fs::Permissions::from_mode(mode)).expect("changed");
    set(0o755);
    check_owner(temp.0.clone()).expect("others may look");
    for mode in [0o770, 0o707, 0o1777] {
        set(mode);
        let error = check_owner(temp.0.clone()).expect_err("others may write").to_string();
        assert!(error.contains(&format!("with mode {mode:o}")), "{error}");
        assert!(error.contains("chmod 0700"), "{error}");
    }
}

#[test]
fn a_volume_that_is_not_shared_keeps_what_is_mounted_there_in_the_container() {
    let line = |at: &str, optional: &str| format!("9 1 0:5 /fs/bpf {at} rw{optional} - sysfs sysfs rw");
    let root = "1 0 8:1 / / rw - ext4 /dev/sda rw";
    for (mounts, expected, description) in [
        (String::new(), false, "it cannot be read"),
        (format!("{root}\n{}", line("/sys", "")), false, "no volume: a host, whether its / is shared or not"),
        (line(BPFFS, " shared:7"), false, "Bidirectional"),
        (line(BPFFS, " shared:7 master:3"), false, "Bidirectional, below a shared subtree"),
        (line(BPFFS, " master:3"), true, "HostToContainer"),
        (line(BPFFS, ""), true, "None"),
        (format!("{}\n{}", line(BPFFS, " shared:7"), line(BPFFS, " master:3")), true, "the upper one counts"),
    ] {
        assert_eq!(is_of_container(&mounts), expected, "{description}: {mounts}");
    }
}

#[test]
fn an_agent_whose_bpffs_would_end_with_its_container_says_so() {
    without_bpffs(|| {
        let sysfs = Path::new(BPFFS);
        mount::<_, _, str, str>(Some(sysfs), sysfs, None, MsFlags::MS_BIND, None).expect("a volume");
        mount::<str, _, str, str>(None, sysfs, None, MsFlags::MS_PRIVATE, None).expect("it is private");
        let error = ensure_bpffs(Path::new("/sys/fs/bpf/vipward")).expect_err("it would not last");
        assert!(error.to_string().contains("mountPropagation"), "{error}");
        assert!(!is_bpffs(sysfs).expect("it exists"));
    });
}
