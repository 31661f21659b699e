import BundleDisk
package import BundleFetch
import BundleValues

/// The keys for an object store. Messages never contain them.
package enum BucketCredentials {
    private static let maximumBytes = 1 << 20

    /// The keys of a profile in the configuration file that other tools use too.
    package enum Configured {
        case keys(AccessKeys)
        /// The file names a program that prints the keys.
        case program(String)
        /// The profile signs in with `member`, which only other tools can do.
        case foreign(member: String, profile: String, path: String)

        /// Returns the keys. Runs the program that the file names.
        package func keys() throws -> AccessKeys {
            switch self {
            case .keys(let keys): return keys
            case .program(let line): return try BucketCredentials.command(line)
            case .foreign(let member, let profile, let path):
                throw UpdateFailure(
                    .configInvalid, subject: path,
                    "The profile \(UntrustedName.display(profile)) of \(path) signs in with \(member), which only AWS's tools can do. Give "
                        + "--credential-command \"aws configure export-credentials --profile \(UntrustedName.display(profile)) --format process\"."
                )
            }
        }
    }

    /// Returns the source of keys in `members`, the profile `profile` of the configuration file at `path`; nil if it has none.
    package static func configured(
        _ members: [String: String], profile: String, of path: String
    ) throws -> Configured? {
        if let member = foreign.first(where: { members[$0] != nil }) {
            return .foreign(member: member, profile: profile, path: path)
        }
        if members["aws_access_key_id"] != nil {
            return .keys(try keys(members, profile: profile, of: path))
        }
        return members["credential_process"].map(Configured.program)
    }

    private static let foreign = [
        "role_arn", "sso_session", "sso_start_url", "web_identity_token_file", "login_session",
    ]

    private static func keys(_ members: [String: String], profile: String, of path: String) throws -> AccessKeys {
        try keys(
            of: "The profile \(UntrustedName.display(profile)) of \(path)", id: members["aws_access_key_id"],
            secret: members["aws_secret_access_key"], token: members["aws_session_token"])
    }

    /// Reads the profile `profile` of the shared credentials file at `path`, which other tools use too. Returns nil if the file does not
    /// have the profile and it is not required.
    package static func file(at path: String, profile: String, isRequired: Bool) throws -> AccessKeys? {
        let bytes = try EditedText.bytes(of: File.open(reading: path).readAll(maximumBytes: maximumBytes), in: path)
        let members = self.profile(profile, in: String(decoding: bytes, as: UTF8.self))
        if !isRequired, members?["aws_access_key_id"] == nil { return nil }
        guard let members else {
            throw UpdateFailure(
                .configInvalid, subject: path,
                "\(path) has no profile \(UntrustedName.display(profile)). Set AWS_PROFILE to one of its profiles.")
        }
        return try keys(members, profile: profile, of: path)
    }

    /// Returns the settings of `profile` in `text`, the content of the configuration file that other tools use too.
    /// Indented lines belong to the settings of another service and are ignored.
    package static func configuration(of profile: String, in text: String) -> [String: String] {
        let plain = text.split(whereSeparator: \.isNewline).filter { $0.first != " " && $0.first != "\t" }
        let section = profile == "default" ? profile : "profile \(profile)"
        return self.profile(section, in: plain.joined(separator: "\n")) ?? [:]
    }

    /// Returns the members of a section of an INI file; nil if it has no such section.
    static func profile(_ name: String, in text: String) -> [String: String]? {
        var found: [String: String]?
        var isHere = false
        for line in text.split(whereSeparator: \.isNewline) {
            let line = trimmed(line)
            if line.isEmpty || line.hasPrefix("#") || line.hasPrefix(";") { continue }
            if line.hasPrefix("["), line.hasSuffix("]") {
                isHere = trimmed(line.dropFirst().dropLast()) == name
                if isHere { found = found ?? [:] }
            } else if isHere, let equals = line.firstIndex(of: "=") {
                found?[trimmed(line[..<equals])] = trimmed(line[line.index(after: equals)...])
            }
        }
        return found
    }

    private static func trimmed(_ text: some StringProtocol) -> String {
        let bytes = text.utf8.drop { $0 == 0x20 || $0 == 0x09 }
        return String(decoding: bytes.reversed().drop { $0 == 0x20 || $0 == 0x09 }.reversed(), as: UTF8.self)
    }

    /// Runs a command that prints keys in the form of `credential_process`.
    package static func command(_ line: String) throws -> AccessKeys {
        let output = try SigningCommand(line, purpose: .credentials).output(for: [])
        guard let members = try? JSONScanner.parse(output, maximumBytes: maximumBytes).objectValue else {
            throw UpdateFailure(
                .configInvalid, subject: SigningCommand.Purpose.credentials.rawValue,
                "The credential command did not print a JSON object with AccessKeyId, SecretAccessKey and optionally SessionToken."
            )
        }
        return try keys(
            of: "The output of the credential command", id: members["AccessKeyId"]?.stringValue,
            secret: members["SecretAccessKey"]?.stringValue, token: members["SessionToken"]?.stringValue)
    }

    /// Returns keys from `source`, which messages name.
    package static func keys(of source: String, id: String?, secret: String?, token: String?) throws -> AccessKeys {
        let token = token.flatMap { $0.isEmpty ? nil : $0 }
        if let id, let secret, let keys = AccessKeys(id: id, secret: secret, sessionToken: token) { return keys }
        throw UpdateFailure(
            .configInvalid, subject: "access key",
            "\(source) has no access key and secret of printable characters.")
    }
}
