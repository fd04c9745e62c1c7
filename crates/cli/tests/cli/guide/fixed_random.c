/* Makes the randomness of a process the same in every run: LD_PRELOAD this, and give RANDOM_SEED a
 * number. Only tests build it. The program itself has no switch for this.
 *
 * The bytes depend on the seed, on the length, and on the number of earlier calls with that length.
 * Hash tables ask for 8 or 16 bytes from every thread, in any order, which therefore changes no id of
 * a snapshot (12 bytes) and no secret (32 bytes). */
#include <stdint.h>
#include <stdlib.h>
#include <sys/types.h>

enum { LENGTHS = 64 };

static uint64_t call_counts[LENGTHS];

static uint64_t mixed(uint64_t x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

ssize_t getrandom(void *bytes, size_t length, unsigned flags) {
    (void)flags;
    const char *seed = getenv("RANDOM_SEED");
    uint64_t call = __atomic_fetch_add(&call_counts[length % LENGTHS], 1, __ATOMIC_RELAXED);
    uint64_t state = mixed(seed ? strtoull(seed, NULL, 10) : 0) ^ mixed(call << 32 | length);
    for (size_t at = 0; at < length; at++) {
        state += 0x9e3779b97f4a7c15u;
        ((unsigned char *)bytes)[at] = (unsigned char)mixed(state);
    }
    return (ssize_t)length;
}
