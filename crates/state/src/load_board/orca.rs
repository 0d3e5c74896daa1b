//! The load report of an answer: the field `endpoint-load-metrics`, as text or JSON
//! (xds.data.orca.v3.OrcaLoadReport).

use super::{LoadMeasurement, LoadReport};
use std::io::Write as _;

/// The field with the line end. Empty without a report.
pub(super) fn line(report: LoadReport, load: LoadMeasurement) -> Vec<u8> {
    let mut line = Vec::new();
    let LoadMeasurement { cpu, pending, requests_per_s } = load;
    // Writing to memory does not fail.
    let _ = match report {
        LoadReport::Off => Ok(()),
        LoadReport::Text => write!(
            line,
            "endpoint-load-metrics: TEXT cpu_utilization={cpu:.3},application_utilization={pending:.3},\
             rps_fractional={requests_per_s:.0}\r\n"
        ),
        LoadReport::Json => write!(
            line,
            "endpoint-load-metrics: JSON {{\"cpu_utilization\":{cpu:.3},\"application_utilization\":{pending:.3},\
             \"rps_fractional\":{requests_per_s:.0}}}\r\n"
        ),
    };
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms() {
        let load = LoadMeasurement { cpu: 0.3125, pending: 1.5, requests_per_s: 1234.0 };
        assert_eq!(line(LoadReport::Off, load), b"");
        let text = String::from_utf8(line(LoadReport::Text, load)).unwrap();
        assert_eq!(
            text,
            "endpoint-load-metrics: TEXT cpu_utilization=0.312,application_utilization=1.500,rps_fractional=1234\r\n"
        );
        let json = String::from_utf8(line(LoadReport::Json, load)).unwrap();
        let value = json.trim_end().strip_prefix("endpoint-load-metrics: JSON ").unwrap();
        let value: serde_json::Value = serde_json::from_str(value).unwrap();
        assert_eq!(value["application_utilization"], 1.5);
    }
}
