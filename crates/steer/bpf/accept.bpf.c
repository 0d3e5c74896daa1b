/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Which core is given a new connection (BPF_PROG_TYPE_SK_REUSEPORT). Sockets are known by their core's number, so their
 * order in the kernel's group does not matter and cores may come and go.
 *
 * Maps: 0 the sockets by core; 1 one `plan`; 2 one `cpu` per cpu; 3 one `core` per core. The last is shared with the
 * server, which writes what its cores do: so a core that is stuck is seen as such without its help.
 * Whatever fails, the kernel's own choice by hash stands.
 */
#include "vermeil.h"

#define NEAR_MAX 8

enum mode { HASH, FIXED, ROUND_ROBIN, LOCAL, LOAD_AWARE };

struct plan {
  u32 mode;
  u32 cores;
  u64 next;      /* of round-robin */
  u64 bound_ns;  /* pending work above which a core's connections go elsewhere; below half of it they stay again */
};

struct cpu {
  u32 home;      /* the core that takes this cpu's connections */
};

/* The layout of CoreBoard in crates/io/src/board.rs. */
struct core {
  u64 busy_since_ns;  /* when it looked at its sockets, 0 while it waits for them; written by the core */
  u64 pending_ns;     /* the work it found there, as time; written by the core */
  u64 looks;          /* how often it has looked; written by the core */
  u64 programs_ns;    /* what waits for programs in its process, as time; written by the core */
  u64 elsewhere;      /* whether its connections go elsewhere; written here */
  u64 sent_away;      /* connections that went elsewhere; written here */
  u32 near_count;
  u32 near[NEAR_MAX]; /* other cores, nearest first */
  u32 process;        /* the number of its process: what waits for programs there waits for all of its cores */
  u64 looked_ns;      /* when it looked at its sockets last, 0 for never; written by the core */
  u32 unused[8];
};

/* A core that has nothing to do looks at its sockets ten times a second all the same (the server's overload.rs): one
 * that has not for so long is not let run, although it looks idle. */
#define ABSENT_NS 250000000ull

/* Conditions in the loop over other cores are masks, all bits or none, and not branches: the kernel examines each path
 * through a program before it takes the program, and branches in a loop of eight rounds are thousands of paths. Times are
 * below 2^63. */
static u64 less(u64 a, u64 b) {
  u64 sign = (a - b) >> 63;
  asm volatile("" : "+r"(sign)); /* The compiler would make a branch of it. */
  return 0 - sign;
}

static u64 is_zero(u64 a) { return less(a, 1); }

static u64 choose(u64 mask, u64 a, u64 b) { return (a & mask) | (b & ~mask); }

/* The time a new connection waits before this core looks at it. A slow core has measured its work as slow as it is, so its
 * speed is in it. */
static u64 wait_ns(const struct core *core, u64 now) {
  u64 since = core->busy_since_ns;
  u64 looked = core->looked_ns;
  since = choose(is_zero(since) & ~is_zero(looked) & less(looked + ABSENT_NS, now), looked, since);
  u64 busy = (now - since) & ~is_zero(since) & less(since, now);
  return core->pending_ns + busy;
}

static u32 by_load(struct plan *plan, u32 home) {
  struct core *core = lookup(MAP(3), &home);
  if (!core)
    return home;
  u64 now = now_ns();
  u64 alone = wait_ns(core, now);
  u64 wait = alone + core->programs_ns;
  u64 bound = core->elsewhere ? plan->bound_ns / 2 : plan->bound_ns;
  if (wait <= bound) {
    if (core->elsewhere)
      core->elsewhere = 0;
    return home;
  }
  u32 best = home;
  u64 least = ~0ull >> 1;
  u32 count = core->near_count;
  for (u32 at = 0; at < NEAR_MAX; at++) {
    if (at >= count)
      break;
    u32 key = core->near[at];
    struct core *other = lookup(MAP(3), &key);
    if (!other)
      break;
    u64 theirs = wait_ns(other, now);
    u64 all = theirs + other->programs_ns;
    /* Programs of the same process are no reason to go to another of its cores. */
    u64 same = is_zero(other->process ^ core->process);
    u64 ours = choose(same, alone, wait);
    theirs = choose(same, theirs, all);
    /* Twice as good at least, or connections would go to and fro between cores that are busy alike. */
    u64 better = less(bound, ours) & less(theirs, ours / 2) & less(all, least);
    least = choose(better, all, least);
    best = choose(better, key, best);
  }
  if (best != home) {
    core->elsewhere = 1;
    __sync_fetch_and_add(&core->sent_away, 1);
  }
  return best;
}

struct sk_reuseport_md {
  void *data;
  void *data_end;
  u32 length;
  u32 eth_protocol;
  u32 ip_protocol;
  u32 bind_inany;
  u32 hash;
};

#define FROM_NETWORK_HEADER 1
#define ETH_IPV4 0x0008 /* in network order */

/* The same core for all connections of an address. */
static u32 by_address(struct sk_reuseport_md *md, u32 cores) {
  u32 address[4] = {};
  if (md->eth_protocol == ETH_IPV4)
    load_bytes_relative(md, 12, address, 4, FROM_NETWORK_HEADER);
  else
    load_bytes_relative(md, 8, address, 16, FROM_NETWORK_HEADER);
  u32 mixed = address[0] ^ address[1] ^ address[2] ^ address[3];
  /* Fibonacci hashing: neighbours are spread. */
  mixed *= 2654435769u;
  return (u32)(((u64)mixed * cores) >> 32);
}

SEC("program") int accept(struct sk_reuseport_md *md) {
  u32 zero = 0;
  struct plan *plan = lookup(MAP(1), &zero);
  if (!plan || plan->mode == HASH || !plan->cores)
    return 1;
  u32 core;
  if (plan->mode == FIXED) {
    core = by_address(md, plan->cores);
  } else if (plan->mode == ROUND_ROBIN) {
    core = __sync_fetch_and_add(&plan->next, 1) % plan->cores;
  } else {
    u32 number = this_cpu();
    struct cpu *cpu = lookup(MAP(2), &number);
    if (!cpu)
      return 1;
    core = cpu->home;
    if (plan->mode == LOAD_AWARE)
      core = by_load(plan, core);
  }
  select_socket(md, MAP(0), &core, 0);
  return 1;
}
