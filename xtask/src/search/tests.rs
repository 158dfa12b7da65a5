use super::*;

#[test]
fn filters_choose_parts_which_share_the_time() {
    let targets = || vec!["config".to_owned(), "wire".to_owned()];
    let names = |filters: &[&str]| {
        let filters: Vec<_> = filters.iter().map(|filter| (*filter).to_owned()).collect();
        parts(targets(), &filters).iter().map(|part| part.name().to_owned()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(names(&[]), "config wire simulation tests");
    assert_eq!(names(&["wi", "sim"]), "wire simulation");
    assert_eq!(names(&["nothing"]), "");
    assert_eq!(share(2, 4), Duration::from_secs(30));
}
