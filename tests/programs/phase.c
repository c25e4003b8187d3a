/* A process outside the time in which MPI can be used: before MPI_Init ("before") or after MPI_Finalize ("after"), or what
 * a rank has forked and left behind when it ended ("helper"). 1 rank. It can't use truth.c, which needs MPI to be up; it says that it is ready in the same way. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void sleep_here(const char *directory)
{
    char draft[4096], name[4096];
    FILE *file;
    snprintf(draft, sizeof draft, "%s/draft", directory);
    snprintf(name, sizeof name, "%s/truth.0.1.json", directory);
    file = fopen(draft, "w");
    if (!file)
        return;
    fprintf(file, "{\"pid\": %d}\n", (int)getpid());
    fclose(file);
    rename(draft, name);
    sleep(120);
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 1;
    if (strcmp(argv[2], "before") == 0)
        sleep_here(argv[1]);
    MPI_Init(&argc, &argv);
    MPI_Finalize();
    if (strcmp(argv[2], "after") == 0)
        sleep_here(argv[1]);
    if (strcmp(argv[2], "helper") == 0 && fork() == 0)
        sleep_here(argv[1]);
    return 0;
}
