import BundleValues

/// Whether the page in front of people still lives: a value. It is silent until a page of ours says its first word.
struct PageWatch {
    /// Whoever goes elsewhere, such as to log in, may be away for so many times as long.
    private static let timesAway = 10
    /// A page that is told to load itself again needs no longer to begin.
    private static let longestReload = Duration.seconds(20)
    /// A page that must not be seen any longer.
    private static let longestReplacement = Duration.seconds(2)

    private let patience: Duration
    /// The page that spoke last; nil where one is being loaded.
    private var page: String?
    /// The page that left last.
    private var gone: String?
    private var hasSpoken = false
    /// Whether somebody was told that it is lost, and may be starting a browser.
    private var isLost = false
    /// When it has to have spoken again; nil where nothing is expected.
    private var deadline: Duration?
    private var reason = ""

    /// A page may say nothing for `patience`.
    init(patience: Duration) { self.patience = patience }

    /// A page speaks; of one that nobody sees nothing more is expected.
    mutating func speaks(_ name: String, isSeen: Bool, at now: Duration) {
        // One on its way out says so late, and one in the back is not the one in front.
        if !isSeen && (name == gone || (page ?? name) != name) { return }
        (page, gone, hasSpoken, isLost) = (name, nil, true, false)
        wait(isSeen ? now : nil, patience, "it has said nothing for \(DurationText(patience))")
    }

    /// A page leaves, for `place` where that is not one of ours, and another one is to follow.
    mutating func leaves(_ name: String, for place: String, at now: Duration) {
        guard isInFront(name) else { return }
        gone = name
        let time = place.isEmpty ? patience : patience * Self.timesAway
        let aim = place.isEmpty ? "" : " for \(UntrustedName.display(place))"
        wait(now, time, "it left\(aim), and no page of this device followed within \(DurationText(time))")
    }

    /// Somebody loads a page of ours.
    mutating func loads(at now: Duration) {
        guard hasSpoken || isLost else { return }
        (page, isLost) = (nil, false)
        wait(now, patience, "it was loaded, and has said nothing for \(DurationText(patience))")
    }

    /// The page in front is to load itself again; in the back it does so when somebody looks.
    mutating func isSentAway(at now: Duration) {
        guard !isLost, page == nil || deadline != nil else { return }
        let time = min(patience, Self.longestReload)
        wait(now, time, "it did not load itself again within \(DurationText(time))")
    }

    /// The page in front is none of the next user: a browser has to load another one at once, wherever it is.
    mutating func isReplaced(at now: Duration) {
        guard hasSpoken, !isLost else { return }
        page = nil
        wait(
            now, Self.longestReplacement,
            "it is still there \(DurationText(Self.longestReplacement)) after it was to go")
    }

    /// Why the page is lost by now, once.
    mutating func loss(at now: Duration) -> String? {
        guard let deadline, now >= deadline else { return nil }
        (self.deadline, page, isLost) = (nil, nil, true)
        return reason
    }

    private func isInFront(_ name: String) -> Bool { page == nil || page == name && deadline != nil }

    private mutating func wait(_ now: Duration?, _ time: Duration, _ reason: String) {
        deadline = now.map { $0 + time }
        self.reason = reason
    }
}
