/* What the library lamp.c defines, for the tests of symbols and types. */
#ifndef LAMP_H
#define LAMP_H

typedef struct lamp {
    char kind;
    union {
        int watts;
        struct {
            short volts, hertz;
        };
    };
    unsigned lit : 1, dim : 3;
} lamp_t;

typedef struct never_defined never_defined_t;

extern lamp_t lamp;
extern never_defined_t *elsewhere;
int lamp_watts(void);

#endif
