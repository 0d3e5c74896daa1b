/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Counts, per cpu that wakes a thread which reads from TCP sockets, whether that thread was asleep on the same cpu: else one
 * cpu has interrupted another. Runs at the tracepoint sched_waking, which the kernel passes on the waking cpu for threads that
 * sleep.
 *
 * Numbers: 0 the offset of thread_info.cpu in struct task_struct, 1 that of pid. Maps: 0 an array per cpu of two counts, wake-ups
 * by the thread's own cpu and by another; 1 the threads that read, by number, which meter.bpf.c fills in.
 */
#include "vermeil.h"

struct raw_tracepoint {
  u64 args[1];
};

SEC("program") int wakes(struct raw_tracepoint *at) {
  const u8 *task = (const u8 *)at->args[0];
  u32 thread = 0;
  u32 asleep_on = 0;
  if (probe_read_kernel(&thread, sizeof thread, task + NUMBER(1)) || !lookup(MAP(1), &thread))
    return 0;
  if (probe_read_kernel(&asleep_on, sizeof asleep_on, task + NUMBER(0)))
    return 0;
  u32 which = asleep_on != this_cpu();
  u64 *count = lookup(MAP(0), &which);
  if (count)
    *count += 1;
  return 0;
}
