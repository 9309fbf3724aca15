"""An endpoint that accepts each job with 202, works on it, and ends it by callbacks. It repeats a callback while Redis can't be
reached. A receiver must also verify the signature, as the receivers in docs/push.md do.

    PORT=8080 python3 accept.py
"""

import json, os, threading, time, urllib.error, urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def call_back(address, call, body):
    while True:
        try:
            opener.open(urllib.request.Request(address + "/" + call, json.dumps(body).encode(), method="POST")).close()
            return
        except urllib.error.HTTPError as error:
            with error:
                if error.code != 503:
                    raise RuntimeError(json.load(error)["code"])  # such as ATTEMPT_ENDED: stop the work
                time.sleep(int(error.headers["Retry-After"]))


def work(address, data):
    call_back(address, "progress", {"doubling": data["n"]})
    if data["n"] < 0:
        call_back(address, "fail", {"reason": "n is negative", "unrecoverable": True})
    else:
        call_back(address, "complete", {"doubled": data["n"] * 2})


class Jobs(BaseHTTPRequestHandler):
    def do_POST(self):
        data = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.send_response(202)
        self.send_header("Content-Length", "0")
        self.end_headers()
        threading.Thread(target=work, args=(self.headers["bullmq-callback"], data)).start()


ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Jobs).serve_forever()
