import BundleValues
import Glibc

/// A bucket of moto, an object store in Python, which refuses requests whose signature it does not get itself.
///
/// `SWAP_CLIENTS_PYTHON` names a Python that has it; by default any on the path. With `SWAP_CLIENTS_BUCKET_ENGINE=other`, the bucket of the
/// environment instead, as `Scripts/other-bucket` sets it.
package final class TestBucket: Sendable {
    /// Why there is none; nil where there is.
    package static let missing: String? = {
        if isOther { return nil }
        let check = try? Program.run(
            [python, "-c", "import moto.server, boto3"], environment: ["PATH": path, "HOME": "/nonexistent"])
        return check?.status == 0 ? nil : "no moto[server] for \(python): Scripts/bootstrap --bucket installs it"
    }()

    private static let isOther = setting("SWAP_CLIENTS_BUCKET_ENGINE") == "other"
    private static let path = setting("PATH") ?? "/usr/bin:/bin"
    private static let python = setting("SWAP_CLIENTS_PYTHON") ?? "python3"

    private static func setting(_ name: String) -> String? { getenv(name).map { String(cString: $0) } }

    package let url: String
    package let keyId: String
    package let secret: String
    private let server: Command?

    /// What tells programs of it, with the right keys.
    package var environment: [String: String] {
        [
            "AWS_ENDPOINT_URL_S3": url, "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": keyId,
            "AWS_SECRET_ACCESS_KEY": secret,
        ]
    }

    /// A bucket called `feeds`: an empty one of moto, which starts here, or that of the environment, where others may have been before.
    package init() throws {
        if Self.isOther {
            server = nil
            let words = ["AWS_ENDPOINT_URL_S3", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"].compactMap(Self.setting)
            guard words.count == 3 else {
                throw CommandError(command: ["Scripts/other-bucket"], printed: "not run by it")
            }
            (url, keyId, secret) = (words[0], words[1], words[2])
            return
        }
        let server = try Command([Self.python, "-c", Self.program])
        let line = server.nextLine()
        guard let told = try JSONScanner.parse(Array(line.utf8), maximumBytes: 4096).objectValue,
            let url = told["url"]?.stringValue, let id = told["id"]?.stringValue,
            let secret = told["secret"]?.stringValue
        else { throw CommandError(command: ["moto"], printed: line) }
        (self.server, self.url, keyId, self.secret) = (server, url, id, secret)
    }

    /// It lives as long as its parent does.
    private static let program = """
        import json, os, threading, time
        parent = os.getppid()
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        import boto3
        from moto import settings
        from moto.moto_server import threaded_moto_server as moto_server

        class OneAtATime(moto_server.DomainDispatcherApplication):
            # moto looks at a condition and then writes: another request may come between.
            turn = threading.Lock()

            def __call__(self, environ, start_response):
                with self.turn:
                    return super().__call__(environ, start_response)

        moto_server.DomainDispatcherApplication = OneAtATime
        server = moto_server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        server.start()
        url = "http://%s:%d" % server.get_host_and_port()
        plain = dict(endpoint_url=url, region_name="us-east-1", aws_access_key_id="setup", aws_secret_access_key="setup")
        iam = boto3.client("iam", **plain)
        iam.create_user(UserName="publisher")
        iam.put_user_policy(UserName="publisher", PolicyName="all", PolicyDocument=json.dumps(
            {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}))
        key = iam.create_access_key(UserName="publisher")["AccessKey"]
        boto3.client("s3", **plain).create_bucket(Bucket="feeds")
        settings.INITIAL_NO_AUTH_ACTION_COUNT = 0
        print(json.dumps({"url": url, "id": key["AccessKeyId"], "secret": key["SecretAccessKey"]}), flush=True)
        while os.getppid() == parent:
            time.sleep(1)
        """
}
