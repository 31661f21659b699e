import BundleTestTraits
import BundleTesting
import Glibc
import Testing

@testable import BundleShell
@testable import ClientServer

@Suite(.ownThread) struct BrowserLeftoverTests {
    @Test(arguments: [
        ("kiosk-17-4242", "kiosk-17", true, nil), ("kiosk-17-4242", "kiosk-17", false, "its process 4242 has ended"),
        ("kiosk-16-4242", "kiosk-17", true, "it belongs to the host kiosk-16, and this host has another name"),
        ("127.0.1.1:+4242", "kiosk-17", true, nil),
        ("127.0.1.1:+4242", "kiosk-17", false, "its process 4242 has ended"),
        ("somewhere", "kiosk-17", false, nil), ("", "kiosk-17", false, nil), ("kiosk-17-", "kiosk-17", false, nil),
    ])
    func `judges a lock stale if its host or its process does not exist`(
        target: String, host: String, isRunning: Bool, reason: String?
    ) {
        let lock = BrowserLeftovers.ProfileLock(target: target, host: host, isRunning: { _ in isRunning })
        #expect(lock.reason == reason)
    }

    @Test(arguments: [
        (["chromium", "--user-data-dir=/p", "{url}"], "/p"), (["firefox", "--profile", "/f", "u"], "/f"),
        (["firefox", "-profile"], nil), (["chromium"], nil),
    ])
    func `finds the profile that a command names`(words: [String], profile: String?) {
        #expect(BrowserLeftovers.profile(in: words) == profile)
    }

    @Test func `removes a stale lock from the profile, and keeps a lock that is held`() throws {
        let folder = try TemporaryFolder()
        let words = ["chromium", "--user-data-dir=\(folder.path)"]
        symlink("another-host-4242", folder.file("SingletonLock"))
        symlink("/tmp/x", folder.file("SingletonSocket"))
        let lines = BrowserLeftovers.removeStaleLocks(of: words)
        #expect(lines.count == 1 && lines.first?.contains("another-host") == true)
        var facts = stat()
        for name in ["SingletonLock", "SingletonSocket"] { #expect(lstat(folder.file(name), &facts) == -1) }
        #expect(BrowserLeftovers.removeStaleLocks(of: words) == [])
        symlink("127.0.1.1:+\(getpid())", folder.file("lock"))
        #expect(BrowserLeftovers.removeStaleLocks(of: words) == [])
        #expect(lstat(folder.file("lock"), &facts) == 0)
    }

    @Test func `ends a browser without its serve, with all that it started`() throws {
        let folder = try TemporaryFolder()
        let stores = ["store", "other"].map { name in
            #expect(mkdir(folder.file(name), 0o700) == 0)
            return folder.file(name)
        }
        func start(_ store: String) throws -> Program {
            let script = "exec setsid -w sh -c 'echo started; sleep 1000 & sleep 1000' 3<\(store)"
            return try Program(["sh", "-c", script], environment: ["PATH": "/usr/bin:/bin"])
        }
        let (program, other) = (try start(stores[0]), try start(stores[1]))
        for program in [program, other] {
            while try program.printed().output.isEmpty { poll(nil, 0, 10) }
        }
        #expect(BrowserLeftovers.endOrphans(of: stores[0]) == 1)
        #expect(try program.wait(within: .seconds(60)) != nil)
        #expect(BrowserLeftovers.endOrphans(of: stores[1]) == 1)
        #expect(try other.wait(within: .seconds(60)) != nil)
        #expect(BrowserLeftovers.endOrphans(of: stores[0]) == 0)
    }
}
