use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};

use tokio::time::timeout;

use super::*;
use crate::shell::testing::TempDir;

const DEADLINE: Duration = Duration::from_secs(10);
/// A time longer than the debouncing and the retry.
const QUIET: Duration = Duration::from_millis(300);

/// Watches in the test's own thread.
async fn watch(path: &Path) -> Watch {
    let inotify = init(path).expect("a queue");
    let mut watch = Watch::on(inotify, path.to_owned(), Threads::default()).expect("a watch");
    noticed(&mut watch, "begun").await;
    watch
}

async fn noticed(watch: &mut Watch, what: &str) {
    let changed = timeout(DEADLINE, watch.changed()).await;
    changed.unwrap_or_else(|_| panic!("{what}: not noticed")).expect("the watch works");
    let names = watch.names.clone();
    let mut more = 0;
    while timeout(QUIET, watch.changed()).await.is_ok() {
        more += 1;
    }
    // A change may have been missed until other entries were watched.
    assert!(more <= usize::from(watch.names != names), "{what}: reported {more} more times");
}

async fn not_noticed(watch: &mut Watch, what: &str) {
    assert!(timeout(QUIET, watch.changed()).await.is_err(), "{what}: reported");
}

#[tokio::test]
async fn a_file_that_is_written_replaced_deleted_or_made_again_is_noticed_and_its_neighbours_are_not() {
    let temp = TempDir::new();
    let path = temp.0.join("vipward.yaml");
    fs::write(&path, "a").expect("written");
    let mut watch = watch(&path).await;
    not_noticed(&mut watch, "nothing").await;

    fs::write(&path, "b").expect("written");
    noticed(&mut watch, "written in place").await;
    let new = temp.0.join("vipward.yaml~");
    fs::write(&new, "c").expect("written");
    not_noticed(&mut watch, "a neighbour").await;
    fs::rename(&new, &path).expect("renamed");
    noticed(&mut watch, "renamed over it").await;
    fs::remove_file(&path).expect("removed");
    noticed(&mut watch, "deleted").await;
    fs::write(&path, "d").expect("written");
    noticed(&mut watch, "made again").await;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("changed");
    noticed(&mut watch, "made readable").await;
    fs::read(&path).expect("read");
    not_noticed(&mut watch, "read").await;
}

#[tokio::test]
async fn a_file_that_is_made_again_is_noticed_when_its_writer_closes_it() {
    let temp = TempDir::new();
    let path = temp.0.join("vipward.yaml");
    let mut watch = watch(&path).await;
    let mut file = fs::File::create(&path).expect("created");
    file.write_all(b"half").expect("written");
    not_noticed(&mut watch, "half written").await;
    file.write_all(b" and half").expect("written");
    drop(file);
    noticed(&mut watch, "closed").await;

    fs::remove_file(&path).expect("removed");
    noticed(&mut watch, "deleted").await;
    fs::write(temp.0.join("other"), "whole").expect("written");
    fs::hard_link(temp.0.join("other"), &path).expect("linked");
    noticed(&mut watch, "linked").await;
}

#[tokio::test]
async fn a_burst_of_changes_is_one_and_a_cancelled_wait_loses_nothing() {
    let temp = TempDir::new();
    let path = temp.0.join("vipward.yaml");
    let mut watch = watch(&path).await;
    for content in ["a", "b", "c"] {
        fs::write(&path, content).expect("written");
    }
    let early = timeout(Duration::from_millis(20), watch.changed()).await;
    assert!(early.is_err(), "reported before the debouncing was over");
    assert!(watch.due.is_some(), "the cancelled wait has taken the events");
    noticed(&mut watch, "a burst").await;
}

#[tokio::test]
async fn a_config_map_that_swaps_its_data_link_is_noticed_each_time() {
    let temp = TempDir::new();
    let publish = |version: &str| {
        let data = temp.0.join(version);
        fs::create_dir(&data).expect("made");
        fs::write(data.join("vipward.yaml"), version).expect("written");
        symlink(version, temp.0.join("..data_tmp")).expect("linked");
        fs::rename(temp.0.join("..data_tmp"), temp.0.join("..data")).expect("swapped");
    };
    publish("..1");
    symlink("..data/vipward.yaml", temp.0.join("vipward.yaml")).expect("linked");
    let mut watch = watch(&temp.0.join("vipward.yaml")).await;
    for (old, new) in [("..1", "..2"), ("..2", "..3")] {
        publish(new);
        fs::remove_dir_all(temp.0.join(old)).expect("removed");
        noticed(&mut watch, new).await;
    }
    fs::write(temp.0.join("..3/vipward.yaml"), "edited").expect("written");
    noticed(&mut watch, "written behind the links").await;
}

#[tokio::test]
async fn a_file_behind_a_link_to_another_directory_is_noticed() {
    let (temp, elsewhere) = (TempDir::new(), TempDir::new());
    let target = elsewhere.0.join("real.yaml");
    fs::write(&target, "a").expect("written");
    let path = temp.0.join("vipward.yaml");
    symlink(&target, &path).expect("linked");
    let mut watch = watch(&path).await;
    fs::write(&target, "b").expect("written");
    noticed(&mut watch, "written behind the link").await;
    fs::remove_file(&path).expect("removed");
    fs::write(&path, "c").expect("written");
    noticed(&mut watch, "the link replaced by a file").await;
    fs::write(&target, "d").expect("written");
    not_noticed(&mut watch, "what the link once meant").await;
}

#[tokio::test]
async fn a_directory_that_vanishes_or_moves_is_looked_for_until_it_is_back() {
    let temp = TempDir::new();
    let directory = temp.0.join("etc");
    let path = directory.join("vipward.yaml");
    fs::create_dir(&directory).expect("made");
    fs::write(&path, "a").expect("written");
    let mut watch = watch(&path).await;

    fs::remove_dir_all(&directory).expect("removed");
    noticed(&mut watch, "removed with its directory").await;
    assert!(watch.has_missed);
    fs::create_dir(&directory).expect("made");
    fs::write(&path, "b").expect("written");
    noticed(&mut watch, "its directory is back").await;
    assert!(!watch.has_missed);

    fs::rename(&directory, temp.0.join("moved")).expect("moved");
    noticed(&mut watch, "moved with its directory").await;
    fs::write(temp.0.join("moved/vipward.yaml"), "c").expect("written");
    not_noticed(&mut watch, "in the directory that has moved away").await;
    fs::rename(temp.0.join("moved"), &directory).expect("moved back");
    noticed(&mut watch, "its directory has moved back").await;
    fs::write(&path, "d").expect("written");
    noticed(&mut watch, "watched as before").await;
}

#[tokio::test]
async fn a_link_that_leads_in_a_circle_ends() {
    let temp = TempDir::new();
    let path = temp.0.join("vipward.yaml");
    symlink("vipward.yaml", &path).expect("linked");
    let mut watch = watch(&path).await;
    fs::remove_file(&path).expect("removed");
    noticed(&mut watch, "the circle is gone").await;
}

#[tokio::test]
async fn while_a_look_along_the_path_goes_on_what_it_has_found_is_watched() {
    let (temp, elsewhere) = (TempDir::new(), TempDir::new());
    let path = temp.0.join("vipward.yaml");
    fs::write(&path, "a").expect("written");
    let mut watch = watch(&path).await;
    symlink(elsewhere.0.join("real.yaml"), temp.0.join("link")).expect("linked");
    fs::rename(temp.0.join("link"), &path).expect("renamed");
    noticed(&mut watch, "a link").await;
    // As if the look had found the link, and were held by the file system behind it.
    let (names, looks) = (std::mem::take(&mut watch.names), watch.looks);
    watch.look = Some(Look { names, missing: None });
    fs::write(temp.0.join("new"), "b").expect("written");
    fs::rename(temp.0.join("new"), &path).expect("renamed");
    noticed(&mut watch, "a file in the link's place").await;
    assert_eq!(watch.looks, looks + 1);
}

#[tokio::test]
async fn a_watch_in_its_thread_reports_that_it_has_begun_and_each_change() {
    let temp = TempDir::new();
    let path = temp.0.join("vipward.yaml");
    let mut watch = FileWatch::start(&path, Threads::default()).expect("a watch");
    for what in ["begun", "written"] {
        let changed = timeout(DEADLINE, watch.changed()).await;
        changed.unwrap_or_else(|_| panic!("{what}: not reported")).expect("the watch works");
        fs::write(&path, what).expect("written");
    }
}

#[tokio::test]
async fn a_path_without_a_name_is_refused() {
    let error = FileWatch::start(Path::new("/"), Threads::default()).err().expect("it is no file");
    assert_eq!(error.to_string(), "cannot watch /: it names no file");
}
