/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Counts, per cpu that reads from a TCP socket, whether that cpu had handled the socket's last packet. Runs at the
 * tracepoint tcp_rcv_space_adjust, which the kernel passes in every read that got bytes.
 *
 * Numbers: 0 the offset of skc_incoming_cpu in struct sock_common, with which struct sock begins, 1 that of skc_num, 2 the
 * port to count, 0 for all. Maps: 0 an array per cpu of two counts, reads on the cpu of the packets and elsewhere; 1 the
 * threads that read, by number, for wakes.bpf.c.
 * Loaded as "Dual MIT/GPL", since reading kernel memory is for such programs only.
 */
#include "vermeil.h"

struct raw_tracepoint {
  u64 args[1];
};

SEC("program") int meter(struct raw_tracepoint *at) {
  const u8 *sock = (const u8 *)at->args[0];
  u32 handled_on = 0;
  u16 port = 0;
  u64 wanted = NUMBER(2);
  if (probe_read_kernel(&port, sizeof port, sock + NUMBER(1)) || (wanted && port != wanted))
    return 0;
  if (probe_read_kernel(&handled_on, sizeof handled_on, sock + NUMBER(0)))
    return 0;
  u32 thread = (u32)current_thread();
  /* What finds no room is not known to read. */
  if (!lookup(MAP(1), &thread))
    update(MAP(1), &thread, &thread, 0);
  u32 which = handled_on != this_cpu();
  u64 *count = lookup(MAP(0), &which);
  if (count)
    *count += 1;
  return 0;
}
