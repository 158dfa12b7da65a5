use super::*;

#[test]
fn a_services_labels_have_the_values_that_they_were_made_from() {
    let pairs = [("app", "web"), ("app.example.com/part-of", "a=b"), ("empty", ""), ("zone", "app=x")];
    let map: BTreeMap<_, _> =
        pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).into_iter().collect();
    let labels = ServiceLabels::from(&map);
    for key in ["app", "app.example.com/part-of", "empty", "zone", "ap", "app.example.com", "b", "x", ""] {
        assert_eq!(labels.value(key), map.value(key), "{key:?}");
    }
    let none = ServiceLabels::from(&BTreeMap::new());
    assert_eq!((none.value("app"), none.value("")), (None, None));
    assert_eq!(none, ServiceLabels::default());
}
