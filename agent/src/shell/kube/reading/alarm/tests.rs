use super::*;

fn listed(listener: &mut Listener, is_older: bool) -> bool {
    listener.begin_list();
    listener.end_list(is_older)
}

#[test]
fn a_request_for_lists_is_served_by_a_list_that_begins_after_it() {
    let alarm = Alarm::new();
    let mut listener = alarm.listen();
    assert!(!listener.wants_list(), "the first list needs no request");
    alarm.list_anew();
    alarm.list_anew();
    assert!(listener.wants_list());
    listener.begin_list();
    assert!(!listener.wants_list(), "one list serves both");
    alarm.list_anew();
    listener.end_list(false);
    assert!(listener.wants_list(), "what was asked for meanwhile is not served by it");
    alarm.raise();
    listener.begin_list();
    assert!(!listener.wants_list(), "a doubt about connections asks for none");
}

#[test]
fn of_all_lists_that_show_an_older_state_one_tells_it_and_all_others_list_once_more() {
    let alarm = Alarm::new();
    let [mut first, mut second, mut quiet] = [alarm.listen(), alarm.listen(), alarm.listen()];
    second.begin_list();
    assert!(listed(&mut first, true), "it is the first");
    assert!(!first.wants_list(), "its own list was one of the older state");
    assert!(!second.end_list(true), "it was signalled while this one listed");
    assert!(second.wants_list() && quiet.wants_list());
    assert!(!listed(&mut second, false));
    assert!(!listed(&mut quiet, true), "it lists because that was signalled");
    assert!([&first, &second, &quiet].iter().all(|one| !one.wants_list()));
}

#[test]
fn a_store_that_goes_back_again_is_reported_again() {
    let alarm = Alarm::new();
    let [mut first, mut second, mut third] = [alarm.listen(), alarm.listen(), alarm.listen()];
    assert!(listed(&mut first, true));
    assert!(!listed(&mut second, false), "nothing of this type had happened since");
    assert!(!listed(&mut third, true));
    assert!(listed(&mut second, true), "the first that finds it");
    assert!(!listed(&mut first, true) && !listed(&mut third, true));
    assert!(listed(&mut third, true));
}

#[test]
fn what_is_asked_for_while_a_list_shows_an_older_state_is_still_to_be_done() {
    let alarm = Alarm::new();
    let mut first = alarm.listen();
    first.begin_list();
    alarm.list_anew();
    assert!(first.end_list(true));
    assert!(first.wants_list());
}

#[tokio::test]
async fn renewals_are_counted_and_wake_no_task() {
    let alarm = Alarm::new();
    let mut listener = alarm.listen();
    alarm.renewed();
    alarm.renewed();
    assert_eq!(listener.renewals(), 2);
    tokio::select! {
        biased;
        () = listener.raised() => panic!("woken"),
        () = std::future::ready(()) => {}
    }
    alarm.list_anew();
    listener.raised().await;
}
