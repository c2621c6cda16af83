// Sends multicast messages from the port of multicast DNS. Arguments: the number of repetitions,
// and each message in hexadecimal.
import { createSocket } from 'node:dgram'

const [times, ...messages] = process.argv.slice(2)
const socket = createSocket({ type: 'udp4', reuseAddr: true })
await new Promise((resolve) => socket.bind(5353, resolve))
for (let round = 0; round < Number(times); round++) {
  for (const message of messages) {
    await new Promise((resolve, reject) =>
      socket.send(Buffer.from(message, 'hex'), 5353, '224.0.0.251', (error) =>
        error ? reject(error) : resolve(undefined),
      ),
    )
  }
}
socket.close()
