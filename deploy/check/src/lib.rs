//! The manifests for Kubernetes: each object matches the API, has no unknown key, and the objects
//! fit together.
//!
//! The API's types come from `k8s-openapi`, which is generated from the published schema. These
//! types ignore unknown keys, so the test serialises each parsed object again and compares.
//! `crates/e2e/tests/agents.rs` tests agents and coordinator, and
//! `crates/e2e/tests/e2e/balancers.rs` tests the configuration of the site's servers.

#![cfg(test)]

use std::fmt::Debug;
use std::fs;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, PodSpec, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

const MANIFESTS: [&str; 2] = [
    concat!(env!("CARGO_MANIFEST_DIR"), "/../kubernetes/load.yaml"),
    concat!(env!("CARGO_MANIFEST_DIR"), "/../kubernetes/web.yaml"),
];

fn objects() -> Vec<Value> {
    let of = |manifest| {
        let text = fs::read_to_string(manifest).expect("the manifest is there");
        serde_saphyr::from_multiple::<Value>(&text).expect("it is YAML")
    };
    MANIFESTS.into_iter().flat_map(of).collect()
}

/// The only object of this kind with this name.
fn object<T: DeserializeOwned + Serialize + Debug>(kind: &str, name: &str) -> T {
    let is_it = |object: &&Value| object["kind"] == kind && object["metadata"]["name"] == name;
    let objects = objects();
    let [object] = objects.iter().filter(is_it).collect::<Vec<_>>()[..] else { panic!("one {kind} {name}") };
    let typed: T =
        serde_json::from_value(object.clone()).unwrap_or_else(|error| panic!("{kind} {name}: {error}"));
    // The type serialises the API's keys, so an unknown key is lost.
    assert_eq!(&serde_json::to_value(&typed).expect("numbers and texts"), object, "{kind} {name}");
    typed
}

fn pod(job: &Job) -> PodSpec {
    job.spec.clone().and_then(|spec| spec.template.spec).expect("a job has a pod")
}

/// The argument that follows `word` among the container's arguments.
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
    object::<ConfigMap>("ConfigMap", "vermeil-web");
    object::<Deployment>("Deployment", "vermeil-web");
    object::<Service>("Service", "vermeil-web");
    assert_eq!(objects().len(), 7, "an object is not looked at");
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

#[test]
fn the_servers_of_a_site_are_found_and_left_in_time() {
    let configuration: ConfigMap = object("ConfigMap", "vermeil-web");
    let servers: Deployment = object("Deployment", "vermeil-web");
    let service: Service = object("Service", "vermeil-web");
    let (file, text) = configuration.data.expect("a file").pop_first().expect("one");
    let said = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "));
        line.unwrap_or_else(|| panic!("{key} in {text}")).trim_matches('"').to_owned()
    };
    let spec = servers.spec;
    let labels = spec.template.metadata.and_then(|metadata| metadata.labels);
    assert_eq!(spec.selector.match_labels, labels);
    let pod = spec.template.spec.expect("a pod");
    let seconds = |key| said(key).parse::<i64>().expect("seconds");
    assert!(pod.termination_grace_period_seconds > Some(seconds("leave") + seconds("drain")));
    let container = &pod.containers[0];
    let volume = &pod.volumes.as_ref().expect("volumes")[0];
    let mount = &container.volume_mounts.as_ref().expect("mounts")[0];
    assert_eq!(
        (&mount.name, volume.config_map.as_ref().expect("it is one").name.as_str()),
        (&volume.name, "vermeil-web")
    );
    assert_eq!(container.args.as_ref().expect("arguments")[2], format!("{}/{file}", mount.mount_path));
    let port = &container.ports.as_ref().expect("ports")[0];
    assert_eq!(said("address"), format!(":{}", port.container_port));
    let probe = container.readiness_probe.as_ref().and_then(|probe| probe.http_get.as_ref()).expect("a page");
    assert_eq!(
        (probe.path.as_deref(), &probe.port),
        (Some(said("prefix").as_str()), &IntOrString::String(port.name.clone().expect("a name")))
    );
    let served = service.spec.expect("a service has one");
    assert_eq!(served.selector, labels);
    assert_eq!(served.ports.expect("ports")[0].target_port.as_ref(), Some(&probe.port));
}
