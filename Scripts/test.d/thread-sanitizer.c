// Reports the synchronization of Swift's libraries, which are not instrumented, to ThreadSanitizer. Scripts/test loads
// this library before the tests. Without it, ThreadSanitizer reports three kinds of correct code as races:
//
// - A Mutex with a waiting thread. Its fast path is compiled into the tests, its slow path is in a library.
// - A continuation that is resumed before its task waits for it. In optimized code the functions below report this. A
//   continuation that is resumed at the same time is still reported: one of 60,000 in a program that does only this.
// - A value that one thread has read and released, and another thread then changes in place. Only the runtime's
//   reference counts define the order.
//
// The mangled names are those of Synchronization._MutexHandle, lockSlow and unlockSlow, in Swift 6.3.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// swift_release has another calling convention on other architectures.
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

// SwiftPM, which starts the tests, does not contain these functions.
extern void __tsan_acquire(void *) __attribute__((weak));
extern void __tsan_release(void *) __attribute__((weak));
extern void *swift_task_getCurrent(void) __attribute__((weak));

// Declares `next`, the function that this library replaces.
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
    // Null and negative values are not objects, as in the runtime.
    if (__tsan_release != NULL && (intptr_t)object > 0) __tsan_release(object);
    next(object);
}

bool swift_isUniquelyReferenced_nonNull_native(const void *object) {
    NEXT(IsUnique, "swift_isUniquelyReferenced_nonNull_native");
    bool isUnique = next(object);
    if (isUnique && __tsan_acquire != NULL) __tsan_acquire((void *)object);
    return isUnique;
}
