# usage: asyncua-values.py PORT ADDRESS
# A server of asyncua with variables ns=2;s=NAME of several types, which do not change. Prints
# "listening" when it is.
import asyncio
import logging
import math
import sys

from asyncua import Server, ua

TYPES = ua.VariantType
VALUES = {
    "Boolean": ua.Variant(True, TYPES.Boolean),
    "NaN": ua.Variant(math.nan, TYPES.Double),
    "Infinity": ua.Variant(-math.inf, TYPES.Float),
    "Int64": ua.Variant(-(2**63), TYPES.Int64),
    "UInt64": ua.Variant(2**64 - 1, TYPES.UInt64),
    "Bytes": ua.Variant(b"\x00\xff\x07", TYPES.ByteString),
    "Status": ua.Variant(ua.StatusCode(ua.StatusCodes.BadSensorFailure), TYPES.StatusCode),
    "List": ua.Variant([2**63 - 1, -1], TYPES.Int64),
    "Matrix": ua.Variant([[1, 2, 3], [4, 5, 6]], TYPES.Int32),
}


async def main():
    logging.disable(logging.CRITICAL)
    server = Server()
    await server.init()
    port, address = sys.argv[1:]
    server.set_endpoint(f"opc.tcp://{address}:{port}/")
    namespace = await server.register_namespace("urn:akri:test")

    async def add(name, value):
        node = ua.NodeId(name, namespace)
        return await server.nodes.objects.add_variable(node, f"{namespace}:{name}", value)

    for name, value in VALUES.items():
        await add(name, value)
    sensor = await add("Sensor", ua.Variant(1.5, TYPES.Double))
    bad = ua.StatusCode(ua.StatusCodes.BadSensorFailure)
    value = ua.DataValue(ua.Variant(1.5, TYPES.Double), bad)
    await server.write_attribute_value(sensor.nodeid, value)
    async with server:
        print("listening", flush=True)
        await asyncio.Event().wait()


asyncio.run(main())
