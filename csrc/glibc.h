/* Has a library ask for functions as glibc 2.17 had them, so that the wheel runs on older systems than the one that
 * it was built on. MQS_FOR_OLD_GLIBC is defined for the wheel alone. */
#ifndef MQS_GLIBC_H
#define MQS_GLIBC_H

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(MQS_FOR_OLD_GLIBC) && defined(__x86_64__)
#define MQS_OLD_GLIBC "GLIBC_2.2.5"
#elif defined(MQS_FOR_OLD_GLIBC) && defined(__aarch64__)
#define MQS_OLD_GLIBC "GLIBC_2.17"
#endif

#ifdef MQS_OLD_GLIBC

/* glibc 2.32 and 2.34 moved these from libpthread and libdl into libc, with new versions; the old ones are still there. */
#define MQS_OLD(function) __asm__(".symver " #function ", " #function "@" MQS_OLD_GLIBC)
MQS_OLD(dladdr);
MQS_OLD(dlerror);
MQS_OLD(dlopen);
MQS_OLD(dlsym);
MQS_OLD(pthread_once);
MQS_OLD(pthread_sigmask);

/* Up to 2.32 fstat and lstat were no functions that a library could ask for. The kernel's struct stat is glibc's here. */
static inline int stat_open_file(int descriptor, struct stat *found)
{
    return (int)syscall(SYS_fstat, descriptor, found);
}

static inline int stat_file_or_link(const char *path, struct stat *found)
{
    return (int)syscall(SYS_newfstatat, AT_FDCWD, path, found, AT_SYMLINK_NOFOLLOW);
}

#else

static inline int stat_open_file(int descriptor, struct stat *found)
{
    return fstat(descriptor, found);
}

static inline int stat_file_or_link(const char *path, struct stat *found)
{
    return lstat(path, found);
}

#endif
#endif
