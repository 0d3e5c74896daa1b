use super::*;

fn holds(name: &str) {
    let reproduction = reproduction(name).unwrap();
    let findings = reproduction.run(RunEffort::Quick).unwrap();
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

/// Regression: the bands of 173 of 255 figures held every result, but the page said that every
/// figure is checked.
#[test]
fn figures_that_cannot_fail_are_counted() {
    let mut findings = Findings::new();
    findings.add("percentage", 50.0, 40.0, FigureKind::Predicted, (0.0, 100.0));
    findings.add("bounded", 50.0, 70.0, FigureKind::Fitted, (45.0, 55.0));
    findings.add_modelled("any", 3.0, (0.0, f64::INFINITY));
    let mut counts = FigureCounts::default();
    counts.add(&findings);
    assert_eq!(counts, FigureCounts { all: 3, fitted: 1, predicted: 1, cannot_fail: 2, outside: 1 });
    assert!(counts.to_string().contains("2 cannot fail"));
}
