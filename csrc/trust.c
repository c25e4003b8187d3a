/* Who may change what libmqs runs: its own files, and the Python of its helper process. */
#define _GNU_SOURCE
#include "glibc.h"
#include "trust.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MAX_OWNERS = 16, MAX_LINKS = 40 };

/* Users who could have replaced libmqs.so anyway. */
struct trusted {
    uid_t users[MAX_OWNERS];
    size_t user_count;
    gid_t groups[MAX_OWNERS];
    size_t group_count;
};

static int is_user(const struct trusted *trusted, uid_t user)
{
    for (size_t i = 0; i < trusted->user_count; i++) {
        if (trusted->users[i] == user) {
            return 1;
        }
    }
    return 0;
}

static int is_group(const struct trusted *trusted, gid_t group)
{
    for (size_t i = 0; i < trusted->group_count; i++) {
        if (trusted->groups[i] == group) {
            return 1;
        }
    }
    return 0;
}

/* In a folder with this bit, an entry can be removed only by its owner and the folder's. */
static int is_sticky(const struct stat *found)
{
    return S_ISDIR(found->st_mode) && (found->st_mode & S_ISVTX) != 0;
}

static int is_writable(const struct stat *found, mode_t by)
{
    return !S_ISLNK(found->st_mode) && !is_sticky(found) && (found->st_mode & by) != 0;
}

static void trust_user(struct trusted *trusted, uid_t user)
{
    if (trusted->user_count < MAX_OWNERS && !is_user(trusted, user)) {
        trusted->users[trusted->user_count++] = user;
    }
}

static void trust_writers(struct trusted *trusted, const char *path)
{
    struct stat found;

    if (stat_file_or_link(path, &found) != 0) {
        return;
    }
    trust_user(trusted, found.st_uid);
    if (is_writable(&found, S_IWGRP) && trusted->group_count < MAX_OWNERS && !is_group(trusted, found.st_gid)) {
        trusted->groups[trusted->group_count++] = found.st_gid;
    }
}

/* The path of libmqs.so has no symbolic links. */
static void find_trusted(struct trusted *trusted, const char *library_path)
{
    char part[PATH_MAX];

    memset(trusted, 0, sizeof *trusted);
    trust_user(trusted, 0);
    trust_user(trusted, geteuid());
    trust_writers(trusted, "/");
    for (const char *slash = strchr(library_path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        snprintf(part, sizeof part, "%.*s", (int)(slash - library_path), library_path);
        trust_writers(trusted, part);
    }
    trust_writers(trusted, library_path);
}

/* Checks one folder, link or file. A group with its owner's number has no other members: the user's own, and root's. */
static int check(const struct trusted *trusted, const char *path, struct stat *found, char *reason, size_t capacity)
{
    const char *into;

    if (stat_file_or_link(path, found) != 0) {
        snprintf(reason, capacity, "%.500s can't be examined: %s", path, strerror(errno));
        return 0;
    }
    into = S_ISDIR(found->st_mode) ? "into" : "to";
    if (!is_user(trusted, found->st_uid)) {
        snprintf(reason, capacity, "%.500s belongs to another user (%u)", path, (unsigned)found->st_uid);
    } else if (is_writable(found, S_IWOTH)) {
        snprintf(reason, capacity, "every user may write %s %.500s", into, path);
    } else if (is_writable(found, S_IWGRP) && found->st_gid != found->st_uid && !is_group(trusted, found->st_gid)) {
        snprintf(reason, capacity, "a group (%u) may write %s %.500s", (unsigned)found->st_gid, into, path);
    } else {
        return 1;
    }
    return 0;
}

static void cut_last(char *path)
{
    char *slash = strrchr(path, '/');

    if (slash != NULL) {
        *slash = '\0';
    }
}

/* Follows a path as the kernel does: `real` is the part that was walked, `rest` the part that wasn't. */
int mqs_may_run(const char *library_path, const char *path, char *reason, size_t capacity)
{
    char real[PATH_MAX] = "", rest[PATH_MAX], target[PATH_MAX], longer[2 * PATH_MAX];
    struct trusted trusted;
    struct stat found;
    int links = 0;

    find_trusted(&trusted, library_path);
    if (snprintf(rest, sizeof rest, "%s", path) >= (int)sizeof rest || path[0] != '/') {
        snprintf(reason, capacity, "%.500s is no absolute path", path);
        return 0;
    }
    if (!check(&trusted, "/", &found, reason, capacity)) {
        return 0;
    }
    while (rest[strspn(rest, "/")] != '\0') {
        const char *name = rest + strspn(rest, "/");
        size_t length = strcspn(name, "/");
        ssize_t size;

        if (length == 1 && name[0] == '.') {
            memmove(rest, name + length, strlen(name + length) + 1);
            continue;
        }
        if (length == 2 && name[0] == '.' && name[1] == '.') {
            cut_last(real);
            memmove(rest, name + length, strlen(name + length) + 1);
            continue;
        }
        if (strlen(real) + 1 + length >= sizeof real) {
            snprintf(reason, capacity, "%.500s is too long a path", path);
            return 0;
        }
        snprintf(real + strlen(real), sizeof real - strlen(real), "/%.*s", (int)length, name);
        memmove(rest, name + length, strlen(name + length) + 1);
        if (!check(&trusted, real, &found, reason, capacity)) {
            return 0;
        }
        if (!S_ISLNK(found.st_mode)) {
            continue;
        }
        size = readlink(real, target, sizeof target - 1);
        if (size < 0 || ++links > MAX_LINKS) {
            snprintf(reason, capacity, "%.500s is a link that leads nowhere", path);
            return 0;
        }
        target[size] = '\0';
        if (target[0] == '/') {
            real[0] = '\0';
        } else {
            cut_last(real);
        }
        if (snprintf(longer, sizeof longer, "%s/%s", target, rest) >= (int)sizeof rest) {
            snprintf(reason, capacity, "%.500s is too long a path", path);
            return 0;
        }
        memcpy(rest, longer, strlen(longer) + 1);
    }
    if (!S_ISREG(found.st_mode)) {
        snprintf(reason, capacity, "%.500s is no file", path);
        return 0;
    }
    return 1;
}
