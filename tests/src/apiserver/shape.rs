//! How values of a type merge: which maps and lists are one value, and which are many with owners of their own.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// How one value merges with another.
#[derive(Debug, Clone)]
pub(super) enum Shape {
    /// One value, whatever is in it.
    Whole,
    /// What nothing is known of: objects merge field by field, lists are one value.
    Open,
    /// An object with these fields; the others are `Open`.
    Struct(BTreeMap<String, Shape>),
    /// An object whose keys are data.
    Map(Box<Shape>),
    /// A list of objects that these keys tell apart.
    ListMap { keys: Vec<ListKey>, item: Box<Shape> },
    /// A list of scalars, each there once.
    Set,
}

/// A key of a [`Shape::ListMap`], and what it is where an item does not say.
#[derive(Debug, Clone)]
pub(super) struct ListKey {
    pub(super) name: String,
    pub(super) default: Option<Value>,
}

static OPEN: Shape = Shape::Open;
static WHOLE: Shape = Shape::Whole;

impl Shape {
    /// A list of objects told apart by `keys`.
    pub(super) fn list_by(keys: &[&str], item: Self) -> Self {
        let keys = keys.iter().map(|name| ListKey { name: (*name).to_owned(), default: None }).collect();
        Self::ListMap { keys, item: Box::new(item) }
    }

    /// A list of ports, whose protocol is TCP where they do not say.
    pub(super) fn ports(number: &str) -> Self {
        let keys = vec![
            ListKey { name: number.to_owned(), default: None },
            ListKey { name: "protocol".to_owned(), default: Some(Value::from("TCP")) },
        ];
        Self::ListMap { keys, item: Box::new(Self::Open) }
    }

    /// This struct with `shape` at the dotted `path`.
    pub(super) fn with(mut self, path: &str, shape: Self) -> Self {
        let mut place = &mut self;
        for field in path.split('.') {
            if !matches!(place, Self::Struct(_)) {
                *place = Self::Struct(BTreeMap::new());
            }
            let Self::Struct(fields) = place else { unreachable!("it was made one") };
            place = fields.entry(field.to_owned()).or_insert(Self::Open);
        }
        *place = shape;
        self
    }

    /// The shape of the field `name` of an object of this shape.
    pub(super) fn field(&self, name: &str) -> &Self {
        match self {
            Self::Struct(fields) => fields.get(name).unwrap_or(&OPEN),
            Self::Map(item) => item,
            Self::Open => &OPEN,
            Self::Whole | Self::ListMap { .. } | Self::Set => &WHOLE,
        }
    }

    /// The shape of the items of a list of this shape.
    pub(super) fn item(&self) -> &Self {
        match self {
            Self::ListMap { item, .. } => item,
            Self::Whole | Self::Open | Self::Struct(_) | Self::Map(_) | Self::Set => &WHOLE,
        }
    }

    /// Whether the keys of an object of this shape are data, each with an owner.
    pub(super) const fn is_map(&self) -> bool {
        matches!(self, Self::Map(_))
    }

    /// The fields of `value`, when they have owners of their own.
    pub(super) fn fields_of<'a>(&self, value: &'a Value) -> Option<&'a Map<String, Value>> {
        match self {
            Self::Open | Self::Struct(_) | Self::Map(_) => value.as_object(),
            Self::Whole | Self::ListMap { .. } | Self::Set => None,
        }
    }

    /// The items of `value` with the element that tells each apart, when they have owners of their own.
    pub(super) fn items_of<'a>(&self, value: &'a Value) -> Option<Vec<(String, &'a Value)>> {
        match self {
            Self::ListMap { .. } | Self::Set => {
                let items = value.as_array()?;
                Some(items.iter().map(|item| (self.element(item), item)).collect())
            }
            Self::Whole | Self::Open | Self::Struct(_) | Self::Map(_) => None,
        }
    }

    /// What tells `item` apart in a list of this shape, as `fieldsV1` writes it.
    pub(super) fn element(&self, item: &Value) -> String {
        let Self::ListMap { keys, .. } = self else { return format!("v:{item}") };
        let key: BTreeMap<&str, &Value> = keys
            .iter()
            .filter_map(|key| Some((key.name.as_str(), item.get(&key.name).or(key.default.as_ref())?)))
            .collect();
        format!("k:{}", serde_json::json!(key))
    }
}
