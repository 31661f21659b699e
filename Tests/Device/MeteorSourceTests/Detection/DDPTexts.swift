/// The DDP messages about client versions, as in METEOR section 7.2.
enum DDPTexts {
    static let connect = #"{"msg":"connect","version":"1","support":["1","pre2","pre1"]}"#
    static let connected = #"{"msg":"connected","session":"x"}"#
    static let sub = sub(id: "1")
    static let ready = #"{"msg":"ready","subs":["1"]}"#
    static let ping = #"{"msg":"ping"}"#
    static let pong = #"{"msg":"pong"}"#
    static let removed = #"{"msg":"removed","collection":"meteor_autoupdate_clientVersions","id":"web.cordova"}"#

    static func sub(id: String, parameters: String = #"["app"]"#) -> String {
        #"{"msg":"sub","id":"\#(id)","name":"meteor_autoupdate_clientVersions","params":\#(parameters)}"#
    }

    static func added(_ version: String, id: String = "web.cordova") -> String {
        #"{"msg":"added","collection":"meteor_autoupdate_clientVersions","id":"\#(id)","fields":{"version":"\#(version)"}}"#
    }

    static func changed(_ fields: String, cleared: String = "[]") -> String {
        #"{"msg":"changed","collection":"meteor_autoupdate_clientVersions","id":"web.cordova","#
            + #""fields":\#(fields),"cleared":\#(cleared)}"#
    }

    static func changed(to version: String) -> String { changed(#"{"version":"\#(version)"}"#) }
}
