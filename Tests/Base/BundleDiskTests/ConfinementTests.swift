import BundleTesting
import BundleValues
import Glibc
import Synchronization
import Testing

@testable import BundleDisk

private let offered = if case .offered = Confinement.support { true } else { false }

@Suite("Confinement") struct ConfinementTests {
    @Test(
        arguments: [
            (1, "too old"), (0, "too old"), (-ENOSYS, "has no Landlock"), (-EOPNOTSUPP, "disabled"),
            (-EPERM, "Operation not permitted"),
        ] as [(Int32, String)])
    func `reports why the kernel does not support Landlock`(answer: Int32, reason: String) {
        guard case .missing(let said) = Confinement.support(answer: answer) else {
            Issue.record("\(answer) is taken for a version")
            return
        }
        #expect(said.contains(reason))
    }

    @Test func `requires Landlock version 2`() {
        #expect(Confinement.support(answer: 2) == .offered(version: 2))
        #expect(Confinement.support(answer: 7) == .offered(version: 7))
    }

    /// Returns the results of calls on a thread that confined itself, and on a thread that it started: 0 or an error
    /// number.
    private func confined(_ confinement: Confinement, _ body: @escaping @Sendable () -> [Int32]) throws -> [[Int32]] {
        let results = Mutex<[[Int32]]>([])
        try BlockingThread {
            do {
                try confinement.enforce()
                results.withLock { $0.append(body()) }
                try BlockingThread { results.withLock { $0.append(body()) } }.join()
            } catch {
                Issue.record(error)
            }
        }.join()
        return results.withLock { $0 }
    }

    @Test(.enabled(if: offered, "this kernel has no Landlock")) func `allows only reading outside the given folders`()
        throws
    {
        let folder = try TemporaryFolder()
        let inside = try folder.makeFolder("inside/below")
        let outside = try folder.write([1], to: "outside")
        let answers = try confined(Confinement(folders: [folder.file("inside")])) {
            func outcome(_ result: Int32) -> Int32 {
                if result < 0 { return errno }
                close(result)
                return 0
            }
            var process = pid_t()
            var words: [UnsafeMutablePointer<CChar>?] = [strdup("true"), nil]
            defer { free(words[0]) }
            return [
                outcome(open("\(inside)/made", O_WRONLY | O_CREAT, 0o600)), outcome(open(outside, O_RDONLY)),
                outcome(open("/dev/null", O_WRONLY)),
                rename("\(inside)/made", "\(inside)/../moved"), unlink("\(inside)/../moved"),
                outcome(open(outside, O_WRONLY)), outcome(open(outside + ".made", O_WRONLY | O_CREAT, 0o600)),
                truncate(outside, 0) < 0 ? errno : 0, unlink(outside) < 0 ? errno : 0,
                mkdir(outside + ".folder", 0o700) < 0 ? errno : 0,
                symlink("x", "\(inside)/link") < 0 ? errno : 0, mkfifo("\(inside)/pipe", 0o600) < 0 ? errno : 0,
                posix_spawn(&process, "/bin/true", nil, nil, &words, nil),
            ]
        }
        // The kernel returns EACCES (13) for refused calls. The second thread finds the files of the first.
        let wanted = [0, 0, 0, 0, 0, EACCES, EACCES, EACCES, EACCES, EACCES, EACCES, EACCES, EACCES]
        #expect(answers == [wanted, wanted])
        #expect(try contents(ofFile: outside) == [1])
    }

    @Test(.enabled(if: offered, "this kernel has no Landlock"))
    func `allows creating a folder that does not exist yet`()
        throws
    {
        let folder = try TemporaryFolder()
        let store = folder.file("state/kiosk/store/")
        let answers = try confined(Confinement(folders: [store])) {
            do {
                try Directory.createAll(store)
                try Directory.open(store).createFile("made", with: UnsafeRawBufferPointer(start: nil, count: 0))
                try Directory.open(store).removeFile("made")
                return [0]
            } catch {
                return [(error as? DiskError)?.code ?? -1]
            }
        }
        #expect(answers == [[0], [0]])
    }

    @Test(.enabled(if: offered, "this kernel has no Landlock"))
    func `keeps the parent of a created folder inaccessible and allows its removal`() throws {
        let folder = try TemporaryFolder()
        let store = folder.file("kiosk/store")
        let answers = try confined(Confinement(made: [store])) {
            [
                open("\(store)/../made", O_WRONLY | O_CREAT, 0o600) < 0 ? errno : 0, rmdir(store) < 0 ? errno : 0,
                mkdir(store, 0o700) < 0 ? errno : 0,
            ]
        }
        #expect(answers == [[EACCES, 0, EACCES], [ENOENT, ENOENT, EACCES]])
        #expect(access(folder.file("kiosk"), F_OK) == 0)
    }

    @Test(.enabled(if: offered, "this kernel has no Landlock"))
    func `starts programs outside the restriction on an earlier thread`()
        throws
    {
        try SpawnThread.start()
        let folder = try TemporaryFolder()
        let target = folder.file("made")
        let answers = try confined(Confinement(folders: [])) {
            (try? SpawnThread.run {
                var attributes = posix_spawnattr_t()
                var process = pid_t()
                var words: [UnsafeMutablePointer<CChar>?] = [strdup("touch"), strdup(target), nil]
                defer { for word in words { free(word) } }
                posix_spawnattr_init(&attributes)
                let code = posix_spawnp(&process, "touch", nil, &attributes, &words, environ)
                posix_spawnattr_destroy(&attributes)
                if code == 0 { waitpid(process, nil, 0) }
                return [code]
            }) ?? [-1]
        }
        #expect(answers == [[0], [0]])
        #expect(try contents(ofFile: target) == [])
    }
}
