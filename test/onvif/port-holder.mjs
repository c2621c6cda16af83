// Holds the port of WS-Discovery alone.
import dgram from 'node:dgram'

const socket = dgram.createSocket('udp4')
socket.bind(3702, () => process.send?.('bound'))
process.on('disconnect', () => process.exit(0))
