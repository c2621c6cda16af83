# usage: asyncua-server.py PORT ADDRESS
# A server of asyncua. Prints "listening" when it is.
import asyncio
import logging
import sys

from asyncua import Server


async def main():
    logging.disable(logging.CRITICAL)
    server = Server()
    await server.init()
    port, address = sys.argv[1:]
    server.set_endpoint(f"opc.tcp://{address}:{port}/")
    async with server:
        print("listening", flush=True)
        await asyncio.Event().wait()


asyncio.run(main())
