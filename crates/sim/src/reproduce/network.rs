//! KNET (Lemoine, 2004): the card classifies packets into a queue for each processor. Compared with
//! one queue (NAPI), and with classification in the kernel behind one queue (CLAS).

use vermeil_sched::Policy;

use super::mely::gain;
use super::{FigureKind, Findings, MATCHES, Reproduction, RunEffort};
use crate::SimError;
use crate::machine::profile;
use crate::options::SimOptions;
use crate::results::Results;
use crate::workload::{CompiledProgram, HandlerSpec, NextSpec, WorkloadSpec, workload_text};
use crate::world::simulate;

/// Copying a file of 20 KB into the kernel, in cycles, which sendfile saves: about 1.6 cycles per
/// byte on this processor.
const COPY_CYCLES: u64 = 33_000;
/// Cost of classification in the kernel per request: interrupts (eight times as many), locks
/// between processors. Fitted.
const CLASSIFY_CYCLES: u64 = 33_000;
/// The part of `CLASSIFY_CYCLES` that runs on the processor of the one queue.
const CLASSIFY_SERIAL_CYCLES: u64 = 13_000;
/// Processes of Apache and WebStone's files: more work on both sides, and a smaller share of
/// receiving. Fitted.
const APACHE_CYCLES: u64 = 8_000;
const APACHE_CLASSIFY_CYCLES: u64 = 17_000;
/// Linux searches for work whenever a processor is idle.
const SPIN_NS: u64 = 10_000_000;

pub(super) const KNET: Reproduction = Reproduction {
    name: "knet",
    about: "packets classified by the card, for each processor, against one queue and against the kernel",
    source: "E. Lemoine, thesis, 2004; E. Lemoine, C. Pham, L. Lefevre, Packet classification in the NIC for improved SMP-based Internet servers, ICN 2004",
    fitted: &[
        "workload packets: the share of receiving in the work of a request (0.29), from +17 % of webfs",
        "what classification in the kernel costs, from +12 % of webfs; with Apache from +20 %",
        "cycles that Apache and WebStone's files take beyond webfs, from +27 %",
    ],
    run: knet,
};

/// The path of packets to processors.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stack {
    /// One queue, one processor.
    Napi,
    /// One queue; the processor that handles the queue classifies the packets.
    Clas,
    /// A queue for each processor.
    Knet,
}

/// The server program.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NetworkServer {
    Copying,
    Sendfile,
    Apache,
}

/// The document's system: any idle processor takes waiting work.
fn run(stack: Stack, server: NetworkServer) -> Result<Results, SimError> {
    run_as(
        stack,
        server,
        &SimOptions { spin_ns: SPIN_NS, waits_for_locks: true, ..SimOptions::new(Policy::Libasync) },
    )
}

fn run_as(stack: Stack, server: NetworkServer, options: &SimOptions) -> Result<Results, SimError> {
    let text = workload_text("packets")?;
    let mut spec: WorkloadSpec = toml::from_str(text)
        .map_err(|source| SimError::Toml { what: "workload", source: Box::new(source) })?;
    let serve = spec.handler.iter_mut().find(|handler| handler.name == "serve");
    let serve = &mut serve.expect("the workload has it").cycles;
    *serve += match server {
        NetworkServer::Copying => COPY_CYCLES,
        NetworkServer::Sendfile => 0,
        NetworkServer::Apache => APACHE_CYCLES,
    };
    match stack {
        Stack::Napi => one_queue(&mut spec),
        Stack::Clas => classified_in_the_kernel(&mut spec, server),
        Stack::Knet => {}
    }
    Ok(simulate(&profile("pentium3-4")?, &CompiledProgram::new(&spec)?, options))
}

fn one_queue(spec: &mut WorkloadSpec) {
    spec.source.iter_mut().for_each(|source| source.queues = Some(1));
}

/// One processor looks at every packet, and passes the packet to the packet's processor under
/// locks.
fn classified_in_the_kernel(spec: &mut WorkloadSpec, server: NetworkServer) {
    let all = if server == NetworkServer::Apache {
        CLASSIFY_CYCLES + APACHE_CLASSIFY_CYCLES
    } else {
        CLASSIFY_CYCLES
    };
    let receive = spec.handler[0].clone();
    for handler in spec.handler.iter_mut().filter(|handler| handler.color == "queue") {
        handler.cycles += (all - CLASSIFY_SERIAL_CYCLES) / 2;
    }
    spec.handler.push(HandlerSpec {
        name: "classify".to_owned(),
        cycles: CLASSIFY_SERIAL_CYCLES,
        color: "serial".to_owned(),
        next: vec![NextSpec { to: receive.name.clone(), weight: 1, after_us: 0 }],
        ..receive
    });
    spec.source.iter_mut().for_each(|source| source.entry = "classify".to_owned());
}

fn knet(_: RunEffort) -> Result<Findings, SimError> {
    let mut findings = Findings::new();
    let servers = [
        ("webfs", NetworkServer::Copying, 17.0, 12.0, FigureKind::Fitted, FigureKind::Fitted),
        (
            "webfs with sendfile",
            NetworkServer::Sendfile,
            30.0,
            17.0,
            FigureKind::Predicted,
            FigureKind::Predicted,
        ),
        ("Apache, WebStone", NetworkServer::Apache, 27.0, 20.0, FigureKind::Fitted, FigureKind::Fitted),
    ];
    for (name, server, over_napi, over_clas, napi_kind, clas_kind) in servers {
        let [napi, clas, knet] = [Stack::Napi, Stack::Clas, Stack::Knet].map(|stack| run(stack, server));
        let (napi, clas, knet) = (napi?, clas?, knet?);
        let band = |document: f64| (document - 8.0, document + 8.0);
        findings.add(
            format!("{name}: over NAPI, %"),
            over_napi,
            gain(&knet, &napi),
            napi_kind,
            band(over_napi),
        );
        findings.add(
            format!("{name}: over CLAS, %"),
            over_clas,
            gain(&knet, &clas),
            clas_kind,
            band(over_clas),
        );
        let adaptive = run_as(Stack::Knet, server, &SimOptions::new(Policy::Adaptive))?;
        findings.add_ours(format!("{name}: adaptive against KNET, %"), gain(&adaptive, &knet), MATCHES);
    }
    Ok(findings)
}
