/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Which cpu handles a packet, decided in front of the stack (BPF_PROG_TYPE_XDP): TCP and UDP over IPv4 and IPv6 by a hash
 * of addresses and ports, so that a flow stays on its cpu. Everything else goes up where it is: fragments have no ports,
 * and what is no flow of a server's need not be spread.
 *
 * Numbers: 0 how many cpus there are to choose from, 1 what the hash begins with, so that nobody outside can aim at a cpu.
 * Maps: 0 the queues of cpus, by cpu; 1 the cpu of each choice; 2 an array per cpu of counts: what went up where it was,
 * then what went to each choice.
 */
#include "vermeil.h"

#define INLINE static inline __attribute__((always_inline))

struct xdp_md {
  u32 data;
  u32 data_end;
  u32 data_meta;
  u32 ingress_ifindex;
  u32 rx_queue_index;
  u32 egress_ifindex;
};

#define XDP_PASS 2

/* In network order, as they are read. */
#define ETH_IPV4 0x0008
#define ETH_IPV6 0xdd86
#define ETH_VLAN 0x0081
#define ETH_QINQ 0xa888
#define FRAGMENT 0xff3f /* the offset, and "more fragments" */

#define TCP 6
#define UDP 17

/* Most VLAN tags that are looked behind: one of the provider, one of the customer. */
#define TAGS_MAX 2

INLINE u32 mix(u32 hash, u32 word) {
  hash = (hash ^ word) * 2654435769u; /* Fibonacci hashing: neighbours are spread */
  return hash ^ hash >> 15;
}

/* Where ports are, and the hash of the addresses; nothing where there is no flow. */
INLINE const u8 *after_ipv4(const u8 *at, const u8 *end, u32 *hash) {
  if (at + 20 > end)
    return 0;
  if (at[9] != TCP && at[9] != UDP)
    return 0;
  if (*(const u16 *)(at + 6) & FRAGMENT)
    return 0;
  *hash = mix(mix(*hash, *(const u32 *)(at + 12)), *(const u32 *)(at + 16));
  u32 length = (at[0] & 15) * 4;
  return length < 20 ? 0 : at + length;
}

INLINE const u8 *after_ipv6(const u8 *at, const u8 *end, u32 *hash) {
  if (at + 40 > end)
    return 0;
  /* Extension headers are rare, and the fragment header is one. */
  if (at[6] != TCP && at[6] != UDP)
    return 0;
#pragma unroll
  for (int word = 0; word < 8; word++)
    *hash = mix(*hash, *(const u32 *)(at + 8 + 4 * word));
  return at + 40;
}

INLINE u32 count(u32 which) {
  u64 *known = lookup(MAP(2), &which);
  if (known)
    *known += 1;
  return XDP_PASS;
}

SEC("program") int classify(struct xdp_md *md) {
  const u8 *at = (const u8 *)(u64)md->data;
  const u8 *end = (const u8 *)(u64)md->data_end;
  if (at + 14 > end)
    return count(0);
  u16 type = *(const u16 *)(at + 12);
  at += 14;
#pragma unroll
  for (int tag = 0; tag < TAGS_MAX; tag++) {
    if (type == ETH_VLAN || type == ETH_QINQ) {
      if (at + 4 > end)
        return count(0);
      type = *(const u16 *)(at + 2);
      at += 4;
    }
  }
  u32 hash = NUMBER(1);
  if (type == ETH_IPV4)
    at = after_ipv4(at, end, &hash);
  else if (type == ETH_IPV6)
    at = after_ipv6(at, end, &hash);
  else
    return count(0);
  if (!at || at + 4 > end)
    return count(0);
  hash = mix(hash, *(const u32 *)at);
  u32 choice = (u32)(((u64)hash * (u32)NUMBER(0)) >> 32);
  u32 *cpu = lookup(MAP(1), &choice);
  if (!cpu)
    return count(0);
  count(choice + 1);
  return redirect(MAP(0), *cpu, XDP_PASS);
}
