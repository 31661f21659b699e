import BundleFetch
import BundleCore
import BundleValues
import BundleDisk
import BundleShell
import BundleTesting
import Glibc
import Testing

/// Runs the contract with the file and with its in-memory replacement.
struct SessionRepositoryContractTests {
    enum Kind: CaseIterable { case file, memory }

    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    private func repository(_ kind: Kind) -> any SessionRepository {
        switch kind {
        case .file: FileSessionRepository(store: folder.file("store"))
        case .memory: InMemorySessionRepository()
        }
    }

    private static func session(_ token: String, expires: Timestamp? = nil) throws -> UserSession {
        UserSession(
            token: try AccessToken(tokenFile: Array(token.utf8)), since: Timestamp(clamping: 1_800_000_000),
            expires: expires)
    }

    @Test(arguments: Kind.allCases) func `returns an open record before any change`(kind: Kind) async throws {
        #expect(try await repository(kind).record() == .open)
    }

    @Test(arguments: Kind.allCases) func `stores every record`(kind: Kind) async throws {
        let repository = repository(kind)
        let moment = Timestamp(clamping: 1_900_000_000)
        var accesses: [SessionRecord.Access] = [
            .open, .session(try Self.session("a.b-c~d+e/f=")), .session(try Self.session("x", expires: moment)),
        ]
        accesses += SessionEnding.EndingCause.allCases.map { .ended(SessionEnding($0, at: moment)) }
        for access in accesses {
            for lock in [nil] + SessionLock.allCases.map(Optional.init) {
                let record = SessionRecord(access: access, lock: lock)
                #expect(try await repository.change { $0 = record } == record)
                #expect(try await repository.record() == record)
            }
        }
    }

    @Test(arguments: Kind.allCases) func `applies concurrent changes`(kind: Kind) async throws {
        let repository = repository(kind)
        try await repository.change { $0.lock(.byOperator) }
        let session = try Self.session("t")
        await withTaskGroup { group in
            group.addTask { _ = try? await repository.change { $0.signIn(session) } }
            group.addTask { _ = try? await repository.change { $0.unlock() } }
        }
        #expect(try await repository.record() == SessionRecord(access: .session(session), lock: nil))
    }
}

struct FileSessionRepositoryTests {
    private let folder: TemporaryFolder
    private let store: String
    private let repository: FileSessionRepository

    init() throws {
        folder = try TemporaryFolder()
        store = folder.file("store")
        repository = FileSessionRepository(store: store)
    }

    private var file: String { "\(store)/session.json" }

    private func signIn() throws {
        let session = UserSession(
            token: try AccessToken(tokenFile: Array("s3cret".utf8)), since: Timestamp(clamping: 1_800_000_000),
            expires: nil)
        try repository.change { $0.signIn(session) }
    }

    private func write(_ text: String) throws {
        try Directory.createAll(store, mode: 0o700)
        unlink(file)
        try File.write(Array(text.utf8), to: file, mode: 0o600)
    }

    private func refused(_ code: FailureCode, sourceLocation: SourceLocation = #_sourceLocation) {
        let failure = #expect(throws: UpdateFailure.self, sourceLocation: sourceLocation) {
            _ = try repository.record()
        }
        #expect(failure?.code == code, sourceLocation: sourceLocation)
        #expect(failure?.subject == file, sourceLocation: sourceLocation)
        #expect(failure?.message.contains("s3cret") == false, sourceLocation: sourceLocation)
        // A change fails too.
        #expect(throws: UpdateFailure.self, sourceLocation: sourceLocation) { try repository.change { $0.unlock() } }
    }

    @Test func `does not create files when it reads`() throws {
        _ = try repository.record()
        #expect(!File.exists(store))
    }

    @Test func `creates the file and store for their owner only`() throws {
        try signIn()
        #expect(try File.open(reading: file).permissions() == 0o600)
        #expect(try Directory.open(store).permissions().mode == 0o700)
        #expect(try TreeSnapshot(of: store).paths == ["session.json"])
    }

    @Test func `removes the file of an open device except the number of ended sessions`() throws {
        try repository.change { $0.lock(.byOperator) }
        try repository.change { $0.unlock() }
        #expect(try TreeSnapshot(of: store).paths == [])
        try signIn()
        let end = Timestamp(clamping: 1_800_000_100)
        try repository.change { $0.forget(at: end) }
        let endings = SessionEndings(count: 1, last: end)
        #expect(try repository.record() == SessionRecord(access: .open, lock: nil, endings: endings))
        #expect(try !String(decoding: contents(ofFile: file), as: UTF8.self).contains("s3cret"))
    }

    @Test(arguments: [0o604, 0o640, 0o602, 0o620, 0o610, 0o601, 0o777] as [mode_t])
    func `rejects a file that other users may access`(mode: mode_t) throws {
        try signIn()
        chmod(file, mode)
        refused(.permissionDenied)
        chmod(file, 0o400)
        #expect(try repository.record().isRequired)
    }

    @Test(.enabled(if: geteuid() == 0, "only root can give a file away"))
    func `rejects a file of another user`() throws {
        try signIn()
        #expect(chown(file, 65534, 65534) == 0)
        refused(.permissionDenied)
    }

    @Test(.enabled(if: geteuid() == 0, "only root can give a folder away"))
    func `rejects the store of another user`() throws {
        try signIn()
        #expect(chown(store, 65534, 65534) == 0)
        let failure = #expect(throws: UpdateFailure.self) { try repository.change { $0.lock(.byOperator) } }
        #expect(failure?.code == .permissionDenied)
        #expect(failure?.subject == store)
    }

    @Test(arguments: [0o702, 0o720, 0o777] as [mode_t])
    func `rejects a store that other users may write to`(mode: mode_t) throws {
        try signIn()
        chmod(store, mode)
        let failure = #expect(throws: UpdateFailure.self) { try repository.change { $0.lock(.byOperator) } }
        #expect(failure?.code == .permissionDenied)
        chmod(store, 0o755)
        #expect(try repository.change { $0.lock(.byOperator) }.lock == .byOperator)
    }

    @Test func `does not follow a symbolic link to the file`() throws {
        try signIn()
        #expect(rename(file, folder.file("elsewhere")) == 0)
        #expect(symlink(folder.file("elsewhere"), file) == 0)
        #expect(throws: DiskError.self) { _ = try repository.record() }
    }

    private static let session = #""session":{"token":"s3cret","since":"2026-11-21T21:09:38Z","expires":null}"#

    @Test(arguments: [
        "", "{", "[]", "null", #"{"schema":1"#, #"{"schema":2}"#, "{}", #"{"schema":1,"schema":1}"#,
        #"{"schema":1,"lock":"open"}"#, #"{"schema":1,"lock":true}"#, #"{"schema":1,"pin":"1234"}"#,
        #"{"schema":1,"session":{"token":"s3cret"}}"#, #"{"schema":1,"session":"s3cret"}"#,
        #"{"schema":1,"session":{"token":"s3cret","since":"yesterday"}}"#,
        #"{"schema":1,"session":{"token":"s3cret","since":"2026-11-21T21:09:38Z","expires":1}}"#,
        #"{"schema":1,"session":{"token":"s3cret x","since":"2026-11-21T21:09:38Z"}}"#,
        #"{"schema":1,"session":{"token":"s3cret\n","since":"2026-11-21T21:09:38Z"}}"#,
        #"{"schema":1,"session":{"token":"s3cret","since":"2026-11-21T21:09:38Z","user":"x"}}"#,
        #"{"schema":1,"ended":{"cause":"dismissed","at":"2026-11-21T21:09:38Z"}}"#,
        #"{"schema":1,"ended":{"cause":"expired"}}"#,
        #"{"schema":1,"# + session + #","ended":{"cause":"expired","at":"2026-11-21T21:09:38Z"}}"#,
        #"{"schema":1,"# + session + "} x",
    ])
    func `rejects an invalid file without printing its token`(text: String) throws {
        try write(text)
        refused(.storeDamaged)
        // `changeEvenDamaged` replaces the file, and the device stays closed.
        let record = try repository.changeEvenDamaged { $0.lock(.byOperator) }
        #expect(record.lock == .byOperator)
        #expect(record.isRequired)
        #expect(try repository.record() == record)
    }

    @Test func `reads a valid file`() throws {
        try write(#"{"schema":1,"lock":"maintenance","# + Self.session + "}")
        let record = try repository.record()
        #expect(record.session?.token.secret == "s3cret")
        #expect(record.session?.since.description == "2026-11-21T21:09:38Z")
        #expect(record.lock == .forMaintenance)
    }

    @Test func `rejects a file that is too long`() throws {
        try write(#"{"schema":1}"# + String(repeating: " ", count: 40 << 10))
        #expect(throws: DiskError.self) { _ = try repository.record() }
    }

    @Test func `replaces an incomplete file of an interrupted write`() throws {
        try signIn()
        try File.write(Array("half".utf8), to: "\(file).new", mode: 0o600)
        try repository.change { $0.lock(.byOperator) }
        #expect(try TreeSnapshot(of: store).paths == ["session.json"])
        #expect(try repository.record().lock == .byOperator)
    }
}
