/* A library with a variable, a function and types. Its users may own the variable by a copy relocation. */
#include "lamp.h"

lamp_t lamp = {.kind = KIND, .watts = 60};
never_defined_t *elsewhere;
static volatile int switches = 1; /* which no dynamic symbol names */

int lamp_watts(void)
{
    return switches * lamp.watts;
}
