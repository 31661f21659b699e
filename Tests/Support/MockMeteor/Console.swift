import MeteorTesting

/// The commands of `MockMeteor serve` on its standard input.
struct Console {
    private let server: MeteorServer
    /// Whether no "quit" was read yet.
    private(set) var isWanted = true

    init(_ server: MeteorServer) { self.server = server }

    private static let help = """
        serve VERSION               serve another version from now on
        versions                    the versions, with a star at the one that is served
        fault KIND PATH [TIMES]     do something wrong at a path below /__cordova, * being every path; KIND is one of
                                    404 (any status), hangup, stall, cut, corrupt, html, garbage, empty, chunked,
                                    no-etag, wrong-etag, weak-etag, delay=MILLISECONDS, redirect=URL
        heal [PATH]                 no more faults
        log                         the requests since the last "serve", with how often each came
        quit                        stop
        """

    /// Executes a line. Returns false after "quit".
    mutating func obey(_ line: String) -> Bool {
        let words = line.split(separator: " ").map(String.init)
        switch (words.first, words.count) {
        case (nil, _): break
        case ("quit", 1): isWanted = false
        case ("help", 1): say(Self.help)
        case ("versions", 1):
            for version in server.versions { say(version == server.servedVersion ? "* \(version)" : "  \(version)") }
        case ("log", 1):
            for (target, count) in server.requests.multiset.sorted(by: { $0.key < $1.key }) {
                say("\(count) \(target)")
            }
        case ("serve", 2): serve(words[1])
        case ("fault", 3), ("fault", 4): fault(words)
        case ("heal", 1): server.heal()
        case ("heal", 2): server.heal(words[1])
        default: say("\"\(line)\" is no command; type \"help\".")
        }
        return isWanted
    }

    private func serve(_ version: String) {
        do {
            try server.serve(version: version)
            say("Serving \(version)")
        } catch {
            say("\(error)")
        }
    }

    private func fault(_ words: [String]) {
        guard let fault = Self.fault(words[1]) else {
            say("\"\(words[1])\" is no kind of fault; type \"help\".")
            return
        }
        guard words[2] == "*" || words[2].hasPrefix("/") else {
            say("The path \"\(words[2])\" must begin with a slash.")
            return
        }
        let times = words.count == 4 ? Int(words[3]) : nil
        guard words.count == 3 || times ?? 0 > 0 else {
            say("\"\(words[3])\" is no number of requests.")
            return
        }
        server.fault(words[2], fault, times: times)
        say("\(words[1]) at \(words[2])\(times.map { ", \($0) times" } ?? "")")
    }

    private static func fault(_ word: String) -> Fault? {
        let parts = word.split(separator: "=", maxSplits: 1).map(String.init)
        switch (parts.first, parts.count) {
        case ("hangup", 1): return .hangUp
        case ("stall", 1): return .stall(after: 1)
        case ("cut", 1): return .cut(after: 1)
        case ("corrupt", 1): return .corrupt(at: 0)
        case ("html", 1): return .captivePortal
        case ("garbage", 1): return .garbage
        case ("empty", 1): return .empty
        case ("chunked", 1): return .chunked
        case ("no-etag", 1): return .entityTag(nil)
        case ("wrong-etag", 1): return .entityTag("\"0000000000000000000000000000000000000000\"")
        case ("weak-etag", 1): return .weakTag
        case ("delay", 2): return Int32(parts[1]).map { .delay(milliseconds: max(0, $0)) }
        case ("redirect", 2): return .redirect(to: parts[1])
        default: return Int(word).flatMap { (100...599).contains($0) ? .status($0) : nil }
        }
    }
}
