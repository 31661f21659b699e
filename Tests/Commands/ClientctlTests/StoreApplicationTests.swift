import BundleTestTraits
import BundleTesting
import BundleValues
import Testing

@Suite("Store without --app-id", .ownThread) struct StoreApplicationTests {
    @Test func `a store without --app-id adopts the application of its first release`() throws {
        let site = try Site()
        try site.publish("1.2.0", nil, ["--app-id", "com.example.kiosk"])
        try site.install().succeeded("installed")
        let status = ["status", "--store", site.store]
        #expect(try Clientctl.run(status + ["--json"]).succeeded().string("appId") == "com.example.kiosk")
        #expect(try Clientctl.run(status).text.contains("application com.example.kiosk"))

        let other = site.folder.file("other")
        try site.publish(
            try site.folder.writeTree(Site.client("9.0.0"), to: "web-other"), as: "9.0.0",
            ["--feed", other, "--app-id", "com.example.other"]
        ).succeeded("published")
        try site.leavingStoreAlone {
            let refused = try site.install("\(other)/manifest.json").failed(43, "appMismatch")
            #expect(refused.subject == "com.example.other")
            #expect(refused.errors.contains("--store"), "\(refused.errors)")
            try site.check("\(other)/manifest.json").failed(43, "appMismatch")
            try site.install(nil, ["--app-id", "com.example.other"]).failed(43, "appMismatch")
        }
    }

    @Test func `a store without --app-id accepts releases without an application until one names it`() throws {
        let site = try Site()
        try site.publish("1.0.0")
        try site.install().succeeded("installed")
        try site.publish("1.1.0")
        try site.install().succeeded("installed")
        #expect(try Clientctl.run(["status", "--store", site.store, "--json"]).succeeded()["appId"] == .null)
    }
}
