//! The manifests for Kubernetes: each object is what the API has, without a key that it does not know, and they fit together.
//!
//! The API's types are those of `k8s-openapi`, generated from its published schema. They pass unknown keys over, so what was read
//! is written again and compared. What agents and coordinator do is tested in
//! `crates/cli/tests/agents.rs`.

#![cfg(test)]

use std::fmt::Debug;
use std::fs;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{PodSpec, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

const MANIFEST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../kubernetes/load.yaml");

fn objects() -> Vec<Value> {
    let text = fs::read_to_string(MANIFEST).expect("the manifest is there");
    serde_saphyr::from_multiple(&text).expect("it is YAML")
}

/// The only object of this kind with this name.
fn object<T: DeserializeOwned + Serialize + Debug>(kind: &str, name: &str) -> T {
    let is_it = |object: &&Value| object["kind"] == kind && object["metadata"]["name"] == name;
    let objects = objects();
    let [object] = objects.iter().filter(is_it).collect::<Vec<_>>()[..] else { panic!("one {kind} {name}") };
    let typed: T =
        serde_json::from_value(object.clone()).unwrap_or_else(|error| panic!("{kind} {name}: {error}"));
    // Its type says what the API calls it; a key that it does not know is lost.
    assert_eq!(&serde_json::to_value(&typed).expect("numbers and texts"), object, "{kind} {name}");
    typed
}

fn pod(job: &Job) -> PodSpec {
    job.spec.clone().and_then(|spec| spec.template.spec).expect("a job has a pod")
}

/// What follows this word among the container's arguments.
fn argument(job: &Job, word: &str) -> String {
    let container = &pod(job).containers[0];
    let words = [container.command.clone(), container.args.clone()].map(Option::unwrap_or_default).concat();
    let place =
        words.iter().position(|other| other == word).unwrap_or_else(|| panic!("{word} among {words:?}"));
    words[place + 1].clone()
}

#[test]
fn every_object_is_what_the_api_has() {
    object::<Service>("Service", "vermeil-load");
    object::<Job>("Job", "vermeil-load-agent");
    object::<Job>("Job", "vermeil-load");
    object::<NetworkPolicy>("NetworkPolicy", "vermeil-load-agent");
    assert_eq!(objects().len(), 4, "an object is not looked at");
}

#[test]
fn the_coordinator_asks_for_the_agents_that_there_are() {
    let agents: Job = object("Job", "vermeil-load-agent");
    let coordinator: Job = object("Job", "vermeil-load");
    let service: Service = object("Service", "vermeil-load");
    let spec = agents.spec.clone().expect("a job has one");
    assert_eq!((spec.completion_mode.as_deref(), spec.parallelism), (Some("Indexed"), spec.completions));
    let (domain, port) = (pod(&agents).subdomain.expect("agents have names"), 8088);
    assert_eq!(argument(&agents, "--listen"), format!("0.0.0.0:{port}"));
    let name = |index| format!("{}-{index}.{domain}:{port}", agents.metadata.name.as_deref().unwrap());
    let expected: Vec<_> = (0..spec.completions.expect("a number")).map(name).collect();
    let variables = pod(&coordinator).containers[0].env.clone().unwrap_or_default();
    let asked =
        variables.iter().find(|variable| variable.name == "AGENTS").and_then(|found| found.value.clone());
    assert_eq!(asked, Some(expected.join(",")));
    assert_eq!(argument(&coordinator, "--agents"), "$(AGENTS)");
    let served = service.spec.expect("a service has one");
    assert_eq!(service.metadata.name, Some(domain));
    assert_eq!(served.cluster_ip.as_deref(), Some("None"), "names of agents need a headless service");
    assert_eq!(served.ports.expect("ports")[0].port, port);
    let labels = spec.template.metadata.and_then(|metadata| metadata.labels);
    assert_eq!(served.selector, labels);
    let policy: NetworkPolicy = object("NetworkPolicy", "vermeil-load-agent");
    let guarded = policy.spec.and_then(|spec| spec.pod_selector).and_then(|selector| selector.match_labels);
    assert_eq!(guarded, labels);
}
