import BundleCore
import BundleServe

/// What pages get.
public enum Scene: Sendable, Equatable {
    /// The client that the shell chooses, with a notice above it.
    case client(UpdateNotice?)
    /// The seed; nothing else is found under any address.
    case guests
    /// A page of the shell's own, and no file of any client.
    case page(ShellPage)
}

/// A scene as it is played: with what its pages are made of and known by.
struct Stage: Sendable {
    let scene: Scene
    /// The page of the shell's own; nil where clients are shown.
    let closed: Page?
    /// What the host adds to a client's page.
    let notice: ServerConfiguration.Bridge?

    init(_ scene: Scene) throws {
        self.scene = scene
        switch scene {
        case .client(let notice):
            closed = nil
            self.notice = try notice?.script()
        case .guests:
            closed = nil
            notice = nil
        case .page(let page):
            closed = try Self.page(page)
            notice = nil
        }
    }

    /// A page of the shell's own, with a token that no other has.
    static func page(_ page: ShellPage) throws -> Page {
        let token = try LaunchToken.random().text
        return Page(
            id: String(try LaunchToken.random().text.prefix(32)), token: token, site: try Site(page: page.page()))
    }

    /// Whether pages of `other` may stay where this one follows: the same clients are shown.
    func follows(_ other: Stage) -> Bool {
        if case .client = scene, case .client = other.scene { return true }
        return false
    }
}
