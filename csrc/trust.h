#ifndef MQS_TRUST_H
#define MQS_TRUST_H

#include <stddef.h>

/* Returns whether the file at an absolute path may be run: only trusted users can have put it there, or can replace it.
 * Trusted are root, the effective user, and whoever can replace libmqs.so itself, which the host has loaded.
 *
 * Everything along the path counts: each folder, each symbolic link and its folder, and the file. Returns 1, or 0 with a
 * sentence without its full stop. */
int mqs_may_run(const char *library_path, const char *path, char *reason, size_t capacity);

#endif
