import BundleFetch
import BundleValues
import BundleShell
import Testing

struct SessionRecordTests {
    private static let now = Timestamp(clamping: 1_800_000_000)

    private static func session(_ token: String = "s3cret") throws -> UserSession {
        UserSession(token: try AccessToken(tokenFile: Array(token.utf8)), since: now, expires: nil)
    }

    @Test func `a login requires a session, and a logout keeps the requirement`() throws {
        var record = SessionRecord.open
        #expect(!record.isRequired)
        record.signIn(try Self.session())
        #expect(record.isRequired)
        #expect(record.status(at: Self.now) == .authenticated)
        record.signOut(at: Self.now)
        #expect(record.isRequired)
        #expect(record.session == nil)
        #expect(record.status(at: Self.now) == .unauthenticated(.ended(.signedOut)))
        record.forget(at: Self.now)
        let endings = SessionEndings(count: 1, last: Self.now)
        #expect(record == SessionRecord(access: .open, lock: nil, endings: endings))
    }

    @Test func `counts each end of a session once`() throws {
        let end = Timestamp(clamping: Self.now.secondsSinceEpoch + 10)
        let late = Timestamp(clamping: Self.now.secondsSinceEpoch + 20)
        let session = UserSession(token: try Self.session().token, since: Self.now, expires: end)
        var record = SessionRecord.open
        record.signIn(session)
        record.signIn(session)
        #expect(record.endings(at: Self.now) == nil)
        // The session has expired and is not removed yet; its removal is the same end.
        let first = SessionEndings(count: 1, last: end)
        #expect(record.endings(at: late) == first)
        var replaced = record
        replaced.signIn(UserSession(token: session.token, since: late, expires: nil))
        #expect(replaced.endings(at: late) == first)
        record.end(session, SessionEnding(.expired, at: late))
        #expect(record.endings(at: late) == first)
        record.signOut(at: late)
        #expect(record.endings(at: late) == first)
        record.signIn(try Self.session())
        record.signOut(at: late)
        #expect(record.endings(at: late) == SessionEndings(count: 2, last: late))
        record.signIn(try Self.session())
        record.forget(at: late)
        record.forget(at: late)
        #expect(record.endings(at: late)?.count == 3)
    }

    @Test func `counts an uncounted end, and distinguishes a restarted count`() {
        let ended = SessionRecord(access: .ended(SessionEnding(.signedOut, at: Self.now)), lock: nil)
        #expect(ended.endings == SessionEndings(count: 1, last: Self.now))
        let later = SessionEndings(count: 1, last: Timestamp(clamping: Self.now.secondsSinceEpoch + 1))
        #expect(ended.endings?.name != later.name)
    }

    @Test func `renews a session before its end and after a rejection, and not after a logout`() throws {
        let lead = 60
        func wants(_ access: SessionRecord.Access) -> Bool {
            SessionRecord(access: access, lock: nil).wantsRenewal(at: Self.now, lead: lead)
        }
        #expect(!wants(.open))
        #expect(!wants(.session(try Self.session())))
        for (seconds, isDue) in [(61, false), (60, true), (-1, true)] {
            let end = Timestamp(clamping: Self.now.secondsSinceEpoch + seconds)
            let session = UserSession(token: try Self.session().token, since: Self.now, expires: end)
            #expect(wants(.session(session)) == isDue, "\(seconds)")
        }
        for (cause, isDue) in [(SessionEnding.EndingCause.rejected, true), (.expired, true), (.signedOut, false)] {
            #expect(wants(.ended(SessionEnding(cause, at: Self.now))) == isDue, "\(cause)")
        }
    }

    @Test func `a logout without a session changes nothing`() {
        var record = SessionRecord.open
        record.signOut(at: Self.now)
        #expect(record == .open)
        let ended = SessionRecord(access: .ended(SessionEnding(.rejected, at: Self.now)), lock: nil)
        record = ended
        record.signOut(at: Timestamp(clamping: 0))
        #expect(record == ended)
    }

    @Test func `a login does not unlock, and unlocking does not log in`() throws {
        var record = SessionRecord.open
        record.lock(.byOperator)
        record.signIn(try Self.session())
        #expect(record.status(at: Self.now) == .locked(.byOperator))
        record.signOut(at: Self.now)
        record.unlock()
        #expect(record.status(at: Self.now) == .unauthenticated(.ended(.signedOut)))
    }

    @Test func `unlocking a device without sessions requires none`() {
        var record = SessionRecord.open
        record.lock(.forMaintenance)
        #expect(record.status(at: Self.now) == .locked(.forMaintenance))
        record.unlock()
        #expect(record == .open)
    }

    @Test func `ending an old session keeps the session that replaced it`() throws {
        let old = try Self.session("old")
        let new = try Self.session("new")
        var record = SessionRecord(access: .session(new), lock: nil)
        record.end(old, SessionEnding(.rejected, at: Self.now))
        #expect(record.session == new)
        record.end(new, SessionEnding(.rejected, at: Self.now))
        #expect(record.access == .ended(SessionEnding(.rejected, at: Self.now)))
    }

    @Test func `printing and dumping a session does not reveal its token`() throws {
        let record = SessionRecord(access: .session(try Self.session()), lock: nil)
        var dumped = ""
        dump(record, to: &dumped)
        let token = try AccessToken(tokenFile: Array("s3cret".utf8))
        #expect(
            !"\(record) \(token) \(String(reflecting: record)) \(String(reflecting: token)) \(dumped)".contains(
                "s3cret"))
    }

    @Test(arguments: [
        ("", CredentialError.emptyToken), (" \r\n", .emptyToken), ("a b", .foreignCharacterInToken),
        ("a\r\nX: y", .foreignCharacterInToken), ("ä", .foreignCharacterInToken), ("a\u{0}", .foreignCharacterInToken),
        (String(repeating: "a", count: 8193), .tokenTooLong),
    ])
    func `rejects an invalid token without showing it`(text: String, error: CredentialError) {
        #expect(throws: error) { try AccessToken(tokenFile: Array(text.utf8)) }
    }

    @Test func `accepts the longest token without its line end`() throws {
        let text = String(repeating: "a", count: AccessToken.maximumBytes)
        #expect(try AccessToken(tokenFile: Array("\(text)\r\n".utf8)).secret == text)
        #expect(try AccessToken(tokenFile: Array(" abc.DEF-1~+/=\n".utf8)).secret == "abc.DEF-1~+/=")
    }
}
