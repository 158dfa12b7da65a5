use super::*;
use crate::{
    ownership::tests::records::{VIP, at, claim_record, held},
    records::Epoch,
};

#[test]
fn three_reads_come_at_once_and_then_the_pauses_double_up_to_a_limit() {
    let mut requests = Requests::new(at(0));
    let mut pauses = Vec::new();
    let mut now = at(0);
    for _ in 0..10 {
        requests.begin_read(now);
        requests.unread = true;
        pauses.push(requests.next().saturating_since(now));
        now = requests.next();
    }
    let expected = [0, 0, 0, 250, 500, 1_000, 2_000, 4_000, 5_000, 5_000].map(Duration::from_millis);
    assert_eq!(pauses, expected);
    // After a long time they begin anew.
    now = now + FORGOTTEN + Duration::from_millis(1);
    requests.begin_read(now);
    requests.unread = true;
    assert_eq!(requests.next(), now);
}

#[test]
fn a_read_at_once_does_not_wait_for_the_pause() {
    let mut requests = Requests::new(at(0));
    for _ in 0..5 {
        requests.begin_read(at(0));
    }
    requests.read_at_once();
    assert_eq!(requests.next(), at(0));
}

#[test]
fn the_news_of_an_object_end_with_its_deletion() {
    let record = |epoch| ClaimRecord { epoch: Epoch(epoch), state: held("b"), ..claim_record(VIP) };
    let deleted = record(3);
    let mut requests = Requests::new(at(0));
    requests.keep_news(News::Claim(record(2).into()));
    requests.keep_news(News::Gone);
    requests.keep_news(News::Claim(deleted.clone().into()));
    requests.keep_news(News::Claim(ClaimRecord { deleting: true, ..record(3) }.into()));
    requests.keep_news(News::Claim(record(1).into()));
    requests.forget_news_of(Some(&deleted));
    assert_eq!(requests.take_news(), [News::Claim(record(1).into())]);
}

#[test]
fn of_many_news_the_latest_are_kept() {
    let mut requests = Requests::new(at(0));
    for epoch in 0..20 {
        requests.keep_news(News::Claim(ClaimRecord { epoch: Epoch(epoch), ..claim_record(VIP) }.into()));
    }
    let news = requests.take_news();
    assert_eq!(news.len(), MOST_NEWS);
    assert!(matches!(&news[7], News::Claim(record) if record.epoch == Epoch(19)));
}
