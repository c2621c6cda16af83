"""An agent on another gRPC stack. Usage: agent.py DIRECTORY PROTO_DIRECTORY HANDLER
Prints one JSON line for the registration, one for the first list and one for the status of a wrong request."""
import json, os, queue, re, sys, tempfile
from concurrent import futures

import grpc
from grpc_tools import protoc

directory, protos, name = sys.argv[1:4]
out = tempfile.mkdtemp(dir=directory)
with open(os.path.join(protos, "discovery.proto")) as file:
    # Older compilers do not know proto3's optional; a oneof of one field is the same on the wire.
    text = re.sub(r"^(\s*)optional (\w+ (\w+) = \d+;)", r"\1oneof _\3 { \2 }", file.read(), flags=re.M)
with open(os.path.join(out, "discovery.proto"), "w") as file:
    file.write(text)
if protoc.main(["protoc", f"-I{out}", f"--python_out={out}", f"--grpc_python_out={out}", "discovery.proto"]) != 0:
    sys.exit("protoc failed")
sys.path.insert(0, out)
import discovery_pb2 as messages
import discovery_pb2_grpc as services

registered = queue.Queue()


class Registration(services.RegistrationServicer):
    def RegisterDiscoveryHandler(self, request, context):
        registered.put(request)
        return messages.Empty()


server = grpc.server(futures.ThreadPoolExecutor(2))
services.add_RegistrationServicer_to_server(Registration(), server)
server.add_insecure_port("unix:" + os.path.join(directory, "agent-registration.sock"))
server.start()
request = registered.get(timeout=20)
print(json.dumps({"name": request.name, "endpoint": request.endpoint, "type": request.endpoint_type, "shared": request.shared}))
with grpc.insecure_channel("unix:" + request.endpoint) as channel:
    stub = services.DiscoveryHandlerStub(channel)
    stream = stub.Discover(messages.DiscoverRequest(discovery_details="id: cam"), timeout=20)
    first = next(stream)
    print(json.dumps([{"id": d.id, "properties": dict(d.properties)} for d in first.devices]))
    stream.cancel()
    try:
        next(stub.Discover(messages.DiscoverRequest(discovery_details="id: 1"), timeout=20))
    except grpc.RpcError as error:
        print(json.dumps({"status": error.code().name, "details": error.details()}))
server.stop(None)
