//! Reads Rust files: what each module defines, and which paths it writes. Leaves test code out.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, ensure};
use proc_macro2::{Spacing, TokenStream, TokenTree};
use syn::{
    Attribute, ImplItemFn, Item, ItemMod, ItemStruct, ItemUse, Macro, Meta, UseTree, Visibility,
    visit::{self, Visit},
};

/// Text of each Rust file, by its path in the workspace.
pub(in crate::lint) type Sources = BTreeMap<String, String>;

/// Segments of a path: of a module in its crate, or as code writes them.
pub(super) type Path = Vec<String>;

/// Files of a library, a program or a test program, as modules.
pub(super) type Crate = BTreeMap<Path, Module>;

/// A file. A module in braces counts as an item of it.
#[derive(Default)]
pub(super) struct Module {
    pub(super) file: String,
    /// Lines of the file's own documentation.
    pub(super) doc: Vec<String>,
    /// Names of items. A macro's name ends in `!`.
    pub(super) defined: BTreeSet<String>,
    pub(super) uses: Vec<Use>,
    /// Paths outside of `use`. The path of a macro's call ends in `!`.
    pub(super) paths: BTreeSet<Path>,
    /// Name and number of fields of each struct that does not derive `Serialize`.
    pub(super) structs: Vec<(String, usize)>,
}

/// A name that a `use` binds.
pub(super) struct Use {
    pub(super) path: Path,
    /// Name in this module, or `*` for all names of the path.
    pub(super) name: String,
    pub(super) is_exported: bool,
}

/// Reads all crates: each begins at a file that can be no other file's module. Fails if no file that could
/// declare another one does.
pub(super) fn crates(sources: &Sources) -> Result<Vec<Crate>> {
    let mut crates = Vec::new();
    for file in sources.keys() {
        let (folder, stem) = split(file);
        let owners = ["/lib.rs", "/main.rs", ".rs"].map(|end| format!("{folder}{end}"));
        let owners: Vec<_> = owners.iter().filter_map(|owner| sources.get(owner)).collect();
        if !matches!(stem, "lib" | "main") && !owners.is_empty() {
            let mut lines = owners.into_iter().flat_map(|owner| owner.lines());
            let end = format!("mod {stem};");
            let is_declared = lines.any(|line| line.ends_with(&end) && !line.trim_start().starts_with("//"));
            ensure!(is_declared, "{file} belongs to no crate: remove it, or write `{end}` in its parent");
        } else {
            let mut tree = Crate::new();
            read(sources, file, Path::new(), &mut tree)?;
            crates.push(tree);
        }
    }
    Ok(crates)
}

/// Returns a file's folder, and its name without `.rs`.
fn split(file: &str) -> (&str, &str) {
    let (folder, name) = file.rsplit_once('/').unwrap_or((".", file));
    (folder, name.trim_end_matches(".rs"))
}

fn read(sources: &Sources, file: &str, path: Path, tree: &mut Crate) -> Result<()> {
    let text = &sources[file];
    // A comment would be parsed as an attribute, which takes long.
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let code = syn::parse_file(&lines.collect::<Vec<_>>().join("\n"));
    let code = code.with_context(|| format!("failed to parse {file}"))?;
    let doc = text.lines().filter_map(|line| line.strip_prefix("//!")).map(|line| line.trim().to_owned());
    let module = Module { file: file.to_owned(), doc: doc.collect(), ..Module::default() };
    let mut reader = Reader { module, children: Vec::new(), depth: 0 };
    reader.visit_file(&code);
    let (folder, stem) = split(file);
    for child in reader.children {
        // A module of a crate's first file is in a file beside it.
        let places = [format!("{folder}/{stem}/{child}.rs"), format!("{folder}/{child}.rs")];
        let found = places.iter().find(|place| sources.contains_key(*place));
        let found =
            found.with_context(|| format!("{file} has `mod {child}`, but there is no {}", places[0]))?;
        read(sources, found, [&path[..], &[child]].concat(), tree)?;
    }
    tree.insert(path, reader.module);
    Ok(())
}

/// Collects the names and paths of a file.
struct Reader {
    module: Module,
    /// Modules with files of their own.
    children: Vec<String>,
    /// Number of modules in braces around the code.
    depth: usize,
}

impl Visit<'_> for Reader {
    fn visit_item(&mut self, item: &Item) {
        let (name, attributes) = match item {
            Item::Const(item) => (item.ident.to_string(), &item.attrs),
            Item::Enum(item) => (item.ident.to_string(), &item.attrs),
            Item::Fn(item) => (item.sig.ident.to_string(), &item.attrs),
            Item::Impl(item) => (String::new(), &item.attrs),
            Item::Macro(item) => {
                (item.ident.as_ref().map(|name| format!("{name}!")).unwrap_or_default(), &item.attrs)
            }
            Item::Mod(item) if item.content.is_some() => (item.ident.to_string(), &item.attrs),
            Item::Mod(item) => (String::new(), &item.attrs),
            Item::Static(item) => (item.ident.to_string(), &item.attrs),
            Item::Struct(item) => (item.ident.to_string(), &item.attrs),
            Item::Trait(item) => (item.ident.to_string(), &item.attrs),
            Item::Type(item) => (item.ident.to_string(), &item.attrs),
            Item::Union(item) => (item.ident.to_string(), &item.attrs),
            Item::Use(item) => (String::new(), &item.attrs),
            _ => (String::new(), &Vec::new()),
        };
        if !is_test(attributes) {
            self.module.defined.insert(name);
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &ImplItemFn) {
        if !is_test(&item.attrs) {
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_item_mod(&mut self, item: &ItemMod) {
        if item.content.is_none() {
            self.children.push(item.ident.to_string());
        }
        self.depth += 1;
        visit::visit_item_mod(self, item);
        self.depth -= 1;
    }

    fn visit_item_use(&mut self, item: &ItemUse) {
        self.bind(&item.tree, &[], !matches!(item.vis, Visibility::Inherited));
    }

    fn visit_item_struct(&mut self, item: &ItemStruct) {
        let mut attributes = item.attrs.iter().map(|attribute| &attribute.meta);
        let derives =
            |meta: &Meta| matches!(meta, Meta::List(list) if list.tokens.to_string().contains("Serialize"));
        if !attributes.any(derives) {
            self.module.structs.push((item.ident.to_string(), item.fields.len()));
        }
        visit::visit_item_struct(self, item);
    }

    fn visit_path(&mut self, path: &syn::Path) {
        self.visit_text(&text(path));
        visit::visit_path(self, path);
    }

    fn visit_attribute(&mut self, attribute: &Attribute) {
        if let Meta::List(list) = &attribute.meta {
            self.visit_text(&printed(list.tokens.clone()));
        }
    }

    fn visit_macro(&mut self, call: &Macro) {
        self.visit_text(&format!("{}! {}", text(&call.path), printed(call.tokens.clone())));
    }
}

impl Reader {
    /// Collects the paths in printed tokens. A name after a dot is a method's or a field's.
    fn visit_text(&mut self, tokens: &str) {
        let tokens = tokens.replace(" :: ", "::").replace(" ! ", "! ").replace(" . ", ".");
        for word in tokens.split(is_no_path).filter_map(|word| word.split('.').next()) {
            let path = word.split("::").filter(|segment| !segment.is_empty()).map(str::to_owned);
            let path = self.unnested(path.collect());
            self.module.paths.insert(path);
        }
    }

    /// Adds the names that a tree of a `use` binds.
    fn bind(&mut self, tree: &UseTree, prefix: &[String], is_exported: bool) {
        let (segment, name) = match tree {
            UseTree::Path(tree) => {
                return self.bind(&tree.tree, &[prefix, &[tree.ident.to_string()]].concat(), is_exported);
            }
            UseTree::Group(group) => {
                return group.items.iter().for_each(|tree| self.bind(tree, prefix, is_exported));
            }
            UseTree::Name(tree) => (tree.ident.to_string(), tree.ident.to_string()),
            UseTree::Rename(tree) => (tree.ident.to_string(), tree.rename.to_string()),
            UseTree::Glob(_) => ("self".to_owned(), "*".to_owned()),
        };
        let (path, name) = match (segment.as_str(), prefix.last()) {
            ("self", Some(module)) if name == "self" => (prefix.to_vec(), module.clone()),
            ("self", Some(_)) => (prefix.to_vec(), name),
            _ => ([prefix, &[segment]].concat(), name),
        };
        self.module.uses.push(Use { path: self.unnested(path), name, is_exported });
    }

    /// Returns a path as the file's own module would write it.
    fn unnested(&self, path: Path) -> Path {
        let supers = path.iter().take(self.depth).take_while(|segment| *segment == "super").count();
        path.into_iter().skip(supers).collect()
    }
}

/// Returns whether something is for tests only.
fn is_test(attributes: &[Attribute]) -> bool {
    let mut conditions = attributes.iter().filter_map(|attribute| attribute.meta.require_list().ok());
    conditions.any(|list| list.path.is_ident("cfg") && list.tokens.to_string() == "test")
}

/// Returns the text of tokens. A literal has a path if it has colons; the rest of it is left out.
fn printed(tokens: TokenStream) -> String {
    let token = |token| match token {
        TokenTree::Group(group) => format!("( {}) ", printed(group.stream())),
        TokenTree::Literal(literal) => {
            let literal = literal.to_string();
            let words = literal.split(is_no_path).filter(|word| word.contains("::"));
            words.collect::<Vec<_>>().join(" ") + " "
        }
        TokenTree::Punct(punct) if punct.spacing() == Spacing::Joint => punct.to_string(),
        TokenTree::Punct(_) | TokenTree::Ident(_) => format!("{token} "),
    };
    tokens.into_iter().map(token).collect()
}

fn is_no_path(c: char) -> bool {
    !c.is_alphanumeric() && !"_:!.".contains(c)
}

/// Returns a path's text without generic arguments.
fn text(path: &syn::Path) -> String {
    path.segments.iter().map(|segment| segment.ident.to_string()).collect::<Vec<_>>().join("::")
}
