import ArgumentParser
import BundleCore
import BundleFleet
import BundleValues

/// The flags of a roster to read.
struct RosterPlaceOptions: ParsableArguments {
    /// What commands that read a roster require; `release target` does not.
    static let required = [RequiredFlags.Need("roster <url|file>")]

    @Option(
        help: ArgumentHelp(
            "Roster: the address of a host, such as https://updates.example.com/roster, or the file of feed serve.",
            valueName: "url|file"), completion: .file())
    var roster: String?

    @Option(
        help: ArgumentHelp(
            "File or pipe with an operator's token, of --roster-token-file of the host.", valueName: "file"),
        completion: .file())
    var rosterTokenFile: String?

    /// Returns the access to the roster. Throws `MissingFlag` without `--roster`.
    func access(_ way: WayOptions) throws -> RosterAccess {
        let place = try FlagValue.required(roster, of: "roster")
        guard place.contains("://") else { return .file(try Wiring.absolute(place)) }
        let url = try FlagValue.url(place, of: "roster")
        if url.isFile { throw ValidationError("--roster takes an http or https address, or the path of a file.") }
        return .host(url, try Wiring.fetcher(way, token: rosterTokenFile, for: url))
    }

    /// Returns the groups that `words` name: devices of the roster by name or ID, and groups. Without `--roster`, returns `words`. Throws
    /// for a name that can also be a group: each sender of a message chooses its name, and could redirect the release.
    func groups(_ words: [String], way: WayOptions) async throws -> [String] {
        guard roster != nil else { return words }
        let (access, now) = (try access(way), Timestamp.now)
        var groups: [String] = []
        for word in words {
            do {
                let row = try await access.device(word, at: now)
                if RosterAccess.id(word) == nil, DeviceGroup.isNamedByReleases(word) {
                    throw ValidationError(
                        "\(word) can be a group, and a device of the roster has this name. Give \(row.target) for the device, or leave out "
                            + "--roster for the group.")
                }
                groups.append(row.target)
            } catch is UnknownDevice where DeviceGroup.isNamedByReleases(word) && !RosterPost.isDevice(word) {
                groups.append(word)
            }
        }
        return groups
    }
}

/// A roster does not have the device.
struct UnknownDevice: ClassifiedFailure {
    let failure: UpdateFailure
}

/// A roster on a host, or in a file on this machine.
enum RosterAccess {
    case file(String)
    case host(FetchURL, any Fetcher)

    private static let longestResponse = 16 << 20

    /// The devices that a filter selects, those first that need attention, and the inventory of the whole roster.
    struct List {
        var rows: [RosterRow]
        /// nil if a host of an earlier clientctl did not send it.
        var inventory: RosterInventory?
    }

    /// Returns the devices that `filter` selects. Without `expected`, a host uses its own list of expected devices.
    func list(
        _ filter: RosterFilter, expecting expected: ExpectedDevices? = nil, at now: Timestamp
    ) async throws -> List {
        var list = List(rows: [])
        switch self {
        case .file(let path):
            list.inventory = try RosterFile(path, isReadOnly: true)
                .inventory(expecting: expected, at: now, selecting: filter) { list.rows.append($0) }
            list.rows = list.rows.placed(at: now)
        case .host:
            list = try await rows(filter, at: now)
            guard let expected else { break }
            let all = try await filter == RosterFilter() ? list : rows(RosterFilter(), at: now)
            var inventory = RosterInventory(expecting: expected)
            for row in all.rows { inventory.add(row, at: now) }
            list.inventory = inventory
        }
        return list
    }

    /// Returns the inventory of the whole roster; nil if a host of an earlier clientctl did not send it.
    func inventory(at now: Timestamp) async throws -> RosterInventory? {
        switch self {
        case .file(let path): try RosterFile(path, isReadOnly: true).inventory(expecting: nil, at: now)
        case .host: try await part(RosterFilter(), at: now).list.inventory
        }
    }

    private func rows(_ filter: RosterFilter, at now: Timestamp) async throws -> List {
        var (filter, list) = (filter, List(rows: []))
        while true {
            let (part, after) = try await part(filter, at: now)
            list.rows += part.rows
            list.inventory = list.inventory ?? part.inventory
            guard let after else { break }
            filter.after = after
        }
        list.rows = list.rows.placed(at: now)
        return list
    }

    private func part(_ filter: RosterFilter, at now: Timestamp) async throws -> (list: List, after: String?) {
        switch self {
        case .file(let path):
            let rows = try RosterFile(path, isReadOnly: true).rows(filter, at: now).rows
            return (List(rows: rows), rows.count == RosterFile.pageSize ? rows.last?.post.device : nil)
        case .host(let url, let fetcher):
            let address = try FetchURL(parsing: "\(url).json?\(filter.query)")
            let bytes = try await fetcher.fetchBytes(address, maximumBytes: Self.longestResponse)
            do {
                let reader = try MemberReader(
                    try JSONScanner.parse(bytes, maximumBytes: Self.longestResponse), of: "roster")
                let rows = try (reader.object["devices"]?.arrayValue ?? []).map { try RosterRow($0) }
                let after = try reader.optionalString("after")
                // A host that repeats a device would never end.
                if let after, after <= filter.after ?? "" { throw reader.refusal("after", "does not increase") }
                let inventory = try reader.optionalObject("inventory").map { try RosterInventory($0) }
                return (List(rows: rows, inventory: inventory), after)
            } catch {
                throw UpdateFailure(
                    .manifestMalformed, subject: url.display,
                    "\(address.display) is not a roster: \(error). Give the address of the page without .json.")
            }
        }
    }

    /// Returns the ID in an argument such as `device:1f0a2b3c4d5e6f70`, with or without its prefix; nil for a name.
    static func id(_ text: String) -> String? {
        let id = text.dropping(prefix: "device:") ?? text
        return RosterPost.isDevice(id) ? id : nil
    }

    /// Returns the device with this ID or name. An argument in the form of an ID is never a name. Throws `UpdateFailure` with `usage` if there
    /// is none, or several with the name.
    func device(_ name: String, at now: Timestamp) async throws -> RosterRow {
        var filter = RosterFilter()
        filter.name = name
        let id = Self.id(name)
        let found = try await rows(filter, at: now).rows
        let exact = found.filter { row in id.map { row.post.device == $0 } ?? (row.post.name == name) }
        let shown = UntrustedName.display(name)
        if let row = exact.first, exact.count == 1 { return row }
        if exact.isEmpty {
            let near = found.prefix(5).map { UntrustedName.display($0.post.name) }.joined(separator: ", ")
            throw UnknownDevice(
                failure: UpdateFailure(
                    .usage, subject: shown,
                    "The roster has no device with the name or ID \(shown)."
                        + (near.isEmpty ? " `clientctl fleet list` shows all names." : " Similar names: \(near).")))
        }
        let ids = exact.prefix(5).map(\.target).joined(separator: ", ")
        throw UpdateFailure(
            .usage, subject: shown,
            "\(counted(exact.count, "device")) have the name \(shown). Give an ID instead: \(ids).")
    }

    /// Returns a picture of the device's screen; nil if the roster has none of this kind.
    func picture(of device: String, _ kind: PicturePost.Kind) async throws -> ScreenPicture? {
        switch self {
        case .file(let path): return try RosterFile(path, isReadOnly: true).picture(of: device, kind)
        case .host(let url, let fetcher):
            let address = try FetchURL(parsing: "\(url)/\(kind.path(of: device))")
            do {
                return ScreenPicture(try await fetcher.fetchBytes(address, maximumBytes: ScreenPicture.maximumBytes))
            } catch FetchError.httpStatus(404, _, _) {
                return nil
            }
        }
    }

    /// Removes a device with its pinned key, or pins `key` instead.
    func forget(_ row: RosterRow, pinning key: String?) async throws {
        switch self {
        case .file(let path):
            let file = try RosterFile(path)
            _ = try key.map { try file.pin($0, for: row.post.device) } ?? file.forget(row.post.device)
        case .host(let url, let fetcher):
            var request: JSONObject = ["forget": .string(row.post.device)]
            request["key"] = key.map(JSONValue.string)
            let body = JSONWriter.bytes(of: .object(request))
            try await fetcher.post(
                FetchRequest.Upload(type: "application/json", bytes: body), to: try FetchURL(parsing: "\(url).json"))
        }
    }
}
