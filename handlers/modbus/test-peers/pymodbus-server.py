# usage: pymodbus-server.py ADDRESS PORT
# A Modbus TCP server of pymodbus, which is a gateway to the units 1 and 17. Prints "listening" when it is.
import asyncio
import sys

from pymodbus import ModbusDeviceIdentification
from pymodbus.constants import ExcCodes
from pymodbus.pdu import ExceptionResponse
from pymodbus.server import ModbusTcpServer
from pymodbus.simulator import DataType, SimData, SimDevice

UNITS = [1, 17]
IDENTITY = {
    "VendorName": "ACME",
    "ProductCode": "PM-5",
    "MajorMinorRevision": "1.2",
    "VendorUrl": "http://acme.example",
    "ProductName": "Power Meter",
    "ModelName": "M" * 200,
    "UserApplicationName": "Hall " + "1" * 180,
}


# pymodbus itself identifies any unit.
def answer(sending, pdu):
    if not sending or pdu.dev_id in UNITS:
        return pdu
    return ExceptionResponse(
        pdu.function_code,
        ExcCodes.GATEWAY_NO_RESPONSE,
        device_id=pdu.dev_id,
        transaction=pdu.transaction_id,
    )


async def main():
    address, port = sys.argv[1:]
    registers = SimData(0, values=[0], datatype=DataType.REGISTERS)
    server = ModbusTcpServer(
        [SimDevice(unit, simdata=[registers]) for unit in UNITS],
        identity=ModbusDeviceIdentification(info_name=IDENTITY),
        address=(address, int(port)),
        trace_pdu=answer,
    )
    await server.serve_forever(background=True)
    print("listening", flush=True)
    await asyncio.Event().wait()


asyncio.run(main())
