//! What Python calls in-process: schemas of all that goes in and out of an engine, and the check of a platform.
#![allow(missing_docs)] // PyO3 generates the module's items

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use schemars::generate::SchemaSettings;
use std::fs::File;
use std::os::fd::OwnedFd;
use wiretime_experiment::report::Report;
use wiretime_experiment::{RunSettings, Trial};
use wiretime_hw::params::Platform;
use wiretime_packet::CostModel;

/// JSON Schemas: of a platform (every parameter with unit, range and meaning), of what a run and a trial are told, and of
/// what a run leaves.
///
/// Raises `ValueError` for any other name.
#[pyfunction]
fn schema(name: &str) -> PyResult<String> {
    let schema = match name {
        "platform" => schemars::schema_for!(Platform),
        "settings" => schemars::schema_for!(RunSettings),
        "trial" => schemars::schema_for!(Trial),
        "model" => schemars::schema_for!(CostModel),
        // As it is written: what may be null is there.
        "result" => SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<Report>(),
        _ => {
            return Err(PyValueError::new_err(format!("no schema {name:?}: platform, settings, trial, model, result")))
        }
    };
    Ok(serde_json::to_string(&schema).unwrap_or_default())
}

/// Reads a platform given as JSON, checks it, and returns it resolved.
///
/// Raises `ValueError` with key, value and rule.
#[pyfunction]
fn resolve_platform(text: &str) -> PyResult<String> {
    let platform: Platform = serde_json::from_str(text).map_err(|e| PyValueError::new_err(e.to_string()))?;
    platform.check().map_err(|e| PyValueError::new_err(e.to_string()))?;
    serde_json::to_string(&platform).map_err(|e| PyValueError::new_err(e.to_string()))
}

/// Median latency in nanoseconds, and throughput in Gb/s, of DMA accesses (`read`, `write` or `both`) of so many bytes;
/// latency in a window of so many bytes, which the caches hold or do not.
#[pyfunction]
fn probe_dma(platform: &str, access: &str, bytes: u64, window: u64, warm: bool) -> PyResult<(f64, f64)> {
    use wiretime_hw::io::probe::{self, Access, Window};
    let platform: Platform = serde_json::from_str(platform).map_err(|e| PyValueError::new_err(e.to_string()))?;
    let access = match access {
        "read" => Access::Read,
        "write" => Access::Write,
        "both" => Access::Both,
        _ => return Err(PyValueError::new_err(format!("unknown access {access:?}: read, write or both"))),
    };
    let ns = probe::latency(&platform, access, bytes, Window { bytes: window, warm }).as_f64() / 1000.0;
    Ok((ns, probe::throughput(&platform, access, bytes) / 1e9))
}

/// Memory of a platform (as JSON) under the load of so many cores: GB/s that DRAM moves, the share of them that it reads, and the
/// latency in ns that another core sees.
///
/// Raises `ValueError` with what is wrong with it.
#[pyfunction]
fn probe_memory(py: Python<'_>, platform: &str, streams: usize, stores: u32, pause: u64) -> PyResult<(f64, f64, f64)> {
    use wiretime_hw::memory::probe::{loaded, MEASURED};
    let platform: Platform = serde_json::from_str(platform).map_err(|e| PyValueError::new_err(e.to_string()))?;
    let r = py.detach(|| loaded(&platform, streams, stores, wiretime_base::Cycles(pause), MEASURED));
    Ok((r.bytes_per_second / 1e9, r.reads, r.latency.as_f64() / 1000.0))
}

/// Runs a configuration (platform, run, model of the software, as JSON) on the packet-level engine. Messages go to the file
/// `output`, trials come from `input`, a capture goes to `capture`; a descriptor's name under `/proc/self/fd` is a file, too.
///
/// Raises `ValueError` with what cannot be, `OSError` where a file cannot be opened.
#[pyfunction]
#[pyo3(signature = (config, output, input=None, capture=None))]
fn run_packets(py: Python<'_>, config: &str, output: &str, input: Option<&str>, capture: Option<&str>) -> PyResult<()> {
    let written = |path| File::options().write(true).open(path).map(OwnedFd::from);
    let output = written(output)?;
    let input = input.map(File::open).transpose()?.map(OwnedFd::from);
    let capture = capture.map(written).transpose()?;
    py.detach(|| wiretime_packet::run(config, output, input, capture)).map_err(|e| PyValueError::new_err(e.to_string()))
}

/// Reads a model of a program given as JSON, checks it, and returns it.
///
/// Raises `ValueError` with key, value and rule.
#[pyfunction]
fn resolve_model(text: &str) -> PyResult<String> {
    let model: CostModel = serde_json::from_str(text).map_err(|e| PyValueError::new_err(e.to_string()))?;
    model.check().map_err(|e| PyValueError::new_err(e.to_string()))?;
    serde_json::to_string(&model).map_err(|e| PyValueError::new_err(e.to_string()))
}

/// What is in a capture file, as JSON: packets, bytes, lengths, span, and the first problem with packet and offset.
///
/// Raises `OSError` where the file cannot be opened.
#[pyfunction]
fn capture_summary(py: Python<'_>, path: &str) -> PyResult<String> {
    let file = File::open(path)?;
    let s = py.detach(|| wiretime_capture::summary(file));
    let found = serde_json::json!({
        "packets": s.packets, "bytes": s.bytes, "shortest": s.shortest, "longest": s.longest, "span_ps": s.span,
        "out_of_order": s.out_of_order, "cut": s.cut, "skipped": s.skipped,
        "problem": s.problem.map(|p| p.to_string()),
    });
    Ok(found.to_string())
}

/// Bits a second of a rate such as `40Gbps`.
#[pyfunction]
fn parse_rate(text: &str) -> PyResult<u64> {
    let rate: wiretime_base::BitRate = text.parse().map_err(quantity_error)?;
    Ok(rate.bits_per_second())
}

/// Picoseconds of a duration such as `2ms`.
#[pyfunction]
fn parse_duration(text: &str) -> PyResult<u64> {
    let duration: wiretime_base::Duration = text.parse().map_err(quantity_error)?;
    Ok(duration.ps().0)
}

/// Bytes of a size such as `1GiB`.
#[pyfunction]
fn parse_size(text: &str) -> PyResult<u64> {
    let size: wiretime_base::Bytes = text.parse().map_err(quantity_error)?;
    Ok(size.bytes())
}

/// Hertz of a frequency such as `25MHz`.
#[pyfunction]
fn parse_frequency(text: &str) -> PyResult<u64> {
    let frequency: wiretime_base::Frequency = text.parse().map_err(quantity_error)?;
    Ok(frequency.hz())
}

fn quantity_error(e: wiretime_base::QuantityError) -> PyErr {
    PyValueError::new_err(e.to_string())
}

#[pymodule]
fn _native(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(schema, m)?)?;
    m.add_function(wrap_pyfunction!(resolve_platform, m)?)?;
    m.add_function(wrap_pyfunction!(capture_summary, m)?)?;
    m.add_function(wrap_pyfunction!(probe_dma, m)?)?;
    m.add_function(wrap_pyfunction!(probe_memory, m)?)?;
    m.add_function(wrap_pyfunction!(run_packets, m)?)?;
    m.add_function(wrap_pyfunction!(resolve_model, m)?)?;
    m.add_function(wrap_pyfunction!(parse_rate, m)?)?;
    m.add_function(wrap_pyfunction!(parse_duration, m)?)?;
    m.add_function(wrap_pyfunction!(parse_size, m)?)?;
    m.add_function(wrap_pyfunction!(parse_frequency, m)?)?;
    Ok(())
}
