/* A program that uses lamp.c's variable: compiled without PIC it gets a copy of its own. */
#include "lamp.h"

#include <stdio.h>
#include <unistd.h>

int main(void)
{
    printf("ready %d\n", lamp.watts + lamp_watts());
    fflush(stdout);
    for (;;)
        pause();
}
