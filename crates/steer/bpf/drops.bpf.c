/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Counts packets that were handed to a cpu and dropped before its stack has seen them. Runs at two tracepoints that begin
 * with the same arguments: xdp_cpumap_enqueue, where the queue of a cpu is full, and xdp_cpumap_kthread, where that cpu has
 * no memory for a packet.
 *
 * Numbers: 0 the id of the map of queues, 1 which count. Maps: 0 an array per cpu of two counts.
 */
#include "vermeil.h"

struct raw_tracepoint {
  u64 map_id;
  u64 processed;
  u64 drops;
};

SEC("program") int drops(struct raw_tracepoint *at) {
  if ((u32)at->map_id != (u32)NUMBER(0))
    return 0;
  u32 which = NUMBER(1);
  u64 *count = lookup(MAP(0), &which);
  if (count)
    *count += (u32)at->drops;
  return 0;
}
