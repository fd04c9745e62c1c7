/* SeqCDC as its paper's program cuts, for `check.c`: the example of an implementation under test. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

long cut(const char *spec, const uint8_t *data, size_t len, size_t *ends) {
    char mode[4];
    unsigned long length, trigger, skip, min, max;
    int used = 0;
    if (sscanf(spec, "seqcdc:mode=%3[incde],length=%lu,trigger=%lu,skip=%lu,min=%lu,max=%lu%n", mode, &length, &trigger,
               &skip, &min, &max, &used) != 6 || spec[used])
        return -1;
    int rises = strcmp(mode, "inc") == 0;
    long count = 0;
    for (size_t start = 0; start < len;) {
        size_t limit = len - start < max ? len - start : max, end = limit;
        size_t run = 0, opposing = 0;
        for (size_t at = min; at < limit; at++) {
            uint8_t before = data[start + at - 1], here = data[start + at];
            if (here == before) continue;
            if ((here > before) == rises) {
                if (++run == length) { end = at; break; }
            } else {
                run = 0;
                if (++opposing == trigger) { at += skip; opposing = 0; }
            }
        }
        ends[count++] = start += end;
    }
    return count;
}
