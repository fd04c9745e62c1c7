/* Compares the cut-points of an implementation in C with the vectors.
 *
 *     cc -O2 -o check check.c mine.c && ./check ../gear.json ../seqcdc.json
 *
 * mine.c defines `cut`, which writes the exclusive ends of the chunks of `data` and returns their
 * number, or returns -1 if it does not implement the spec. There is room for `len + 1` ends. Prints
 * each case that differs, and ends with 1 if there is any. README.md beside this file has the format.
 * One case stands on each line of a file, its fields in a fixed order. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

long cut(const char *spec, const uint8_t *data, size_t len, size_t *ends);

static char line[1 << 20];

/* Returns the text behind `name`, or NULL if the line has none. */
static const char *field(const char *name) {
    const char *found = strstr(line, name);
    return found ? found + strlen(name) : NULL;
}

static unsigned long long number(const char *name) {
    const char *text = field(name);
    return text ? strtoull(text, NULL, 10) : 0;
}

static int is_kind(const char *kind) {
    const char *text = field("\"kind\": \"");
    return text && strncmp(text, kind, strlen(kind)) == 0;
}

static void random_bytes(uint8_t *data, size_t len, uint64_t state) {
    for (size_t at = 0; at < len; at++) {
        static uint64_t z;
        if (at % 8 == 0) {
            state += 0x9E3779B97F4A7C15;
            z = (state ^ state >> 30) * 0xBF58476D1CE4E5B9;
            z = (z ^ z >> 27) * 0x94D049BB133111EB;
            z ^= z >> 31;
        }
        data[at] = (uint8_t)(z >> at % 8 * 8);
    }
}

static void make(uint8_t *data, size_t len) {
    if (is_kind("random")) {
        random_bytes(data, len, number("\"seed\": "));
        return;
    }
    for (size_t at = 0; at < len; at++)
        data[at] = is_kind("constant") ? (uint8_t)number("\"byte\": ")
                 : is_kind("rising")   ? (uint8_t)at
                                       : (uint8_t)(255 - at);
}

/* Returns 1 if the ends of the line are those found, and prints the first difference otherwise. */
static int is_equal(const char *spec, const size_t *ends, size_t count) {
    const char *text = field("\"ends\": [");
    for (size_t at = 0;; at++) {
        char *rest;
        size_t expected = text ? strtoull(text, &rest, 10) : 0;
        int is_there = text && rest != text;
        if (!is_there && at == count) return 1;
        if (!is_there || at == count || ends[at] != expected) {
            printf("%s, size %llu: chunk %zu ends at %zu, expected %zu\n", spec, number("\"size\": "), at,
                   at < count ? ends[at] : 0, is_there ? expected : 0);
            return 0;
        }
        text = rest + strspn(rest, ", ");
    }
}

int main(int argc, char **argv) {
    size_t equal = 0, different = 0, left_out = 0;
    for (int file = 1; file < argc; file++) {
        FILE *in = fopen(argv[file], "r");
        if (!in) return perror(argv[file]), 2;
        while (fgets(line, sizeof line, in)) {
            const char *text = field("\"canonical\": \"");
            if (!text) text = field("\"spec\": \"");
            if (!text || field("\"key_seed\"") || field("\"_comment\"")) continue;
            char spec[256];
            snprintf(spec, sizeof spec, "%.*s", (int)strcspn(text, "\""), text);
            size_t len = number("\"size\": ");
            uint8_t *data = malloc(len + 1);
            size_t *ends = malloc((len + 1) * sizeof *ends);
            if (!data || !ends) return perror("malloc"), 2;
            make(data, len);
            long count = cut(spec, data, len, ends);
            if (count < 0) left_out++;
            else if (is_equal(spec, ends, (size_t)count)) equal++;
            else different++;
            free(data), free(ends);
        }
        fclose(in);
    }
    printf("%zu cases are equal, %zu differ, %zu are not implemented\n", equal, different, left_out);
    return different || !equal;
}
