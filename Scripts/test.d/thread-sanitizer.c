// Tells ThreadSanitizer what Swift's libraries do, which are not instrumented. Scripts/test loads this before the tests. Without it,
// three kinds of what is in order are reported as races:
//
// - A Mutex that somebody waits for. Its fast path is compiled into the tests, its slow one is in a library.
// - A continuation that is resumed before its task waits for it. This is told in optimized code, which calls what stands here. One
//   that is resumed in the very moment is still reported: in 60,000 of a program that does nothing else, one was.
// - A value that one thread has read and released, and another then changes in place. Only the runtime's counts know the order.
//
// The mangled names are those of Synchronization._MutexHandle, lockSlow and unlockSlow, in Swift 6.3.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Elsewhere swift_release has a calling convention of its own.
#ifndef __x86_64__
#error "written for x86-64"
#endif

#define LOCK "$s15Synchronization12_MutexHandleV9_lockSlowyys6UInt32VF"
#define UNLOCK "$s15Synchronization12_MutexHandleV11_unlockSlowyyF"
#define SELF __attribute__((swift_context))

typedef __attribute__((swiftcall)) void (*Lock)(uint32_t thread, SELF void *mutex);
typedef __attribute__((swiftcall)) void (*Unlock)(SELF void *mutex);
typedef __attribute__((swiftasynccall)) void (*Await)(void *context);
typedef void (*Release)(void *object);
typedef bool (*IsUnique)(const void *object);

// SwiftPM, which starts the tests, has none.
extern void __tsan_acquire(void *) __attribute__((weak));
extern void __tsan_release(void *) __attribute__((weak));
extern void *swift_task_getCurrent(void) __attribute__((weak));

// What stood here before, as `Type next`.
#define NEXT(Type, name) \
    static _Atomic(Type) known; \
    Type next = known; \
    if (next == NULL) known = next = (Type)dlsym(RTLD_NEXT, name)

__attribute__((swiftcall)) void lock(uint32_t thread, SELF void *mutex) __asm__(LOCK);
__attribute__((swiftcall)) void lock(uint32_t thread, SELF void *mutex) {
    NEXT(Lock, LOCK);
    next(thread, mutex);
    if (__tsan_acquire != NULL) __tsan_acquire(mutex);
}

__attribute__((swiftcall)) void unlock(SELF void *mutex) __asm__(UNLOCK);
__attribute__((swiftcall)) void unlock(SELF void *mutex) {
    NEXT(Unlock, UNLOCK);
    if (__tsan_release != NULL) __tsan_release(mutex);
    next(mutex);
}

__attribute__((swiftasynccall)) void swift_continuation_await(void *context) {
    NEXT(Await, "swift_continuation_await");
    if (__tsan_acquire != NULL && swift_task_getCurrent != NULL) __tsan_acquire(swift_task_getCurrent());
    __attribute__((musttail)) return next(context);
}

void swift_release(void *object) {
    NEXT(Release, "swift_release");
    // As the runtime does: what is null or negative is no object.
    if (__tsan_release != NULL && (intptr_t)object > 0) __tsan_release(object);
    next(object);
}

bool swift_isUniquelyReferenced_nonNull_native(const void *object) {
    NEXT(IsUnique, "swift_isUniquelyReferenced_nonNull_native");
    bool isUnique = next(object);
    if (isUnique && __tsan_acquire != NULL) __tsan_acquire((void *)object);
    return isUnique;
}
