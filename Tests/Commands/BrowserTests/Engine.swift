import BundleTesting
import Glibc
import Testing

/// A browser engine of a kiosk. Pages report to a server of the test, so no test drives the engine itself.
enum Engine: String, CaseIterable, CustomTestStringConvertible, Sendable {
    case chromium = "Chromium"
    case firefox = "Firefox"
    case webKit = "WebKitGTK"
    case webKitView = "WebKitGTK-in-Python"
    case wpe = "WPE"
    case qt = "QtWebEngine"

    /// The installed browsers.
    static let installed = [chromium, firefox, webKit].filter(\.isInstalled)
    /// The engines of kiosks, installed or not. Surf and a web view in Python have the same engine.
    static let kiosks = [chromium, firefox, webKitView, wpe, qt]

    var testDescription: String { rawValue }

    /// Cancels the test if the engine is not installed.
    func require() throws {
        if !isInstalled { try Test.cancel("\(rawValue) is not installed: Scripts/bootstrap --engines installs it") }
    }

    private var isInstalled: Bool {
        switch self {
        case .chromium: Browser.isInstalled
        case .firefox: Self.isThere("firefox-esr")
        case .webKit: Self.isThere("surf") && Self.isThere("xvfb-run")
        case .webKitView: access(Self.webKitLibrary, R_OK) == 0 && Self.isThere("xvfb-run")
        case .wpe: Self.isThere("cog")
        case .qt: access(Self.python, X_OK) == 0
        }
    }

    /// The description of WebKitGTK for Python, in Debian's place.
    private static let webKitLibrary = "/usr/lib/x86_64-linux-gnu/girepository-1.0/WebKit2-4.1.typelib"
    /// The Python that has QtWebEngine.
    private static let python =
        (getenv("SWAP_CLIENTS_CACHE").map { String(cString: $0) }
            ?? getenv("HOME").map { String(cString: $0) + "/.cache/swap-clients" } ?? "") + "/qt/bin/python"

    private static func isThere(_ program: String) -> Bool {
        let path = getenv("PATH").map { String(cString: $0) } ?? "/usr/bin:/bin"
        return path.split(separator: ":").contains { access("\($0)/\(program)", X_OK) == 0 }
    }

    /// Scripts that hide the page's window or bring another tab to the front, and that show the page again. Nil for WPE,
    /// which has neither windows nor tabs: cog keeps its only page visible.
    var hiding: (hide: String, show: String)? {
        switch self {
        case .chromium, .firefox: ("var other = window.open('about:blank');", "other.close();")
        case .webKitView, .qt: ("document.title = 'hide';", "document.title = 'show';")
        case .webKit, .wpe: nil
        }
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
        case .webKitView:
            start = """
                export HOME="$1" XDG_CACHE_HOME="$1/cache" XDG_DATA_HOME="$1/data" XDG_CONFIG_HOME="$1/config"
                cat >"$1/view.py" <<'END'
                import sys, gi
                gi.require_version('Gtk', '3.0'); gi.require_version('WebKit2', '4.1')
                from gi.repository import Gtk, WebKit2
                window, view = Gtk.Window(), WebKit2.WebView()
                window.add(view); window.fullscreen(); window.show_all()
                actions = {'hide': window.hide, 'show': window.show}
                view.connect('notify::title', lambda *_: actions.get(view.get_title(), lambda: None)())
                view.connect('web-process-terminated', lambda *_: Gtk.main_quit())
                view.load_uri(sys.argv[1]); Gtk.main()
                END
                exec xvfb-run -a /usr/bin/python3 "$1/view.py" "$2"
                """
        case .wpe:
            start = """
                export HOME="$1" XDG_CACHE_HOME="$1/cache" XDG_DATA_HOME="$1/data" XDG_CONFIG_HOME="$1/config"
                export XDG_RUNTIME_DIR="$1"
                exec cog --platform=headless --webprocess-failure=exit "$2"
                """
        case .qt:
            start = """
                export HOME="$1" QT_QPA_PLATFORM=offscreen QTWEBENGINE_DISABLE_SANDBOX=1
                cat >"$1/view.py" <<'END'
                import sys
                from PyQt6.QtCore import QUrl
                from PyQt6.QtWidgets import QApplication
                from PyQt6.QtWebEngineWidgets import QWebEngineView
                application, view = QApplication(sys.argv), QWebEngineView()
                actions = {'hide': view.hide, 'show': view.showFullScreen}
                application.setQuitOnLastWindowClosed(False)
                view.titleChanged.connect(lambda title: actions.get(title, lambda: None)())
                view.renderProcessTerminated.connect(lambda *_: application.exit(1))
                view.load(QUrl(sys.argv[1])); view.showFullScreen(); application.exec()
                END
                exec '\(Self.python)' "$1/view.py" "$2"
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
