import BundleCore
import BundleValues
import NIOCore

/// The page between a session that has ended and the next one.
///
/// The former page runs scripts until another page replaces it, so it can write data after the next response has cleared the browser.
/// This page clears the data again until it finds none. It also returns the window to its first address, as far as the browser
/// permits (Navigation API), so the next user cannot go back to addresses of the former one.
struct LeavingPage {
    /// The longest time for the return through the addresses of a window, in seconds.
    private static let longest = 30

    private let source: String
    /// The name of the cookie that marks this page as open, and an equals sign.
    private let cookie: String

    init(port: Int) throws {
        cookie = "clientctl-leaving-\(port)="
        source = try ScriptSource.expression(for: Array(Self.script.utf8)[...])
    }

    /// Returns whether the browser has opened this page.
    func isOpen(in request: Request) -> Bool { request.value(ofCookie: cookie) == "1" }

    /// Returns the page, which clears the data of the session `ended`; with nil it only returns through the addresses.
    func response(clearing ended: String?, _ policy: ContentSecurityPolicy) -> Response {
        let page =
            "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>One moment</title>"
            + "<meta name=\"clientctl-leaving\" content=\"\(ended ?? "")\"><link rel=\"icon\" href=\"data:,\">"
            + "<style>html{background:#10141a}</style><script>\(Self.script)</script></head><body></body></html>\n"
        let fields =
            ended == nil
            ? "Set-Cookie: \(cookie)1; Path=/; HttpOnly; SameSite=Strict; Max-Age=\(Self.longest)\r\n" : Self.clearing
        return Response(
            .ok, type: MediaType.html, caching: Caching.never,
            fields: policy.line(scriptSources: [source]) + fields, ByteBuffer(string: page))
    }

    /// The only way to delete the cookies of every path. It also deletes cookies of the same response.
    private static let clearing = "Clear-Site-Data: \"cookies\", \"storage\"\r\n"

    /// Returns the response to a call of this page; nil for any other call.
    func response(to method: String, _ body: JSONObject, _ cleared: String) -> Response? {
        switch method {
        case "clear":
            return Response(
                .ok, type: MediaType.json, caching: Caching.never, fields: Self.clearing, ByteBuffer(string: "{}"))
        case "left":
            let ended = body["ended"]?.stringValue ?? ""
            let isWord = ended.utf8.allSatisfy {
                HTTPBytes.isLetter($0) || HTTPBytes.isDigit($0) || $0 == UInt8(ascii: "-")
            }
            guard isWord, ended.utf8.count <= 128 else { return nil }
            var fields = "Set-Cookie: \(cookie)0; Path=/; Max-Age=0\r\n"
            // Browsers keep no cookie for more than 400 days.
            if !ended.isEmpty {
                fields += "Set-Cookie: \(cleared)\(ended); Path=/; HttpOnly; SameSite=Strict; Max-Age=34560000\r\n"
            }
            return Response(.ok, type: MediaType.json, caching: Caching.never, fields: fields, ByteBuffer(string: "{}"))
        default: return nil
        }
    }

    /// The script of the page. No client has run in its document, so the functions of the browser are unmodified.
    private static let script = """
        (function () {
          'use strict';
          var ended = document.querySelector('meta[name="clientctl-leaving"]').content;
          var PAUSE = 150;
          var ROUNDS = 40;
          var ATTEMPTS = 15;
          window.name = '';
          function ignore() {}
          function nothing() { return 0; }
          function wait(time) { return new Promise(function (done) { setTimeout(done, time); }); }
          function call(method, body) {
            return fetch('/__clientctl/v1/' + method, {
              method: 'POST', headers: { 'Content-Type': 'application/json', 'X-Client-Token': 'leaving' },
              body: JSON.stringify(body), cache: 'no-store', credentials: 'same-origin'
            }).then(function (response) { if (!response.ok) { throw new Error(String(response.status)); } });
          }
          // Goes back to the first address of this server in the window, where the browser shows this page again. No address of
          // the former user is before it.
          function goBack() {
            var navigation = window.navigation;
            var entries = navigation && navigation.entries ? navigation.entries() : [];
            if (entries.length > 1 && navigation.currentEntry && navigation.currentEntry.index > 0) {
              return Promise.race([navigation.traverseTo(entries[0].key).finished, wait(3000)]);
            }
            window.history.replaceState(null, '', '/');
            if (entries.length > 1) { window.history.pushState(null, '', '/'); }
          }
          // A browser refuses it for 10 seconds after a page has changed its address too often.
          function forgetAddresses(left) {
            return new Promise(function (done) { done(goBack()); }).catch(function () {
              return left > 0 ? wait(1000).then(function () { return forgetAddresses(left - 1); }) : undefined;
            });
          }
          function each(list, remove) {
            return Promise.all(list.map(function (item) { return Promise.resolve(remove(item)).then(ignore, ignore); }))
              .then(function () { return list.length; });
          }
          function removeDatabase(base) {
            return new Promise(function (done) {
              var request = indexedDB.deleteDatabase(base.name);
              request.onsuccess = request.onerror = request.onblocked = done;
            });
          }
          function removeFiles() {
            return navigator.storage.getDirectory().then(function (folder) {
              var names = folder.keys();
              var list = [];
              function next() {
                return names.next().then(function (name) {
                  if (name.done) { return list; }
                  list.push(name.value);
                  return next();
                });
              }
              return next().then(function (list) {
                return each(list, function (name) { return folder.removeEntry(name, { recursive: true }); });
              });
            });
          }
          // Removes data that the header leaves, such as an empty database, and returns the number of removed items.
          function remove() {
            var kinds = [
              function () { var count = localStorage.length; localStorage.clear(); return count; },
              function () { var count = sessionStorage.length; sessionStorage.clear(); return count; },
              function () { return indexedDB.databases().then(function (list) { return each(list, removeDatabase); }); },
              function () {
                return caches.keys().then(function (list) {
                  return each(list, function (name) { return caches.delete(name); });
                });
              },
              removeFiles,
              function () {
                return navigator.serviceWorker.getRegistrations().then(function (list) {
                  return each(list, function (worker) { return worker.unregister(); });
                });
              }
            ];
            return Promise.all(kinds.map(function (kind) {
              return new Promise(function (done) { done(kind()); }).catch(nothing);
            })).then(function (counts) { return counts.reduce(function (sum, count) { return sum + count; }, 0); });
          }
          // A worker may outlive its page for a moment.
          function clear(left, quiet) {
            if (!ended || left === 0 || quiet === 3) { return Promise.resolve(); }
            return call('clear', {}).then(remove).then(function (count) {
              return wait(PAUSE).then(function () { return clear(left - 1, count === 0 ? quiet + 1 : 0); });
            });
          }
          function leave() {
            return clear(ROUNDS, 0).then(function () { return call('left', { ended: ended }); }).then(function () {
              window.location.replace(window.location.origin + '/');
            }).catch(function () { return wait(1000).then(leave); });
          }
          forgetAddresses(ATTEMPTS).then(leave);
        }());
        """
}
