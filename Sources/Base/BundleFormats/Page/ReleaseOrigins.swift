package import BundleValues

/// The origins that a release declares in the head of its `index.html`, such as
/// `<meta name="clientctl:connect" content="https://api.example.com">`.
package struct ReleaseOrigins: Sendable, Equatable {
    /// What pages do with an origin.
    package enum Purpose: String, Sendable, CaseIterable {
        case connect, frame, image, media

        /// The directive of the Content Security Policy that applies.
        package var directive: String {
            switch self {
            case .connect: "connect-src"
            case .frame: "frame-src"
            case .image: "img-src"
            case .media: "media-src"
            }
        }

        /// Returns the purpose to which `directive` applies; nil if a release cannot declare any.
        package init?(directive: String) {
            guard let purpose = Self.allCases.first(where: { $0.directive == directive }) else { return nil }
            self = purpose
        }

        /// Returns the element that declares `origins`.
        package func element(_ origins: [String]) -> String {
            "<meta name=\"\(ReleaseOrigins.prefix)\(rawValue)\" content=\"\(origins.joined(separator: " "))\">"
        }
    }

    /// A part of a declaration that devices ignore and `publish` refuses.
    package struct Fault: Sendable, Equatable, CustomStringConvertible {
        package enum Reason: Sendable, Equatable {
            case refused(OriginRefusal)
            /// The purpose has `most` origins already.
            case tooMany
            case unknownName
        }

        /// The name of the element, such as `clientctl:connect`.
        package let name: String
        /// The text of the origin; empty if the name is unknown.
        package let value: String
        package let reason: Reason

        /// The fault, and a correct element.
        package var description: String {
            let shown = UntrustedName.display(value)
            let name = UntrustedName.display(name)
            let purpose = Purpose(rawValue: String(self.name.dropFirst(ReleaseOrigins.prefix.count))) ?? .connect
            return switch reason {
            case .refused(let refusal):
                "\(name) names \(shown), which \(refusal). Write an origin: \(purpose.element([corrected ?? example]))"
            case .tooMany:
                "\(name) names \(shown) after \(ReleaseOrigins.most) others. Name \(ReleaseOrigins.most) at most."
            case .unknownName:
                "\(name) declares nothing. Use clientctl:connect, clientctl:frame, clientctl:image or clientctl:media."
            }
        }

        private var example: String { "https://api.example.com" }

        /// The origin of a value that has too much; nil if there is none.
        private var corrected: String? {
            guard case .refused(.path) = reason, let mark = value.firstRange(of: "://") else { return nil }
            let end = value[mark.upperBound...].firstIndex { "/?#\\".contains($0) } ?? value.endIndex
            return (try? WebOrigin(parsing: value[..<end]))?.description
        }
    }

    /// The largest number of origins of a purpose.
    package static let most = 16
    /// The start of the names of declarations.
    package static let prefix = "clientctl:"

    /// The valid origins of each purpose, in order and without repetitions.
    package private(set) var origins: [Purpose: [WebOrigin]] = [:]
    package private(set) var faults: [Fault] = []
    /// The number of elements in the head that declare something, or seem to.
    package private(set) var elementCount = 0

    /// Creates an empty declaration.
    package init() {}

    /// Reads the declaration of `page`: from the head, as a browser builds it.
    package init(page: [UInt8]) {
        for meta in HTMLOutline(page).headMetas where meta.name.hasPrefix(Self.prefix) {
            elementCount += 1
            guard let purpose = Purpose(rawValue: String(meta.name.dropFirst(Self.prefix.count))) else {
                faults.append(Fault(name: meta.name, value: "", reason: .unknownName))
                continue
            }
            for word in meta.content.split(whereSeparator: HTMLTokenizer.isSpace) {
                add(String(decoding: word, as: UTF8.self), to: purpose, of: meta.name)
            }
        }
    }

    private mutating func add(_ text: String, to purpose: Purpose, of name: String) {
        do throws(OriginRefusal) {
            let origin = try WebOrigin(parsing: text)
            if purpose != .connect, origin.scheme.isWebSocket { throw .webSocket }
            if origins[purpose]?.contains(origin) == true { return }
            if origins[purpose, default: []].count < Self.most {
                origins[purpose, default: []].append(origin)
            } else {
                faults.append(Fault(name: name, value: text, reason: .tooMany))
            }
        } catch {
            faults.append(Fault(name: name, value: text, reason: .refused(error)))
        }
    }

    /// Returns whether pages may use the origin of `url` for what `directive` applies to.
    package func covers(_ url: String, as directive: String) -> Bool {
        guard let purpose = Purpose(directive: directive), let origin = Self.origin(of: url) else { return false }
        return origins[purpose]?.contains(origin) == true
    }

    /// Returns the origin of an absolute URL; nil if a release cannot declare it.
    package static func origin(of url: String) -> WebOrigin? {
        guard let mark = url.firstRange(of: "://") else { return nil }
        let end = url[mark.upperBound...].firstIndex { "/?#\\".contains($0) } ?? url.endIndex
        return try? WebOrigin(parsing: url[..<end])
    }

    /// The purposes with their origins, such as `connect https://api.example.com`.
    package var lines: [String] {
        Purpose.allCases.compactMap { purpose in
            origins[purpose].map { "\(purpose.rawValue) \($0.map(\.description).joined(separator: " "))" }
        }
    }

    /// The origins by purpose, without purposes that have none.
    package var json: JSONValue {
        var object: JSONObject = [:]
        for purpose in Purpose.allCases {
            if let origins = origins[purpose] {
                object[purpose.rawValue] = .array(origins.map { .string($0.description) })
            }
        }
        return .object(object)
    }
}

/// The origins that a device lets a release use.
package enum OriginBound: Sendable, Equatable {
    /// All declared origins.
    case all
    /// The declared origins that a pattern covers.
    case covered(by: [OriginPattern])
    /// None: the operator has turned declarations off.
    case none
    /// None: no key has signed the client.
    case unsigned

    package enum Verdict: Sendable, Equatable {
        case allowed
        /// No pattern covers the origin.
        case notCovered
        case turnedOff
        case unsigned
    }

    package func verdict(on origin: WebOrigin) -> Verdict {
        switch self {
        case .all: .allowed
        case .covered(let patterns): patterns.contains { $0.covers(origin) } ? .allowed : .notCovered
        case .none: .turnedOff
        case .unsigned: .unsigned
        }
    }
}

/// The result of a declaration on a device.
package struct GrantedOrigins: Sendable, Equatable {
    /// The sources that are added to each directive of the policy.
    package private(set) var sources: [String: [String]] = [:]
    /// What the device does not grant, a sentence without quotation marks for each purpose and fault.
    package private(set) var refusals: [String] = []

    /// Grants nothing.
    package init() {}

    /// Grants what `bound` allows of `declared`.
    package init(_ declared: ReleaseOrigins, within bound: OriginBound) {
        for purpose in ReleaseOrigins.Purpose.allCases {
            let judged = (declared.origins[purpose] ?? []).map {
                (text: $0.description, verdict: bound.verdict(on: $0))
            }
            let allowed = judged.filter { $0.verdict == .allowed }.map(\.text)
            if !allowed.isEmpty { sources[purpose.directive] = allowed }
            let refused = judged.filter { $0.verdict != .allowed }
            guard let first = refused.first else { continue }
            let names = refused.map(\.text).joined(separator: " ")
            let why =
                switch first.verdict {
                case .allowed, .notCovered: "no --csp-allow covers: --csp-allow '\(names)' would"
                case .turnedOff: "--csp-from-release no ignores"
                case .unsigned: "only a signed release may: --csp '\(purpose.directive) \(names)' would allow it"
                }
            refusals.append("index.html declares \(names) for \(purpose.directive), which \(why)")
        }
        if bound != .none, bound != .unsigned {
            refusals += declared.faults.map {
                "index.html has a declaration that is ignored: \($0.description.replacing("\"", with: "'"))"
            }
        }
    }
}
