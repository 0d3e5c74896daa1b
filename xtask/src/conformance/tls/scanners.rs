//! testssl.sh and sslyze: no finding of medium severity or worse.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use vermeil_bench::peers::find_program;

use super::server::{ConformanceSite, NAME};
use super::{CommandOutput, Verdicts};
use crate::error::{Error, Result};
use crate::steps::run_command;

/// The severities of testssl.sh that pass.
const HARMLESS: [&str; 5] = ["OK", "INFO", "LOW", "DEBUG", "WARN"];

/// Warnings of testssl.sh that concern the scanner, with the reason. Any other warning fails.
const EXCUSED_WARNINGS: [(&str, &str); 2] = [
    ("engine_problem", "openssl on this machine has no engine for ciphers of GOST"),
    (
        "sessionresumption_ticket",
        "the scanner may end its connection before a ticket of TLS 1.3 arrives; Go and Python check resumption",
    ),
];

/// The version of sslyze.
const SSLYZE: &str = "sslyze==6.3.1";

/// Runs both.
pub(super) fn run(site: &ConformanceSite, verdicts: &mut Verdicts) -> Result<()> {
    let server = site.start()?;
    let reports = site.target.join("conformance");
    fs::create_dir_all(&reports).map_err(Error::path("create", &reports))?;
    let result = testssl(site, &reports.join("testssl.json"))?;
    verdicts.add("testssl.sh", result);
    sslyze(site, &reports, verdicts)?;
    server.stop()
}

/// A remark, or the problem.
type Judgement = std::result::Result<String, String>;

fn testssl(site: &ConformanceSite, report: &Path) -> Result<Judgement> {
    let Some(program) = ["testssl", "testssl.sh"].into_iter().find_map(find_program) else {
        return Ok(Err("testssl.sh is not installed".into()));
    };
    // testssl.sh refuses to replace a report.
    let _ = fs::remove_file(report);
    let mut command = Command::new(program);
    command.args(["--quiet", "--color", "0", "--warnings", "batch", "--nodns", "none", "--add-ca"]);
    command.arg(site.authority.certificate()).args(["--ip", &site.address.ip().to_string()]);
    command.arg("--jsonfile").arg(report).arg(url(site));
    let output = CommandOutput::of(&mut command)?;
    let Ok(text) = fs::read_to_string(report) else { return Ok(Err(output.tail())) };
    let findings: Vec<Value> =
        serde_json::from_str(&text).map_err(|error| Error::form(report.display(), error))?;
    let text = |finding: &Value, key: &str| finding[key].as_str().unwrap_or_default().to_owned();
    // Without the last finding, the scan ended early.
    if findings.last().is_none_or(|last| text(last, "id") != "scanTime") {
        return Ok(Err(format!("the scan did not end: {}", output.tail())));
    }
    let is_bad = |finding: &&Value| {
        let (severity, id) = (text(finding, "severity"), text(finding, "id"));
        let is_excused = EXCUSED_WARNINGS.iter().any(|(excused, _)| *excused == id);
        !HARMLESS.contains(&&*severity) || (severity == "WARN" && !is_excused)
    };
    let bad: Vec<String> = findings
        .iter()
        .filter(is_bad)
        .map(|finding| ["severity", "id", "finding"].map(|key| text(finding, key)).join(" "))
        .collect();
    for (id, why) in EXCUSED_WARNINGS {
        if findings.iter().any(|finding| text(finding, "id") == id && text(finding, "severity") == "WARN") {
            println!("excused {id}: {why}");
        }
    }
    Ok(if bad.is_empty() {
        Ok(format!("{} findings, none of medium or worse", findings.len()))
    } else {
        Err(bad.join(", "))
    })
}

fn url(site: &ConformanceSite) -> String {
    format!("https://{NAME}:{}/", site.address.port())
}

/// The program, in a virtual environment that stays between runs.
fn install_sslyze(target: &Path) -> Result<PathBuf> {
    let folder = target.join("conformance/python");
    let program = folder.join("bin/sslyze");
    if !program.exists() {
        run_command(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
        run_command(Command::new(folder.join("bin/pip")).args(["install", "--quiet", SSLYZE]))?;
    }
    Ok(program)
}

fn sslyze(site: &ConformanceSite, reports: &Path, verdicts: &mut Verdicts) -> Result<()> {
    let program = match install_sslyze(&site.target) {
        Ok(program) => program,
        Err(why) => {
            verdicts.add("sslyze", Err(why.to_string()));
            return Ok(());
        }
    };
    let report = reports.join("sslyze.json");
    let mut command = Command::new(program);
    command.arg("--json_out").arg(&report).arg("--certinfo_ca_file").arg(site.authority.certificate());
    command.args(["--sni", NAME, "--mozilla_config", "intermediate", "--fallback", "--early_data"]);
    command.args(["--sslv2", "--sslv3", "--tlsv1", "--tlsv1_1", "--tlsv1_2", "--tlsv1_3", "--certinfo"]);
    command.args(["--reneg", "--http_headers", "--openssl_ccs", "--robot", "--ems", "--heartbleed"]);
    command.args(["--elliptic_curves", "--compression", "--resum"]);
    command.arg(format!("{NAME}:{}{{{}}}", site.address.port(), site.address.ip()));
    let output = CommandOutput::of(&mut command)?;
    let text = fs::read_to_string(&report).map_err(Error::path("read", &report))?;
    let report: Value = serde_json::from_str(&without_long_numbers(&text))
        .map_err(|error| Error::form(report.display(), error))?;
    let scan = &report["server_scan_results"][0];
    verdicts.add("sslyze, Mozilla's intermediate configuration", compliance(&output));
    let results = scan["scan_result"].as_object().map(judged);
    let wrong = results.unwrap_or_else(|| vec!["there is no result".into()]);
    let result = if wrong.is_empty() { Ok("no finding".to_owned()) } else { Err(wrong.join(", ")) };
    verdicts.add("sslyze, every scan", result);
    Ok(())
}

/// The text with 0 in place of numbers that no integer holds, for example serial numbers of
/// certificates.
fn without_long_numbers(json: &str) -> String {
    const DIGITS_MAX: usize = 18;
    let (mut kept, mut rest, mut is_inside) = (String::with_capacity(json.len()), json, false);
    while let Some(c) = rest.chars().next() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (taken, written) = match c {
            '\\' if is_inside => (2, &rest[..2]),
            _ if digits > DIGITS_MAX && !is_inside => (digits, "0"),
            _ => (c.len_utf8(), &rest[..c.len_utf8()]),
        };
        is_inside ^= c == '"';
        kept += written;
        rest = &rest[taken..];
    }
    kept
}

/// The part of the output about Mozilla's recommendation.
fn compliance(output: &CommandOutput) -> Judgement {
    let begin = output.text.find("COMPLIANCE AGAINST").unwrap_or(0);
    let lines = output.text[begin..].lines().map(str::trim).filter(|line| line.starts_with(NAME));
    let verdict: Vec<&str> = lines.collect();
    match verdict[..] {
        [line] if line.contains(": OK - Compliant") => Ok("compliant".into()),
        _ => Err(output.tail()),
    }
}

/// The findings in the results of sslyze, which has no severities.
fn judged(results: &serde_json::Map<String, Value>) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut unless = |holds: bool, problem: String| {
        if !holds {
            wrong.push(problem);
        }
    };
    for (name, scan) in results.iter().filter(|(_, scan)| scan["status"] != "NOT_SCHEDULED") {
        unless(scan["status"] == "COMPLETED", format!("{name}: {}", scan["error_reason"]));
    }
    let old = ["ssl_2_0", "ssl_3_0", "tls_1_0", "tls_1_1"].map(|version| format!("{version}_cipher_suites"));
    for name in old {
        let accepted = &results[&name]["result"]["accepted_cipher_suites"];
        unless(accepted.as_array().is_some_and(Vec::is_empty), format!("{name}: {accepted}"));
    }
    for (scan, key, expected) in [
        ("tls_compression", "supports_compression", false),
        ("tls_1_3_early_data", "supports_early_data", false),
        ("openssl_ccs_injection", "is_vulnerable_to_ccs_injection", false),
        ("heartbleed", "is_vulnerable_to_heartbleed", false),
        ("tls_fallback_scsv", "supports_fallback_scsv", true),
        ("session_renegotiation", "supports_secure_renegotiation", true),
        ("session_renegotiation", "is_vulnerable_to_client_renegotiation_dos", false),
        ("tls_extended_master_secret", "supports_ems_extension", true),
    ] {
        let is = &results[scan]["result"][key];
        unless(is.as_bool() == Some(expected), format!("{scan}: {key} is {is}"));
    }
    let robot = &results["robot"]["result"]["robot_result"];
    unless(robot.as_str().is_some_and(|is| is.starts_with("NOT_VULNERABLE")), format!("robot: {robot}"));
    let headers = &results["http_headers"]["result"]["strict_transport_security_header"];
    unless(headers["max_age"].as_u64() >= Some(31_536_000), format!("http_headers: {headers}"));
    let deployments = &results["certificate_info"]["result"]["certificate_deployments"];
    let deployments = deployments.as_array().map_or(&[][..], Vec::as_slice);
    unless(deployments.len() == 2, format!("{} kinds of certificates", deployments.len()));
    for deployment in deployments {
        unless(
            is_trusted(deployment),
            format!("a chain is not trusted: {}", deployment["path_validation_results"]),
        );
    }
    wrong
}

/// Whether the test authority vouches for a chain. The stores of browsers do not know the
/// authority.
fn is_trusted(deployment: &Value) -> bool {
    let validations = deployment["path_validation_results"].as_array();
    validations.is_some_and(|validations| {
        validations.iter().any(|validation| {
            validation["trust_store"]["path"].as_str().is_some_and(|path| path.ends_with("ca.crt"))
                && validation["was_validation_successful"] == true
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_long_numbers_outside_of_texts_are_replaced() {
        let json = r#"{"a": 12, "b\"12345678901234567890": 12345678901234567890, "c": [9]}"#;
        let expected = r#"{"a": 12, "b\"12345678901234567890": 0, "c": [9]}"#;
        assert_eq!(without_long_numbers(json), expected);
    }
}
