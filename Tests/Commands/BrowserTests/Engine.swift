import BundleTesting
import Glibc
import Testing

/// A browser engine of a kiosk. Pages report to a server of the test, so no test drives the engine itself.
enum Engine: String, CaseIterable, CustomTestStringConvertible, Sendable {
    case chromium = "Chromium"
    case firefox = "Firefox"
    case webKit = "WebKitGTK"

    /// The installed engines.
    static let installed = allCases.filter(\.isInstalled)

    var testDescription: String { rawValue }

    private var isInstalled: Bool {
        switch self {
        case .chromium: Browser.isInstalled
        case .firefox: Self.isThere("firefox-esr")
        case .webKit: Self.isThere("surf") && Self.isThere("xvfb-run")
        }
    }

    private static func isThere(_ program: String) -> Bool {
        let path = getenv("PATH").map { String(cString: $0) } ?? "/usr/bin:/bin"
        return path.split(separator: ":").contains { access("\($0)/\(program)", X_OK) == 0 }
    }

    /// Returns the path of a program that starts the engine with the folder of the profile and the address as
    /// arguments. The browser writes all other files to `folder`.
    func program(in folder: TemporaryFolder) throws -> String {
        let settings = """
            export HOME='\(folder.path)' TMPDIR='\(folder.path)' LC_ALL=C.UTF-8 LIBGL_ALWAYS_SOFTWARE=1
            export DBUS_SESSION_BUS_ADDRESS=unix:path=/dev/null
            mkdir -p "$1"
            """
        let start: String
        switch self {
        case .chromium:
            let own = "--user-data-dir=\(folder.path)/profile"
            let words = try Browser.command(in: folder.path).map { $0 == own ? "--user-data-dir=\"$1\"" : "'\($0)'" }
            start = "exec \(words.joined(separator: " ")) --disable-popup-blocking \"$2\" $3"
        case .firefox:
            let preferences = [
                "dom.disable_open_during_load", "browser.shell.checkDefaultBrowser", "browser.aboutwelcome.enabled",
                "datareporting.policy.dataSubmissionEnabled", "app.normandy.enabled",
                "network.captive-portal-service.enabled", "network.connectivity-service.enabled",
            ]
            let lines = preferences.map { "user_pref(\"\($0)\", false);" }.joined(separator: "\n")
            start = """
                cat >"$1/user.js" <<'END'
                \(lines)
                END
                exec firefox-esr --headless --no-remote --profile "$1" "$2"
                """
        case .webKit:
            // This engine has no flag for its profile, which is below the home folder.
            start = """
                export HOME="$1" XDG_CACHE_HOME="$1/cache" XDG_DATA_HOME="$1/data" XDG_CONFIG_HOME="$1/config"
                exec xvfb-run -a surf "$2"
                """
        }
        let path = try folder.write(Array("#!/bin/sh\n\(settings)\n\(start)\n".utf8), to: "start-\(rawValue)")
        chmod(path, 0o755)
        return path
    }
}

/// A browser that runs until its last reference is released, and ends within a second after the process `owner`, also if that is
/// killed.
final class RunningEngine {
    private let program: Program
    /// The folder with all files of the browser, which its arguments name.
    let folder: TemporaryFolder

    /// Starts the browser with `url`.
    init(_ engine: Engine, _ url: String, ownedBy owner: pid_t = getpid()) throws {
        folder = try TemporaryFolder()
        let path = getenv("PATH").map { String(cString: $0) } ?? "/usr/bin:/bin"
        let watch = "(while [ -d /proc/\(owner) ]; do sleep 1; done; kill -KILL 0) >/dev/null 2>&1 & exec \"$@\""
        // setsid(1) makes the browser the leader of a process group.
        program = try Program(
            ["setsid", "sh", "-c", watch, "sh", engine.program(in: folder), folder.file("profile"), url],
            environment: ["PATH": path])
    }

    /// The output on standard error so far.
    var errors: String { (try? program.printed().errors) ?? "" }

    deinit {
        program.killGroup()
        _ = try? program.wait(within: .seconds(10))
    }
}
