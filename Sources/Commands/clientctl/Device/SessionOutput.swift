import BundleValues
import BundleShell

/// The output about a device's session. It never contains the token.
struct SessionOutput {
    private let record: SessionRecord
    let status: SessionStatus

    init(_ record: SessionRecord, at time: Timestamp) {
        self.record = record
        status = record.status(at: time)
    }

    /// Prints the outcome of a command and the session after it.
    func give(_ outcome: String, json: Bool, lines: [String]) {
        Output.give(json: json, afterChange: true, ["outcome": .string(outcome), "session": value], lines: lines)
    }

    /// The session in JSON. `state` is `none`, `active`, `signedOut`, `expired`, `locked` or `maintenance`. The other members also describe
    /// the session of a locked device.
    var value: JSONValue {
        var object: JSONObject = ["state": .string(state), "required": .bool(record.isRequired)]
        switch record.access {
        case .open: break
        case .session(let session):
            object["since"] = .string(session.since.description)
            object["expires"] = .string(orNull: session.expires?.description)
        case .ended(let ending):
            object["ended"] = .object([
                "cause": .string(ending.cause.rawValue), "at": .string(ending.at.description),
            ])
        }
        return .object(object)
    }

    private var state: String {
        switch status {
        case .notRequired: "none"
        case .authenticated: "active"
        case .locked(let lock): lock.rawValue
        case .unauthenticated(.ended(.signedOut)): "signedOut"
        case .unauthenticated: "expired"
        }
    }

    /// The lines for people; none if the device requires no session.
    var lines: [String] {
        switch status {
        case .notRequired: []
        case .authenticated:
            ["session: logged in" + (record.session?.expires.map { " until \($0)" } ?? "")]
        case .locked(.byOperator): ["session: the device is locked"]
        case .locked(.forMaintenance): ["session: the device is locked for maintenance"]
        case .unauthenticated(.ended(.signedOut)): ["session: logged out; guests see the seed"]
        case .unauthenticated(.ended(.rejected)):
            ["session: ended, because the feed rejected its token; guests see the seed. Log in again"]
        case .unauthenticated: ["session: expired; guests see the seed. Log in again"]
        }
    }
}
