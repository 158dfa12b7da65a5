//! Evaluates the admission policies as an API server does, as far as they go.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow, ensure};
use cel::{Context, Env, Program, Value as Cel, extensions};
use serde_json::{Value, json};

use super::super::{documents, in_checkout, strings};

/// User name of the controller.
pub(super) const CONTROLLER: &str = "system:serviceaccount:vipward-system:vipward-controller";
/// User name of the agents.
const AGENTS: &str = "system:serviceaccount:vipward-system:vipward";
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";

/// A write, as an admission policy sees it.
#[derive(Clone, Debug)]
pub(super) struct Write {
    pub user: &'static str,
    /// Node to which the token is bound.
    pub node: Option<String>,
    pub group: &'static str,
    pub resource: &'static str,
    /// Object before the write; none for a creation.
    pub before: Option<Value>,
    /// Object after the write; none for a deletion.
    pub after: Option<Value>,
}

impl Write {
    /// Returns a write of the agent on node `a`.
    pub(super) fn new(
        group: &'static str,
        resource: &'static str,
        before: Option<Value>,
        after: Option<Value>,
    ) -> Self {
        Self { user: AGENTS, node: Some("a".to_owned()), group, resource, before, after }
    }

    fn operation(&self) -> &'static str {
        match (&self.before, &self.after) {
            (None, _) => "CREATE",
            (Some(_), Some(_)) => "UPDATE",
            (Some(_), None) => "DELETE",
        }
    }

    /// Returns the variable `request`. A token of no Pod has no extra information at all.
    fn request(&self) -> Value {
        let mut user = json!({"username": self.user, "groups": ["system:serviceaccounts"]});
        if let Some(node) = &self.node {
            user["extra"] = json!({
                (NODE_NAME): [node], "authentication.kubernetes.io/pod-name": ["vipward-x"],
            });
        }
        json!({"operation": self.operation(), "userInfo": user})
    }
}

struct Policy {
    /// Group, resource and operations of each rule.
    rules: Vec<Value>,
    conditions: Vec<Program>,
    variables: Vec<(String, Program)>,
    validations: Vec<(Program, String)>,
}

/// All policies of the base and of the controller.
pub(super) struct Policies {
    env: Arc<Env>,
    policies: Vec<Policy>,
}

impl Policies {
    /// Compiles the policies that are bound.
    pub(super) fn load() -> Result<Self> {
        let mut env = Env::stdlib();
        // Kubernetes has this extension since 1.25.
        env.add_extension(extensions::strings).map_err(|error| anyhow!("{error:?}"))?;
        let files = ["policies.yaml", "controller-policies.yaml"]
            .map(|file| documents(&in_checkout("deploy/kubernetes/base").join(file)));
        let objects = files.into_iter().collect::<Result<Vec<_>>>()?.concat();
        let of_kind = |kind: &'static str| objects.iter().filter(move |object| object["kind"] == kind);
        let bound: Vec<_> = of_kind("ValidatingAdmissionPolicyBinding")
            .filter(|binding| binding["spec"]["validationActions"] == json!(["Deny"]))
            .map(|binding| &binding["spec"]["policyName"])
            .collect();
        let policies = of_kind("ValidatingAdmissionPolicy")
            .filter(|policy| bound.contains(&&policy["metadata"]["name"]))
            .map(|policy| Policy::compile(&env, &policy["spec"]))
            .collect::<Result<_>>()?;
        Ok(Self { env: Arc::new(env), policies })
    }

    /// Returns the messages with which a write is refused; none if it is admitted.
    pub(super) fn refusals(&self, write: &Write) -> Result<Vec<String>> {
        let mut refusals = Vec::new();
        for policy in self.policies.iter().filter(|policy| policy.is_about(write)) {
            refusals.extend(policy.refusals(&self.env, write)?);
        }
        Ok(refusals)
    }
}

impl Policy {
    fn compile(env: &Env, spec: &Value) -> Result<Self> {
        ensure!(spec["failurePolicy"] == "Fail", "a policy that cannot be evaluated lets all writes pass");
        let text = |value: &Value| value.as_str().map(str::to_owned).context("a text is missing");
        let program = |holder: &Value| {
            let expression = text(&holder["expression"])?;
            env.compile(&expression).map_err(|error| anyhow!("{expression}: {error}"))
        };
        let items = |key: &str| spec[key].as_array().cloned().unwrap_or_default();
        Ok(Self {
            rules: spec["matchConstraints"]["resourceRules"].as_array().cloned().unwrap_or_default(),
            conditions: items("matchConditions").iter().map(program).collect::<Result<_>>()?,
            variables: items("variables")
                .iter()
                .map(|variable| Ok((text(&variable["name"])?, program(variable)?)))
                .collect::<Result<_>>()?,
            validations: items("validations")
                .iter()
                .map(|validation| {
                    ensure!(validation["reason"] == "Forbidden", "{validation}");
                    Ok((program(validation)?, text(&validation["message"])?))
                })
                .collect::<Result<_>>()?,
        })
    }

    fn is_about(&self, write: &Write) -> bool {
        let has = |rule: &Value, key: &str, wanted: &str| {
            strings(&rule[key]).is_ok_and(|list| list.contains(&wanted))
        };
        self.rules.iter().any(|rule| {
            has(rule, "apiGroups", write.group)
                && has(rule, "resources", write.resource)
                && has(rule, "operations", write.operation())
        })
    }

    fn refusals(&self, env: &Arc<Env>, write: &Write) -> Result<Vec<String>> {
        let mut context = Context::with_env(Arc::clone(env));
        context.add_variable_from_value("request", value(&write.request()));
        context.add_variable_from_value("object", value(&json!(write.after)));
        context.add_variable_from_value("oldObject", value(&json!(write.before)));
        for condition in &self.conditions {
            if condition.execute(&context)? != Cel::Bool(true) {
                return Ok(Vec::new());
            }
        }
        let mut variables = HashMap::new();
        for (name, program) in &self.variables {
            context.add_variable_from_value("variables", Cel::from(variables.clone()));
            variables
                .insert(name.clone(), program.execute(&context).with_context(|| format!("variable {name}"))?);
        }
        context.add_variable_from_value("variables", Cel::from(variables));
        let mut refusals = Vec::new();
        for (program, message) in &self.validations {
            let verdict = program.execute(&context).with_context(|| format!("validation {message:?}"))?;
            if verdict != Cel::Bool(true) {
                refusals.push(message.clone());
            }
        }
        Ok(refusals)
    }
}

/// Returns a JSON value as Kubernetes' CEL has it: all whole numbers are of type `int`.
fn value(json: &Value) -> Cel {
    match json {
        Value::Null => Cel::Null,
        Value::Bool(truth) => Cel::Bool(*truth),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => Cel::Int(whole),
            None => Cel::Float(number.as_f64().unwrap_or_default()),
        },
        Value::String(text) => Cel::from(text.as_str()),
        Value::Array(items) => Cel::from(items.iter().map(value).collect::<Vec<_>>()),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, field)| (name.clone(), value(field)));
            Cel::from(fields.collect::<HashMap<_, _>>())
        }
    }
}
