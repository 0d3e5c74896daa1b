use proptest::prelude::*;

use super::*;
use crate::CpuDistance;

/// Two nodes, the second numbered 2, with threads, an I/O device and an asymmetric matrix, in the
/// form of hwloc 2.
const V2: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
  <object type="Machine" os_index="0" cpuset="0x0000000f,,0x0000000f" complete_cpuset="0x0000001f,,0x0000000f">
    <info name="Backend" value="Linux"/>
    <object type="Package" os_index="1" cpuset="0x0000000f">
      <object type="NUMANode" os_index="0" cpuset="0x0000000f" local_memory="8589934592">
        <page_type size="4096" count="2097152"/>
      </object>
      <object type="L3Cache" cpuset="0x0000000f" cache_size="5242880" depth="3" cache_linesize="64" cache_type="0">
        <object type="L1Cache" cpuset="0x00000003" cache_size="32768" depth="1" cache_linesize="64" cache_type="1">
          <object type="Core" os_index="0" cpuset="0x00000003">
            <object type="PU" os_index="0" cpuset="0x00000001"/>
            <object type="PU" os_index="1" cpuset="0x00000002"/>
          </object>
        </object>
        <object type="L1iCache" cpuset="0x0000000c" cache_size="0" depth="1" cache_type="2">
          <object type="Core" os_index="1" cpuset="0x0000000c">
            <object type="PU" os_index="2" cpuset="0x00000004"/>
            <object type="PU" os_index="3" cpuset="0x00000008"/>
          </object>
        </object>
      </object>
    </object>
    <object type="Group" cpuset="0x0000000f,,0x0">
      <object type="NUMANode" os_index="2" cpuset="0x0000000f,,0x0" local_memory="4294967296"/>
      <object type="PU" os_index="64"/><object type="PU" os_index="65"/>
      <object type="PU" os_index="66"/><object type="PU" os_index="67"/>
    </object>
    <object type="Bridge" depth="0"><object type="PCIDev" pci_busid="0000:00:02.0"/></object>
  </object>
  <distances2 type="NUMANode" nbobjs="2" kind="9" indexing="os">
    <indexes length="4">0 2 </indexes><u64values length="20">9 9 9 9 </u64values>
  </distances2>
  <distances2 type="NUMANode" nbobjs="2" kind="5" name="NUMALatency" indexing="os">
    <indexes length="4">0 2 </indexes>
    <u64values length="6">10 21 </u64values>
    <u64values length="6">31 10 </u64values>
  </distances2>
  <cpukind cpuset="0x0000000c"><info name="CoreType" value="IntelAtom"/></cpukind>
</topology>
"#;

/// Two nodes, in the form of hwloc 1: everything inside the node, a matrix for nodes and another
/// matrix.
const V1: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc.dtd">
<topology>
  <object type="Machine" os_index="0" cpuset="0x00000003" complete_cpuset="0x00000003" online_cpuset="0x00000003">
    <distances nbobjs="2" relative_depth="3" latency_base="1.0">
      <latency value="1.0"/><latency value="9.0"/><latency value="9.0"/><latency value="1.0"/>
    </distances>
    <distances nbobjs="2" relative_depth="1" latency_base="10.000000">
      <latency value="1.000000"/><latency value="1.600000"/><latency value="2.200000"/><latency value="1.000000"/>
    </distances>
    <object type="NUMANode" os_index="1" cpuset="0x00000001" local_memory="1073741824">
      <object type="Socket" os_index="0" cpuset="0x00000001">
        <object type="Cache" cpuset="0x00000001" cache_size="524288" depth="2" cache_linesize="64" cache_type="0">
          <object type="Core" os_index="0" cpuset="0x00000001"><object type="PU" os_index="0"/></object>
        </object>
      </object>
    </object>
    <object type="NUMANode" os_index="0" cpuset="0x00000002" local_memory="1073741824">
      <object type="Socket" os_index="1" cpuset="0x00000002">
        <object type="Core" os_index="1" cpuset="0x00000002"><object type="PU" os_index="1"/></object>
      </object>
    </object>
  </object>
</topology>"#;

#[test]
fn version_2_is_read() {
    let machine = parse(V2).expect("a valid export");
    assert_eq!(
        (machine.cpus().to_string().as_str(), machine.offline().to_string().as_str()),
        ("0-3,64-67", "68")
    );
    let nodes: Vec<_> =
        machine.nodes().iter().map(|n| (n.id.0, n.cpus.to_string(), n.memory_bytes >> 30)).collect();
    assert_eq!(nodes, [(0, "0-3".to_owned(), 8), (2, "64-67".to_owned(), 4)]);
    assert_eq!((machine.packages().len(), machine.packages()[0].id), (1, PackageId(1)));
    let caches: Vec<_> =
        machine.caches().iter().map(|cache| (cache.level, cache.kind, cache.bytes)).collect();
    let (data, instructions) = (CacheKind::Data, CacheKind::Instruction);
    assert_eq!(
        caches,
        [(3, CacheKind::Unified, Some(5 << 20)), (1, data, Some(32 << 10)), (1, instructions, None)]
    );
    assert_eq!(machine.distance(CpuId(0), CpuId(1)), Some(CpuDistance::Smt));
    assert_eq!(machine.distance(CpuId(0), CpuId(64)), Some(CpuDistance::Remote(21)));
    assert_eq!(machine.distance(CpuId(64), CpuId(0)), Some(CpuDistance::Remote(31)));
    let small: Vec<_> = machine.cores().iter().map(|core| core.class == CoreClass::Efficient).collect();
    assert_eq!(small, [false, true, false, false, false, false]);
}

#[test]
fn version_1_is_read() {
    let machine = parse(V1).expect("a valid export");
    assert_eq!((machine.nodes().len(), machine.packages().len(), machine.caches().len()), (2, 2, 1));
    // The matrix is in the order of the objects: node 1 comes first and has cpu 0.
    assert_eq!(machine.distance(CpuId(0), CpuId(1)), Some(CpuDistance::Remote(16)));
    assert_eq!(machine.node_distances(), [[10, 22], [16, 10]]);
    // hwloc 2 writes depth 2 for the nodes.
    let rewritten = V1
        .replace("relative_depth=\"3\"", "relative_depth=\"2\"")
        .replace("nbobjs=\"2\" relative_depth=\"1\"", "nbobjs=\"4\" relative_depth=\"9\"");
    assert_eq!(parse(&rewritten).expect("valid").distance(CpuId(0), CpuId(1)), Some(CpuDistance::Remote(9)));
}

#[test]
fn errors_name_the_line() {
    let cases = [
        ("<html/>".to_owned(), "line 1: the root element is <html>, expected <topology>"),
        ("nonsense".to_owned(), "hwloc XML, line 1: "),
        (V2.replace("os_index=\"64\"", "os_index=\"x\""), "line 27: os_index=\"x\" is not a number"),
        (V2.replace("os_index=\"64\"", ""), "line 27: a PU needs an os_index below 8192"),
        (
            V2.replace("0x0000000c\" cache", "zz\" cache"),
            "line 17: \"zz\" in cpuset is not a mask of 32 cpus",
        ),
        (V2.replace("31 10 <", "31 <"), "line 35: 3 distances between 2 nodes, expected a square"),
        (V2.replace("depth=\"3\"", "depth=\"0\""), "line 10: a cache needs a depth from 1 to 5"),
    ];
    for (text, message) in cases {
        let error = parse(&text).expect_err(message).to_string();
        assert!(error.contains(message), "{error}");
    }
    assert!(matches!(parse("<topology><object type=\"Machine\"/></topology>"), Err(TopologyError::NoCpu)));
}

proptest! {
    #[test]
    fn a_file_cut_short_is_an_error(cut in 0..V2.trim_end().len()) {
        prop_assert!(parse(&V2[..cut]).is_err());
    }

    #[test]
    fn no_damage_panics(version in 0..2_usize, at in 0..V2.len(), len in 0..40_usize, new in "[0-9a-fx\"<>/ -]{0,6}") {
        let mut text = [V1, V2][version].to_owned();
        let (start, end) = (at.min(text.len()), (at + len).min(text.len()));
        text.replace_range(start..end, &new);
        let _ = parse(&text);
    }

    #[test]
    fn no_text_panics(text in ".{0,60}") {
        let _ = parse(&text);
    }
}
