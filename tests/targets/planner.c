/* A process for the library vendor.c: its variable "plan" is the program's argument. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int plan;
char MPIR_dll_name[] = DLL_NAME;

int main(int argc, char **argv)
{
    plan = argc > 1 ? atoi(argv[1]) : 0;
    printf("ready %s\n", MPIR_dll_name);
    fflush(stdout);
    for (;;)
        pause();
}
