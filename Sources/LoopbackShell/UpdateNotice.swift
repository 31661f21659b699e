public import BundleCore
import BundleServe

/// A bar above the client that runs although a better one is there: that needs a newer shell.
public struct UpdateNotice: Sendable, Equatable {
    private let minimum: SemanticVersion

    /// The best client needs shell `minimum`.
    public init(minimum: SemanticVersion) {
        self.minimum = minimum
    }

    /// The script that puts it up. Its place is outside the body, which applications replace, and its looks are set by script,
    /// which no policy of the page forbids.
    func script() throws -> ServerConfiguration.Bridge {
        let text =
            "This device needs a newer shell, version \(minimum) or later, for the newest version of what you see here. "
            + "Until then it shows the one before."
        let literal = String(decoding: JSONWriter.bytes(of: .string(text)), as: UTF8.self)
        let script = Array(
            """
            (function () {
              'use strict';
              function show() {
                var bar = document.createElement('div');
                bar.id = 'clientctl-update-required';
                bar.setAttribute('role', 'status');
                bar.style.cssText = 'position:fixed;top:0;left:0;right:0;z-index:2147483647;display:flex;gap:1em;'
                  + 'align-items:center;justify-content:center;padding:.75em 1em;background:#10141a;color:#e8edf2;'
                  + 'font:16px/1.4 system-ui,sans-serif';
                var text = document.createElement('span');
                text.textContent = \(literal);
                var button = document.createElement('button');
                button.type = 'button';
                button.textContent = 'Hide';
                button.style.cssText = 'font:inherit;padding:.25em .75em';
                button.addEventListener('click', function () { bar.remove(); });
                bar.append(text, button);
                document.documentElement.appendChild(bar);
              }
              if (document.readyState === 'loading') {
                document.addEventListener('DOMContentLoaded', show);
              } else {
                show();
              }
            }());
            """.utf8)
        return ServerConfiguration.Bridge(script: script, scriptSource: try ScriptSource.expression(for: script[...]))
    }
}
