/* Writes down in which order a server stores, syncs and answers: interposes the calls that write its log, sync it, and send.
 *
 * What is stored bears a mark, "mark-" and six digits, in the log's pages and in the answer alike. SYNC_ORDER_LOG is the file of
 * lines: "w N" a mark was written to the log for the first time, "b T" and "e T" a sync of the log begins and has returned in
 * thread T, "r N" an answer with a mark is about to be sent, "d NAME" a folder has been synced in which a file has this name.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
enum { MARKS = 1000000, DIGITS = 6 };
static const char MARK[] = "mark-";
static char written[MARKS], answered[MARKS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void say_name(char what, const char *name) {
    static int fd = -1;
    char line[512];
    if (fd < 0) fd = open(getenv("SYNC_ORDER_LOG"), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    int n = snprintf(line, sizeof line, "%c %s\n", what, name);
    if (syscall(SYS_write, fd, line, n) != n) abort();
}

static void say(char what, long number) {
    char text[32];
    snprintf(text, sizeof text, "%ld", number);
    say_name(what, text);
}

static int is_log(int fd) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    return n > 4 && !strncmp(path + n - 4, "-wal", 4);
}

static void look_for_marks(char what, char *seen, const char *data, size_t n) {
    const char *end = data + n;
    pthread_mutex_lock(&lock);
    for (const char *at = data; (at = memmem(at, end - at, MARK, sizeof MARK - 1)); at += sizeof MARK - 1) {
        long number = 0;
        const char *digits = at + sizeof MARK - 1;
        if (digits + DIGITS > end) break;
        for (int place = 0; place < DIGITS; place++) number = number * 10 + digits[place] - '0';
        if (number < 0 || number >= MARKS || seen[number]) continue;
        seen[number] = 1;
        say(what, number);
    }
    pthread_mutex_unlock(&lock);
}

static void answer(const struct iovec *parts, int count) {
    for (int part = 0; part < count; part++) look_for_marks('r', answered, parts[part].iov_base, parts[part].iov_len);
}

ssize_t pwrite64(int fd, const void *data, size_t n, off64_t at) {
    ssize_t done = REAL(pwrite64)(fd, data, n, at);
    if (done > 0 && is_log(fd)) look_for_marks('w', written, data, done);
    return done;
}

ssize_t pwrite(int fd, const void *data, size_t n, off_t at) { return pwrite64(fd, data, n, at); }

static void say_names_in(int fd) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    DIR *folder = opendir(path);
    if (!folder) return; /* it is a file */
    for (struct dirent *entry; (entry = readdir(folder));) say_name('d', entry->d_name);
    closedir(folder);
}

static int synced(int fd, int (*real)(int)) {
    int log = is_log(fd);
    long thread = syscall(SYS_gettid);
    pthread_mutex_lock(&lock);
    if (log) say('b', thread);
    pthread_mutex_unlock(&lock);
    int failed = real(fd);
    pthread_mutex_lock(&lock);
    if (log && !failed) say('e', thread);
    if (!log && !failed) say_names_in(fd);
    pthread_mutex_unlock(&lock);
    return failed;
}

int fdatasync(int fd) { return synced(fd, REAL(fdatasync)); }
int fsync(int fd) { return synced(fd, REAL(fsync)); }

ssize_t write(int fd, const void *data, size_t n) {
    look_for_marks('r', answered, data, n);
    return REAL(write)(fd, data, n);
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    answer(parts, count);
    return REAL(writev)(fd, parts, count);
}

ssize_t send(int fd, const void *data, size_t n, int flags) {
    look_for_marks('r', answered, data, n);
    return REAL(send)(fd, data, n, flags);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
    answer(message->msg_iov, (int)message->msg_iovlen);
    return REAL(sendmsg)(fd, message, flags);
}
