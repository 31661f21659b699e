package import BundleValues

extension RosterFile {
    static let picturesTable = """
        pictures (device TEXT NOT NULL, kind TEXT NOT NULL, taken INTEGER NOT NULL, seen INTEGER NOT NULL, \
        bytes BLOB NOT NULL, PRIMARY KEY (device, kind))
        """

    /// The result of a picture.
    enum PictureVerdict {
        case taken
        /// The roster has no message of the device yet.
        case unknown
        /// Another key is pinned for the device.
        case impostor
        /// The picture is not newer than the last one of its kind.
        case older
    }

    /// Stores a picture that `key` signed instead of the last one of its kind, durably.
    func store(_ post: PicturePost, by key: String, at now: Timestamp) throws(SQLiteFailure) -> PictureVerdict {
        var pinned: String?
        try database.query("SELECT key FROM devices WHERE device = ?", [.text(post.device)]) { pinned = $0.text(0) }
        guard let pinned else { return .unknown }
        if pinned != key { return .impostor }
        let which: [SQLite.SQLValue] = [.text(post.device), .text(post.kind.rawValue)]
        var last: (taken: Int, seen: Int)?
        try database.query("SELECT taken, seen FROM pictures WHERE device = ? AND kind = ?", which) {
            last = ($0.number(0), $0.number(1))
        }
        // A device whose clock was ahead may return to the right time.
        if let last, post.taken.secondsSinceEpoch <= min(last.taken, last.seen + RosterRule.clockSkew) { return .older }
        try database.query(
            "INSERT OR REPLACE INTO pictures VALUES (?, ?, ?, ?, ?)",
            which + [
                .number(post.taken.secondsSinceEpoch), .number(now.secondsSinceEpoch), .bytes(post.picture.bytes),
            ]
        ) { _ in }
        return .taken
    }

    /// Returns the last picture of this kind; nil if the roster has none.
    package func picture(of device: String, _ kind: PicturePost.Kind) throws -> ScreenPicture? {
        guard hasPictures else { return nil }
        var bytes: [UInt8] = []
        try readable {
            try database.query(
                "SELECT bytes FROM pictures WHERE device = ? AND kind = ?", [.text(device), .text(kind.rawValue)]
            ) { bytes = $0.bytes(0) }
        }
        // Another program may have written the row.
        return ScreenPicture(bytes)
    }

    /// Removes all pictures.
    func forgetPictures() throws(SQLiteFailure) { try database.run("DELETE FROM pictures") }
}
