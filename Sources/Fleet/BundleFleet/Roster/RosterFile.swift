package import BundleValues

/// The database of a roster. Its tables are documented, so that operators can query it with `sqlite3`.
package struct RosterFile: Sendable {
    private static let schemaVersion = 1
    /// The number of rows in one response.
    package static let pageSize = 1000

    let database: SQLite
    private let path: String
    /// Whether the file has the table of pictures, which an earlier clientctl did not create.
    let hasPictures: Bool
    private let hasReleases: Bool
    /// The columns of a row. A file that is only read may lack those that an earlier clientctl did not create.
    private let selection: String

    /// Opens the roster at `path`, and creates it unless it is `isReadOnly`. Throws `UpdateFailure` with `configInvalid` if the file is
    /// not a roster.
    package init(_ path: String, isReadOnly: Bool = false) throws {
        self.path = path
        do {
            database = try SQLite(path, isReadOnly: isReadOnly)
            let found = try Self.number("PRAGMA user_version", in: database)
            let tables = try Self.number("SELECT count(*) FROM sqlite_master WHERE type = 'table'", in: database)
            guard found == Self.schemaVersion || (found == 0 && tables == 0 && !isReadOnly) else {
                throw SQLiteFailure(code: 26, description: "it is not a roster of this version of clientctl")
            }
            if isReadOnly {
                hasPictures = try Self.hasTable("pictures", in: database)
                hasReleases = try Self.hasTable("releases", in: database)
                selection = try Self.selection(in: database)
                return
            }
            // A commit returns after the log is synced, so that a power failure loses nothing that was acknowledged.
            try database.run("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -4096;")
            if found == 0 { try database.run(Self.schema) }
            try Self.upgrade(database)
            (hasPictures, hasReleases) = (true, true)
            selection = try Self.selection(in: database)
        } catch let failure as SQLiteFailure {
            throw UpdateFailure(
                .configInvalid, subject: path,
                "The roster \(path) cannot be opened: \(failure). Name another file with --roster, or repair this one with sqlite3."
            )
        }
    }

    private static let schema = """
        BEGIN;
        CREATE TABLE devices (
          device TEXT PRIMARY KEY, name TEXT NOT NULL, appId TEXT, runs TEXT, state TEXT NOT NULL, next TEXT,
          waiting TEXT, screen TEXT, shell TEXT, channel TEXT, sequence INTEGER, checked INTEGER, code TEXT,
          blocked TEXT NOT NULL, findings TEXT NOT NULL, program TEXT NOT NULL, interval INTEGER NOT NULL,
          seen INTEGER NOT NULL, first INTEGER NOT NULL, since INTEGER NOT NULL,
          key TEXT NOT NULL, conflict INTEGER, conflicts INTEGER NOT NULL DEFAULT 0, refused TEXT, older INTEGER,
          began TEXT, groups TEXT, tags TEXT, failure TEXT
        ) WITHOUT ROWID;
        CREATE INDEX devices_seen ON devices (seen);
        PRAGMA user_version = \(schemaVersion);
        COMMIT;
        """

    /// The columns that clientctl 0.9.0 did not create, with their types.
    private static let added = [
        ("refused", "TEXT"), ("older", "INTEGER"), ("began", "TEXT"), ("groups", "TEXT"), ("tags", "TEXT"),
        ("failure", "TEXT"),
    ]
    private static let releases = "releases (channel TEXT PRIMARY KEY, newest TEXT NOT NULL, since INTEGER NOT NULL)"

    private static func has(_ column: String, in database: SQLite) throws(SQLiteFailure) -> Bool {
        try number(
            "SELECT count(*) FROM pragma_table_info('devices') WHERE name = ?", in: database, with: [.text(column)]) > 0
    }

    /// Adds what an earlier clientctl did not create.
    private static func upgrade(_ database: SQLite) throws(SQLiteFailure) {
        var statements = [
            "CREATE TABLE IF NOT EXISTS \(releases) WITHOUT ROWID", "CREATE TABLE IF NOT EXISTS \(picturesTable)",
        ]
        for (column, type) in added where try !has(column, in: database) {
            statements.append("ALTER TABLE devices ADD COLUMN \(column) \(type)")
        }
        try database.run("BEGIN IMMEDIATE; \(statements.joined(separator: "; ")); COMMIT;")
    }

    private static func hasTable(_ name: String, in database: SQLite) throws(SQLiteFailure) -> Bool {
        try number("SELECT count(*) FROM sqlite_master WHERE name = ?", in: database, with: [.text(name)]) > 0
    }

    private static func selection(in database: SQLite) throws(SQLiteFailure) -> String {
        var columns = [Self.columns, "key"]
        for (column, _) in added { columns.append(try has(column, in: database) ? column : "NULL") }
        let hasPictures = try hasTable("pictures", in: database)
        for kind in PicturePost.Kind.allCases {
            columns.append(
                hasPictures
                    ? "(SELECT p.seen FROM pictures p WHERE p.device = devices.device AND p.kind = '\(kind.rawValue)')"
                    : "NULL")
        }
        return columns.joined(separator: ", ")
    }

    private static let columns = """
        device, name, appId, runs, state, next, waiting, screen, shell, channel, sequence, checked, code, blocked, findings, \
        program, interval, seen, first, since, conflict, conflicts
        """

    private static func number(_ sql: String, in database: SQLite, with values: [SQLite.SQLValue] = [])
        throws(SQLiteFailure)
        -> Int
    {
        var number = 0
        try database.query(sql, values) { number = $0.number(0) }
        return number
    }

    // MARK: Writing

    /// A message whose signature is valid.
    struct Arrival: Sendable {
        let post: RosterPost
        /// The ID of the key that signed the message.
        let key: String
        let at: Timestamp
    }

    /// Stores messages in one transaction, durably, and returns the verdict on each. `count` is the number of devices.
    func store(_ arrivals: [Arrival], devices count: inout Int) throws(SQLiteFailure) -> [RosterRule.Verdict] {
        try database.run("BEGIN IMMEDIATE")
        do throws(SQLiteFailure) {
            var (verdicts, devices) = ([RosterRule.Verdict](), count)
            let known = try database.prepare("SELECT key, runs, since, checked, seen FROM devices WHERE device = ?")
            let insert = try database.prepare(
                "INSERT INTO devices (\(Self.columns), key, groups, tags, failure) VALUES (\(Self.marks(26)))")
            let update = try database.prepare(
                "UPDATE devices SET (\(Self.updated), groups, tags, failure) = (\(Self.marks(21))), older = NULL WHERE device = ?"
            )
            let refuse = try database.prepare(
                "UPDATE devices SET conflict = ?, conflicts = conflicts + 1, refused = ? WHERE device = ?")
            let pass = try database.prepare("UPDATE devices SET older = ? WHERE device = ?")
            for arrival in arrivals {
                let post = arrival.post
                var (last, runs, since) = (RosterRule.LastPost?.none, String?.none, 0)
                try known.run([.text(post.device)]) {
                    (runs, since) = ($0.optionalText(1), $0.number(2))
                    last = RosterRule.LastPost(
                        key: $0.text(0), checked: $0.optionalNumber(3).map { Timestamp(clamping: $0) },
                        seen: Timestamp(clamping: $0.number(4)))
                }
                let now = arrival.at.secondsSinceEpoch
                let verdict = RosterRule.verdict(on: post, by: arrival.key, after: last, devices: devices)
                switch verdict {
                case .new:
                    let host: [SQLite.SQLValue] = [.number(now), .number(now), .number(now), .null, .number(0)]
                    try insert.run(
                        [.text(post.device)] + Self.values(post) + host + [.text(arrival.key)] + Self.more(post))
                    devices += 1
                case .known:
                    let start = runs == post.runs ? since : now
                    try update.run(
                        Self.values(post) + [.number(now), .number(start)] + Self.more(post) + [.text(post.device)])
                case .impostor: try refuse.run([.number(now), .text(arrival.key), .text(post.device)])
                case .older: try pass.run([.number(now), .text(post.device)])
                case .full: break
                }
                if verdict != .full { try noteReasons(of: post.device, at: arrival.at) }
                verdicts.append(verdict)
            }
            try database.run("COMMIT")
            count = devices
            return verdicts
        } catch {
            try? database.run("ROLLBACK")
            throw error
        }
    }

    /// Records the time for each reason that the device did not have before.
    private func noteReasons(of device: String, at now: Timestamp) throws(SQLiteFailure) {
        var row: RosterRow?
        try database.query("SELECT \(selection) FROM devices WHERE device = ?", [.text(device)]) {
            row = Self.row($0, [:])
        }
        guard let row else { return }
        var began: [String: Timestamp] = [:]
        for reason in row.reasons(at: now) where reason.kind != .silent {
            began[reason.key] = row.began[reason.key] ?? now
        }
        if began == row.began { return }
        let words = began.sorted { $0.key < $1.key }.map { "\($0.key)@\($0.value.secondsSinceEpoch)" }
        try database.query(
            "UPDATE devices SET began = ? WHERE device = ?",
            [.text(orNull: words.isEmpty ? nil : words.joined(separator: " ")), .text(device)]
        ) { _ in }
    }

    /// Parses words of the form `key@seconds`, which `noteReasons` writes. Skips others.
    private static func began(_ text: String) -> [String: Timestamp] {
        var began: [String: Timestamp] = [:]
        for word in text.split(separator: " ") {
            guard let at = word.lastIndex(of: "@"), let seconds = Int(word[word.index(after: at)...]) else { continue }
            began[String(word[..<at])] = Timestamp(clamping: seconds)
        }
        return began
    }

    /// Records the newest release of each channel, and the time at which it became that. The channel of a feed without channels is
    /// empty.
    func note(_ newest: [String: SemanticVersion], at now: Timestamp) throws(SQLiteFailure) {
        var known: [String: String] = [:]
        try database.query("SELECT channel, newest FROM releases", []) { known[$0.text(0)] = $0.text(1) }
        for (channel, version) in newest where known[channel] != version.description {
            try database.query(
                "INSERT INTO releases VALUES (?1, ?2, ?3) ON CONFLICT (channel) DO UPDATE SET newest = ?2, since = ?3",
                [.text(channel), .text(version.description), .number(now.secondsSinceEpoch)]
            ) { _ in }
        }
        for channel in known.keys where newest[channel] == nil {
            try database.query("DELETE FROM releases WHERE channel = ?", [.text(channel)]) { _ in }
        }
    }

    /// The columns of a message after `device`, and those that each message changes.
    private static let updated = """
        name, appId, runs, state, next, waiting, screen, shell, channel, sequence, checked, code, blocked, findings, program, \
        interval, seen, since
        """

    private static func marks(_ count: Int) -> String {
        (0..<count).map { _ in "?" }.joined(separator: ", ")
    }

    private static func values(_ post: RosterPost) -> [SQLite.SQLValue] {
        [
            .text(post.name), .text(orNull: post.appId), .text(orNull: post.runs), .text(post.state.rawValue),
            .text(orNull: post.next), .text(orNull: post.waiting?.rawValue), .text(orNull: post.screen?.rawValue),
            .text(orNull: post.shell?.description), .text(orNull: post.channel), .number(orNull: post.sequence),
            .number(orNull: post.checked?.secondsSinceEpoch), .text(orNull: post.code),
            .text(post.blocked.joined(separator: " ")), .text(post.findings.joined(separator: " ")),
            .text(post.program), .number(post.interval),
        ]
    }

    /// The members that a message of clientctl 0.9.0 does not have.
    private static func more(_ post: RosterPost) -> [SQLite.SQLValue] {
        [
            .text(post.groups.joined(separator: " ")), .text(post.tags.joined(separator: " ")),
            .text(orNull: post.failure),
        ]
    }

    /// Removes devices without a message for 90 days.
    func forgetOld(at now: Timestamp) throws(SQLiteFailure) {
        try database.query(
            "DELETE FROM devices WHERE seen < ?",
            [.number(now.secondsSinceEpoch - RosterRule.forgottenAfter)]
        ) { _ in }
        try database.run("DELETE FROM pictures WHERE device NOT IN (SELECT device FROM devices)")
    }

    /// Removes a device, its pinned key and its pictures. Returns whether the roster had it.
    package func forget(_ device: String) throws -> Bool {
        try readable {
            let count = try Self.number(
                "SELECT count(*) FROM devices WHERE device = ?", in: database, with: [.text(device)])
            try database.query("DELETE FROM devices WHERE device = ?", [.text(device)]) { _ in }
            try database.query("DELETE FROM pictures WHERE device = ?", [.text(device)]) { _ in }
            return count > 0
        }
    }

    /// Whether `text` is the ID of a key.
    package static func isKey(_ text: String) -> Bool {
        text.utf8.count == 64 && text.utf8.allSatisfy { (48...57).contains($0) || (97...102).contains($0) }
    }

    /// Pins `key` for a device instead of its present key, and forgets the conflict. Returns whether the roster has the device.
    package func pin(_ key: String, for device: String) throws -> Bool {
        try readable {
            let count = try Self.number(
                "SELECT count(*) FROM devices WHERE device = ?", in: database, with: [.text(device)])
            // The pictures of another key may show another screen.
            try database.query(
                "DELETE FROM pictures WHERE device IN (SELECT device FROM devices WHERE device = ? AND key <> ?)",
                [.text(device), .text(key)]
            ) { _ in }
            // The time of another key's last check is no bound for this one.
            try database.query(
                """
                UPDATE devices SET checked = CASE WHEN key = ? THEN checked END, key = ?, conflict = NULL, conflicts = 0, \
                refused = NULL, older = NULL WHERE device = ?
                """, [.text(key), .text(key), .text(device)]
            ) { _ in }
            try noteReasons(of: device, at: .now)
            return count > 0
        }
    }

    func readable<Value>(_ work: () throws -> Value) throws -> Value {
        do {
            return try work()
        } catch let failure as SQLiteFailure {
            throw UpdateFailure(
                .internal, subject: path, "The roster \(path) cannot be used: \(failure). Check the disk and the file.")
        }
    }

    // MARK: Reading

    func count() throws(SQLiteFailure) -> Int { try Self.number("SELECT count(*) FROM devices", in: database) }

    /// Returns the devices that `filter` selects, by device, at most `limit`; and the number of all that it selects. The number is nil
    /// for a further part of a group.
    package func rows(
        _ filter: RosterFilter, at now: Timestamp, limit: Int = RosterFile.pageSize
    ) throws -> (rows: [RosterRow], total: Int?) {
        if filter.groups.isEmpty && filter.memberOf == nil {
            return try readable {
                let (which, values) = Self.condition(filter, at: now, after: nil)
                let total = try Self.number("SELECT count(*) FROM devices\(which)", in: database, with: values)
                return (try part(filter, at: now, after: filter.after, limit: limit), total)
            }
        }
        var (rows, total) = ([RosterRow](), 0)
        try each(filter, at: now) { row in
            total += 1
            if rows.count < limit { rows.append(row) }
            return filter.after == nil || rows.count < limit
        }
        return (rows, filter.after == nil ? total : nil)
    }

    /// Calls `body` with each device that `filter` selects, by device, until it returns false.
    package func each(_ filter: RosterFilter, at now: Timestamp, _ body: (RosterRow) -> Bool) throws {
        var after = filter.after
        while true {
            let rows = try readable { try part(filter, at: now, after: after, limit: Self.pageSize) }
            for row in rows where filter.includes(row, at: now) && !body(row) { return }
            guard rows.count == Self.pageSize, let last = rows.last else { return }
            after = last.post.device
        }
    }

    /// Returns the devices that `filter` selects in any group, by device, after `device`.
    private func part(
        _ filter: RosterFilter, at now: Timestamp, after device: String?, limit: Int
    ) throws(SQLiteFailure) -> [RosterRow] {
        let (which, values) = Self.condition(filter, at: now, after: device)
        let newest = try newest()
        var rows: [RosterRow] = []
        try database.query(
            "SELECT \(selection) FROM devices\(which) ORDER BY device LIMIT \(limit)", values
        ) { if let row = Self.row($0, newest) { rows.append(row) } }
        return rows
    }

    private static func condition(
        _ filter: RosterFilter, at now: Timestamp, after device: String?
    ) -> (which: String, values: [SQLite.SQLValue]) {
        var (conditions, values) = ([String](), [SQLite.SQLValue]())
        func require(_ condition: String, _ value: SQLite.SQLValue) {
            conditions.append(condition)
            values.append(value)
        }
        if let silent = filter.silent {
            require("seen < ?", .number(now.secondsSinceEpoch - Int(silent.components.seconds)))
        }
        if let version = filter.version { require("runs = ?", .text(version)) }
        if let state = filter.state { require("state = ?", .text(state)) }
        if let name = filter.name {
            conditions.append("(instr(lower(name), lower(?)) > 0 OR device = ?)")
            values += [.text(name), .text(name.dropping(prefix: "device:") ?? name)]
        }
        if let device { require("device > ?", .text(device)) }
        return (conditions.isEmpty ? "" : " WHERE " + conditions.joined(separator: " AND "), values)
    }

    /// Returns the device with this ID; nil if the roster does not have it.
    func row(of device: String) throws -> RosterRow? {
        var row: RosterRow?
        try readable {
            let newest = try newest()
            try database.query("SELECT \(selection) FROM devices WHERE device = ?", [.text(device)]) {
                row = Self.row($0, newest)
            }
        }
        return row
    }

    /// Returns the newest release of each channel.
    private func newest() throws(SQLiteFailure) -> [String: RosterRow.NewestRelease] {
        var newest: [String: RosterRow.NewestRelease] = [:]
        if !hasReleases { return newest }
        try database.query("SELECT channel, newest, since FROM releases", []) { row in
            guard let version = try? SemanticVersion(parsing: row.text(1)) else { return }
            newest[row.text(0)] = RosterRow.NewestRelease(version: version, since: Timestamp(clamping: row.number(2)))
        }
        return newest
    }

    /// Returns the row of the database as a value; nil for a row that another program wrote.
    private static func row(
        _ row: borrowing SQLite.SQLRow, _ newest: [String: RosterRow.NewestRelease]
    ) -> RosterRow? {
        guard let state = RosterPost.ClientState(rawValue: row.text(4)) else { return nil }
        let post = RosterPost(
            device: row.text(0), name: row.text(1), state: state, program: row.text(15), interval: row.number(16),
            appId: row.optionalText(2), runs: row.optionalText(3), next: row.optionalText(5),
            waiting: row.optionalText(6).flatMap(RosterPost.WaitReason.init),
            screen: row.optionalText(7).flatMap(RosterPost.ShownScreen.init),
            shell: row.optionalText(8).flatMap { try? SemanticVersion(parsing: $0) }, channel: row.optionalText(9),
            sequence: row.optionalNumber(10),
            checked: row.optionalNumber(11).map { Timestamp(clamping: $0) }, code: row.optionalText(12),
            blocked: row.text(13).split(separator: " ").map(String.init),
            findings: row.text(14).split(separator: " ").map(String.init),
            groups: row.text(26).split(separator: " ").map(String.init),
            tags: row.text(27).split(separator: " ").map(String.init), failure: row.optionalText(28))
        return RosterRow(
            post: post, seen: Timestamp(clamping: row.number(17)), first: Timestamp(clamping: row.number(18)),
            since: Timestamp(clamping: row.number(19)),
            conflict: row.optionalNumber(20).map { Timestamp(clamping: $0) }, conflicts: row.number(21),
            key: row.text(22), refusedKey: row.optionalText(23),
            older: row.optionalNumber(24).map { Timestamp(clamping: $0) },
            began: row.optionalText(25).map(began) ?? [:],
            newest: newest[post.channel ?? ""], pictured: row.optionalNumber(29).map { Timestamp(clamping: $0) },
            failurePictured: row.optionalNumber(30).map { Timestamp(clamping: $0) })
    }

    /// The numbers of devices by version and state, the largest first.
    struct Tally: Sendable, Equatable {
        let version: String
        let state: String
        let devices: Int
    }

    func tallies() throws -> [Tally] {
        var tallies: [Tally] = []
        try readable {
            try database.query(
                "SELECT ifnull(runs, ''), state, count(*) FROM devices GROUP BY 1, 2 ORDER BY 3 DESC, 1, 2", []
            ) { tallies.append(Tally(version: $0.text(0), state: $0.text(1), devices: $0.number(2))) }
        }
        return tallies
    }

    /// Returns the number of devices without a message for two of their intervals.
    func silent(at now: Timestamp) throws -> Int {
        try readable {
            try Self.number(
                "SELECT count(*) FROM devices WHERE seen + 2 * interval < ?", in: database,
                with: [.number(now.secondsSinceEpoch)]
            )
        }
    }

    /// Returns the number of devices without a message for `seconds`.
    func silent(for seconds: Int, at now: Timestamp) throws -> Int {
        try readable {
            try Self.number(
                "SELECT count(*) FROM devices WHERE seen < ?", in: database,
                with: [.number(now.secondsSinceEpoch - seconds)])
        }
    }

    /// Returns the number of devices for which another key signed a message.
    func conflicts() throws -> Int {
        try readable { try Self.number("SELECT count(*) FROM devices WHERE conflict IS NOT NULL", in: database) }
    }
}
