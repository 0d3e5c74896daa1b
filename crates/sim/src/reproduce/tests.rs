use super::*;

fn holds(name: &str) {
    let reproduction = reproduction(name).unwrap();
    let findings = reproduction.run(Effort::Quick).unwrap();
    let report = reproduction.report(&findings);
    assert!(findings.figures.iter().all(Figure::holds), "{report}");
}

#[test]
fn mely_on_the_file_server() {
    holds("mely-sfs");
}

#[test]
fn mely_on_the_web_server() {
    holds("mely-web");
}

#[test]
fn placement_of_square_roots() {
    holds("placement-roots");
}

#[test]
fn placement_of_image_filters() {
    holds("placement-images");
}

#[test]
fn apache_on_four_nodes() {
    holds("numa-clients");
}

#[test]
fn slow_and_fast_nodes() {
    holds("numa-nodes");
}

#[test]
fn ways_to_accept() {
    holds("numa-modes");
}

#[test]
fn packets_classified_by_the_card() {
    holds("knet");
}

#[test]
fn an_unknown_name_is_answered_with_the_known_ones() {
    assert!(reproduction("x").err().unwrap().to_string().contains("mely-sfs, mely-web"));
}
