/* A disk that fails once: interposes the calls by which SQLite writes and syncs, and keeps what would be left after a power cut.
 *
 * FAILING_DISK_SHADOW  folder: of each database file, what its successful syncs have made certain
 * FAILING_DISK_LOG     file: one line a call, "<op> <file> <thread> <what>"
 * FAILING_DISK_PLAN    "<op> <file> <thread> <n> <errno> <how>": which call of its kind fails; how: before, after, or short
 *
 * op is w (pwrite) or s (sync), file db, wal or journal, thread main or other. Two lines more tell the order of things: "begins <file>
 * <thread> sync" when a sync is asked for, and "stops turnstile <thread> marked" when the store is marked as failed. A failed sync drops what was pending, as kernels do:
 * a later one succeeds over the hole. But each descriptor that the file was open under hears of the failure, once, as Linux has it
 * since 4.13 (errseq_t): else one thread could answer for what another one's failed sync has dropped, and no program could know.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef struct change {
    struct change *next;
    off64_t offset; /* where it was written, or the new size if there is no data */
    size_t length;
    char *data;
} change;

enum { DB, WAL, JOURNAL, FILES };
static const char *NAMES[FILES] = {"db", "wal", "journal"};
static const char *PATHS[FILES] = {"anew.db", "anew.db-wal", "anew.db-journal"};
static const char *MARKED = "turnstile";

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static change *pending[FILES], **last[FILES] = {&pending[DB], &pending[WAL], &pending[JOURNAL]};
static int calls[2][FILES][2];
/* The rest of a short write is asked for by the same thread. */
static __thread int next_fails = 0;

static ssize_t real_pwrite(int fd, const void *data, size_t n, off64_t at) {
    static ssize_t (*real)(int, const void *, size_t, off64_t);
    if (!real) real = dlsym(RTLD_NEXT, "pwrite64");
    return real(fd, data, n, at);
}

static int real_truncate(int fd, off64_t size) {
    static int (*real)(int, off64_t);
    if (!real) real = dlsym(RTLD_NEXT, "ftruncate64");
    return real(fd, size);
}

static int file_of(const char *path) {
    const char *name = strrchr(path, '/');
    name = name ? name + 1 : path;
    for (int file = 0; file < FILES; file++)
        if (!strcmp(name, PATHS[file])) return file;
    return -1;
}

static int path_of_fd(int fd, char *path, size_t size) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, size - 1);
    path[n < 0 ? 0 : n] = 0;
    return n >= 0;
}

static int file_of_fd(int fd) {
    char path[4096];
    return path_of_fd(fd, path, sizeof path) ? file_of(path) : -1;
}

static int is_marked(int fd) {
    char path[4096];
    const char *name = path_of_fd(fd, path, sizeof path) ? strrchr(path, '/') : NULL;
    return name && !strcmp(name + 1, MARKED);
}

/* By descriptor: the error that its next sync has to report. */
enum { DESCRIPTORS = 4096 };
static int owed[DESCRIPTORS];

static void owe(int file, int failed, int reason) {
    for (int fd = 0; fd < DESCRIPTORS; fd++)
        if (fd != failed && file_of_fd(fd) == file) owed[fd] = reason;
}

static void say(const char *op, const char *file, const char *what) {
    static int fd = -1;
    char line[128];
    if (fd < 0) fd = open(getenv("FAILING_DISK_LOG"), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    const char *thread = syscall(SYS_gettid) == getpid() ? "main" : "other";
    int n = snprintf(line, sizeof line, "%s %s %s %s\n", op, file, thread, what);
    if (syscall(SYS_write, fd, line, n) < 0) abort();
}

static void say_alone(const char *op, const char *file, const char *what) {
    pthread_mutex_lock(&lock);
    say(op, file, what);
    pthread_mutex_unlock(&lock);
}

/* Whether this call is the one that fails; gives how, and sets errno. */
static const char *planned(const char *op, int file) {
    static char how[16];
    char p_op[4], p_file[16], p_thread[16];
    int p_n, p_errno, other = syscall(SYS_gettid) != getpid();
    int n = ++calls[*op == 's'][file][other];
    const char *plan = getenv("FAILING_DISK_PLAN");
    if (!plan || sscanf(plan, "%3s %15s %15s %d %d %15s", p_op, p_file, p_thread, &p_n, &p_errno, how) != 6) return NULL;
    if (strcmp(op, p_op) || strcmp(NAMES[file], p_file) || strcmp(other ? "other" : "main", p_thread) || n != p_n) return NULL;
    errno = p_errno;
    return how;
}

static void remember(int file, off64_t at, const void *data, size_t n) {
    change *one = calloc(1, sizeof *one);
    one->offset = at;
    one->length = n;
    if (data) memcpy(one->data = malloc(n), data, n);
    *last[file] = one;
    last[file] = &one->next;
}

/* Make what is pending certain, or let it be lost. */
static void settle(int file, int certain) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", getenv("FAILING_DISK_SHADOW"), PATHS[file]);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) abort();
    for (change *one = pending[file], *next; one; one = next) {
        next = one->next;
        if (certain && one->data && real_pwrite(fd, one->data, one->length, one->offset) < 0) abort();
        if (certain && !one->data && real_truncate(fd, one->offset) < 0) abort();
        free(one->data);
        free(one);
    }
    close(fd);
    pending[file] = NULL;
    last[file] = &pending[file];
}

ssize_t pwrite64(int fd, const void *data, size_t n, off64_t at) {
    int file = file_of_fd(fd);
    if (file < 0) {
        ssize_t done = real_pwrite(fd, data, n, at);
        if (is_marked(fd)) say_alone("stops", "turnstile", "marked");
        return done;
    }
    pthread_mutex_lock(&lock);
    const char *how = planned("w", file);
    int reason = errno;
    if (how && !strcmp(how, "short")) {
        n /= 2;
        next_fails = reason;
        how = NULL;
    } else if (next_fails) {
        reason = next_fails;
        next_fails = 0;
        how = "before";
    }
    ssize_t written = -1;
    if (!how || strcmp(how, "before")) {
        written = real_pwrite(fd, data, n, at);
        if (written > 0) remember(file, at, data, written);
    }
    say("w", NAMES[file], how ? "fails" : "ok");
    pthread_mutex_unlock(&lock);
    if (how) {
        errno = reason;
        return -1;
    }
    return written;
}

ssize_t pwrite(int fd, const void *data, size_t n, off_t at) { return pwrite64(fd, data, n, at); }

int fdatasync(int fd) {
    int file = file_of_fd(fd);
    if (file < 0) return 0; /* a folder or the like: nothing here fails */
    say_alone("begins", NAMES[file], "sync");
    pthread_mutex_lock(&lock);
    const char *how = planned("s", file);
    int reason = errno;
    settle(file, !how || strcmp(how, "before"));
    if (how) owe(file, fd, reason);
    else if (fd < DESCRIPTORS && owed[fd]) {
        how = "owed";
        reason = owed[fd];
        owed[fd] = 0;
    }
    say("s", NAMES[file], !how ? "ok" : strcmp(how, "owed") ? "fails" : "owed");
    pthread_mutex_unlock(&lock);
    errno = reason;
    return how ? -1 : 0;
}

int fsync(int fd) { return fdatasync(fd); }

int ftruncate64(int fd, off64_t size) {
    int file = file_of_fd(fd);
    pthread_mutex_lock(&lock);
    int done = real_truncate(fd, size);
    if (file >= 0 && !done) remember(file, size, NULL, 0);
    pthread_mutex_unlock(&lock);
    return done;
}

int ftruncate(int fd, off_t size) { return ftruncate64(fd, size); }

int unlink(const char *path) {
    static int (*real)(const char *);
    if (!real) real = dlsym(RTLD_NEXT, "unlink");
    int file = file_of(path);
    if (file >= 0) {
        char shadow[4096];
        pthread_mutex_lock(&lock);
        settle(file, 0);
        snprintf(shadow, sizeof shadow, "%s/%s", getenv("FAILING_DISK_SHADOW"), PATHS[file]);
        real(shadow);
        pthread_mutex_unlock(&lock);
    }
    return real(path);
}
