import CSQLite

/// A failure of libsqlite3.
struct SQLiteFailure: Error, CustomStringConvertible {
    /// The primary result code; -1 if the system does not have libsqlite3.
    let code: Int32
    let description: String
}

/// A connection to an SQLite database.
///
/// Unchecked Sendable: the connection is opened with SQLite's own lock around each call. Statements are used by one thread at a time.
final class SQLite: @unchecked Sendable {
    private let handle: OpaquePointer

    /// Opens the database at `path`, and creates it unless `isReadOnly`. A lock of another process is waited for.
    init(_ path: String, isReadOnly: Bool = false) throws(SQLiteFailure) {
        guard csqlite_load() == 0 else {
            throw SQLiteFailure(
                code: -1,
                description: "this system has no libsqlite3.so.0: install libsqlite3-0 (Debian) or sqlite-libs")
        }
        let access = isReadOnly ? csqlite_open_readonly : csqlite_open_readwrite | csqlite_open_create
        var opened: OpaquePointer?
        let code = csqlite_open(path, &opened, Int32(access | csqlite_open_fullmutex))
        guard code == csqlite_ok, let opened else {
            let failure = SQLiteFailure(code: code, description: opened.map(Self.message) ?? "no memory is left")
            if let opened { _ = csqlite_close(opened) }
            throw failure
        }
        handle = opened
        _ = csqlite_busy_timeout(opened, 5000)
    }

    deinit { _ = csqlite_close(handle) }

    private static func message(_ handle: OpaquePointer) -> String { String(cString: csqlite_errmsg(handle)) }

    private func check(_ code: Int32) throws(SQLiteFailure) {
        if code != csqlite_ok { throw SQLiteFailure(code: code & 0xFF, description: Self.message(handle)) }
    }

    /// Runs statements without values and results.
    func run(_ sql: String) throws(SQLiteFailure) { try check(csqlite_exec(handle, sql)) }

    func prepare(_ sql: String) throws(SQLiteFailure) -> Statement {
        var statement: OpaquePointer?
        try check(csqlite_prepare(handle, sql, &statement))
        guard let statement else { throw SQLiteFailure(code: 1, description: "the statement is empty") }
        return Statement(self, statement)
    }

    /// Runs a statement and calls `body` with each row.
    func query(_ sql: String, _ values: [SQLValue], _ body: (borrowing SQLRow) -> Void) throws(SQLiteFailure) {
        try prepare(sql).run(values, body)
    }

    /// A value to bind.
    enum SQLValue: Sendable {
        case text(String)
        case number(Int)
        case bytes([UInt8])
        case null

        static func text(orNull text: String?) -> SQLValue { text.map(SQLValue.text) ?? .null }
        static func number(orNull number: Int?) -> SQLValue { number.map(SQLValue.number) ?? .null }
    }

    /// One row of a result, which is valid until the next step.
    struct SQLRow: ~Copyable {
        fileprivate let statement: OpaquePointer

        func number(_ column: Int) -> Int { Int(csqlite_column_int64(statement, Int32(column))) }

        func optionalNumber(_ column: Int) -> Int? {
            csqlite_column_type(statement, Int32(column)) == csqlite_type_null ? nil : number(column)
        }

        func optionalText(_ column: Int) -> String? {
            guard let bytes = csqlite_column_text(statement, Int32(column)) else { return nil }
            let count = Int(csqlite_column_bytes(statement, Int32(column)))
            return String(decoding: UnsafeBufferPointer(start: bytes, count: count), as: UTF8.self)
        }

        func text(_ column: Int) -> String { optionalText(column) ?? "" }

        func bytes(_ column: Int) -> [UInt8] {
            guard let start = csqlite_column_blob(statement, Int32(column)) else { return [] }
            return Array(
                UnsafeRawBufferPointer(start: start, count: Int(csqlite_column_bytes(statement, Int32(column)))))
        }
    }

    /// A prepared statement.
    final class Statement {
        private let connection: SQLite
        private let handle: OpaquePointer

        fileprivate init(_ connection: SQLite, _ handle: OpaquePointer) {
            (self.connection, self.handle) = (connection, handle)
        }

        deinit { _ = csqlite_finalize(handle) }

        /// Binds `values` in order, runs the statement, and calls `body` with each row.
        func run(_ values: [SQLValue], _ body: (borrowing SQLRow) -> Void = { _ in }) throws(SQLiteFailure) {
            defer { _ = csqlite_reset(handle) }
            for (index, value) in values.enumerated() { try connection.check(bind(value, Int32(index + 1))) }
            while true {
                let code = csqlite_step(handle)
                if code == csqlite_done { return }
                if code != csqlite_row { try connection.check(code) }
                body(SQLRow(statement: handle))
            }
        }

        private func bind(_ value: SQLValue, _ index: Int32) -> Int32 {
            switch value {
            case .text(var text):
                text.withUTF8 { utf8 in
                    utf8.withMemoryRebound(to: CChar.self) {
                        csqlite_bind_text(
                            handle, index, $0.baseAddress ?? UnsafePointer(bitPattern: 1), Int32($0.count))
                    }
                }
            case .bytes(let bytes):
                bytes.withUnsafeBytes { csqlite_bind_blob(handle, index, $0.baseAddress, Int32($0.count)) }
            case .number(let number): csqlite_bind_int64(handle, index, Int64(number))
            case .null: csqlite_bind_null(handle, index)
            }
        }
    }
}
