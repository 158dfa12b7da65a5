use std::collections::BTreeSet;

use kube::Resource as _;
use serde_json::Value;

use super::{super::vip_pool::VIPPool, *};

fn version() -> Value {
    serde_json::to_value(definition()).expect("it serializes")["spec"]["versions"][0].clone()
}

#[test]
fn the_definition_is_the_same_text_each_time_and_is_read_back_as_what_it_was() {
    let text = crd_yaml();
    assert_eq!(text, crd_yaml());
    let read = |text: &str| serde_saphyr::from_str::<CustomResourceDefinition>(text).expect("it is YAML");
    let all: Vec<_> = text.split("---\n").map(read).collect();
    assert_eq!(all, [definition(), vip_pool::definition()]);
}

#[test]
fn the_formats_of_numbers_are_those_that_the_api_server_knows() {
    let text = crd_yaml();
    let formats = text.lines().filter_map(|line| line.trim().strip_prefix("format: "));
    let found: BTreeSet<_> = formats.collect();
    assert_eq!(found, ["date-time", "int32", "int64"].into());
}

#[test]
fn both_types_have_the_version_that_writes_name() {
    assert_eq!([VirtualIP::api_version(&()), VIPPool::api_version(&())], [meta::VERSION; 2]);
}

#[test]
fn a_claim_is_one_object_and_one_write() {
    assert_eq!(version()["subresources"], Value::Null);
    assert_eq!(version()["schema"]["openAPIV3Schema"]["properties"]["status"]["type"], "object");
}

#[test]
fn the_columns_are_those_that_the_documentation_shows() {
    let columns = |wide: bool| -> Vec<String> {
        version()["additionalPrinterColumns"]
            .as_array()
            .expect("a list")
            .iter()
            .filter(|column| (column["priority"].as_i64().unwrap_or(0) > 0) == wide)
            .map(|column| column["name"].as_str().expect("a name").to_owned())
            .collect()
    };
    assert_eq!(
        columns(false),
        ["ADDRESS", "HOLDER", "STATE", "MAC", "INTERFACE", "EPOCH", "SERVICES", "CONFLICT", "AGE"]
    );
    assert_eq!(columns(true), ["SINCE", "CAUSE", "TROUBLE", "UNANSWERED"]);
}

#[test]
fn every_column_shows_a_field_that_the_schema_has() {
    let version = version();
    for column in version["additionalPrinterColumns"].as_array().expect("a list") {
        let path = column["jsonPath"].as_str().expect("a path");
        let mut schema = &version["schema"]["openAPIV3Schema"];
        for part in path.split('.').skip(1).take_while(|part| *part != "metadata") {
            schema = &schema["properties"][part];
        }
        assert!(schema.is_object(), "{path} is not in the schema");
    }
}

#[test]
fn every_field_is_described() {
    fn walk(schema: &Value, path: &str) {
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            let path = format!("{path}.{name}");
            assert!(field["description"].as_str().is_some_and(|text| !text.is_empty()), "{path}");
            walk(field, &path);
            walk(&field["items"], &path);
        }
    }
    walk(&version()["schema"]["openAPIV3Schema"], "");
}

#[test]
fn patterns_are_of_the_kind_that_the_api_server_can_compile() {
    // Go's regexp has neither look-around nor back-references.
    let text = crd_yaml();
    for line in text.lines().filter(|line| line.trim_start().starts_with("pattern:")) {
        assert!(!line.contains("(?") && !line.contains(r"\1"), "{line}");
    }
}
