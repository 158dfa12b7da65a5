//! Writes many objects, several at a time.

use std::future::Future;

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::core::DynamicObject;
use serde_json::{Value, json};

use super::{Admin, kind::Object, pass_over_missing};

impl Admin {
    /// Creates the objects of manifests, `at_once` at a time. Fails if one of them exists.
    pub fn create_all(&self, manager: &str, manifests: &[Value], at_once: usize) -> Result<()> {
        let params = &PostParams { field_manager: Some(manager.to_owned()), ..PostParams::default() };
        self.at_once(at_once, manifests, async |manifest| {
            let object = Object::of(manifest)?;
            let new: DynamicObject = serde_json::from_value(manifest.clone())?;
            self.api(&object)?
                .create(params, &new)
                .await
                .with_context(|| format!("failed to create {object}"))?;
            Ok(())
        })
    }

    /// Applies merge patches to the status of objects, `at_once` at a time.
    pub fn merge_statuses(&self, manager: &str, patches: &[(Object, Value)], at_once: usize) -> Result<()> {
        let params = &PatchParams { field_manager: Some(manager.to_owned()), ..PatchParams::default() };
        self.at_once(at_once, patches, async |(object, patch)| {
            let patched = self.api(object)?.patch_status(&object.name, params, &Patch::Merge(patch)).await;
            patched.with_context(|| format!("failed to patch the status of {object}"))?;
            Ok(())
        })
    }

    /// Deletes objects without their finalizers, `at_once` at a time. Passes over those that are
    /// gone.
    pub fn delete_all_for_good(&self, objects: &[Object], at_once: usize) -> Result<()> {
        let (bare, delete) = (&json!({"metadata": {"finalizers": null}}), &DeleteParams::default());
        self.at_once(at_once, objects, async |object| {
            let api = self.api(object)?;
            let patched = api.patch(&object.name, &PatchParams::default(), &Patch::Merge(bare)).await;
            pass_over_missing(patched).with_context(|| format!("failed to patch {object}"))?;
            let deleted = api.delete(&object.name, delete).await;
            pass_over_missing(deleted).with_context(|| format!("failed to delete {object}"))
        })
    }

    fn at_once<'a, T, F>(&self, number: usize, all: &'a [T], request: impl Fn(&'a T) -> F) -> Result<()>
    where
        F: Future<Output = Result<()>>,
    {
        let requests = futures::stream::iter(all).map(request);
        self.runtime.block_on(requests.buffer_unordered(number).try_collect())
    }
}
