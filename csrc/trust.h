#ifndef MQS_TRUST_H
#define MQS_TRUST_H

#include <stddef.h>

/* Whether what lies at a path may be run: nobody can have put it there, or put something else there, but those who are
 * trusted. These are root, the effective user, and whoever can replace libmqs.so itself, which the host has loaded.
 *
 * All on the way counts: each folder, each symbolic link and its folder, and the file. A path is absolute. Answers 1, or 0
 * with a sentence without its full stop. */
int mqs_may_run(const char *library_path, const char *path, char *reason, size_t room);

#endif
