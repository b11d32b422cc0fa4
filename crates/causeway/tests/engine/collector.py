"""A collector that reads what it gets by the official definitions, and prints a line of JSON for each span. The first
request is turned away, as a collector does that has too much to do."""

import json
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Collector(BaseHTTPRequestHandler):
    asked = 0

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        assert self.path == "/v1/traces", self.path
        assert self.headers["content-type"] == "application/x-protobuf"
        Collector.asked += 1
        self.send_response(503 if Collector.asked == 1 else 200)
        self.end_headers()
        if Collector.asked == 1:
            return
        request = ExportTraceServiceRequest()
        request.ParseFromString(body)
        unknown = request.SerializeToString(deterministic=True)
        assert len(unknown) == len(body), "nothing is lost and nothing is unknown"
        for resource in request.resource_spans:
            [service] = [a.value.string_value for a in resource.resource.attributes if a.key == "service.name"]
            for scope in resource.scope_spans:
                for span in scope.spans:
                    attributes = {a.key: getattr(a.value, a.value.WhichOneof("value")) for a in span.attributes}
                    print(json.dumps({
                        "service": service, "scope": scope.scope.name, "name": span.name, "kind": span.kind,
                        "trace": span.trace_id.hex(), "span": span.span_id.hex(), "parent": span.parent_span_id.hex(),
                        "nanos": span.end_time_unix_nano - span.start_time_unix_nano,
                        "start": span.start_time_unix_nano, "status": span.status.code, "attributes": attributes,
                    }), flush=True)

    def log_message(self, *args):
        pass


server = HTTPServer(("127.0.0.1", 0), Collector)
print(server.server_port, flush=True)
sys.stdout.flush()
server.serve_forever()
