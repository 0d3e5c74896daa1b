/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * What the programs use. They are compiled without a library and without relocations: maps and numbers that are known
 * only when a program is loaded are 64-bit immediates with a mark in their upper half, which the loader (bpf.rs) finds
 * and fills in. So no ELF file, no compiler and no type information is needed where the program runs.
 */
#ifndef VERMEIL_H
#define VERMEIL_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define SEC(name) __attribute__((section(name), used))

/* Map number n of the program, in the order in which the loader is given them. */
#define MAP(n) ({ void *map; asm volatile("%0 = 0x7e57aa000000000" #n " ll" : "=r"(map)); map; })
/* Number n of those the loader is given. */
#define NUMBER(n) ({ u64 number; asm volatile("%0 = 0x7e57bb000000000" #n " ll" : "=r"(number)); number; })

/* Of linux/bpf.h. */
static void *(*lookup)(void *map, const void *key) = (void *)1;
static long (*update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static u64 (*now_ns)(void) = (void *)5;
static u32 (*this_cpu)(void) = (void *)8;
static u64 (*current_thread)(void) = (void *)14;
static long (*redirect)(void *map, u64 key, u64 flags) = (void *)51;
static long (*load_bytes_relative)(const void *md, u32 offset, void *to, u32 length, u32 from) = (void *)68;
static long (*select_socket)(void *md, void *map, void *key, u64 flags) = (void *)82;
static long (*probe_read_kernel)(void *to, u32 size, const void *from) = (void *)113;

#endif
