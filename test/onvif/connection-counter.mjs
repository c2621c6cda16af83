// Listens on one port of each address in the arguments. Sends the port first, and then the number
// of connections on request.
import { once } from 'node:events'
import net from 'node:net'

let [port, count] = [0, 0]
for (const address of process.argv.slice(2)) {
  const server = net.createServer((socket) => {
    count++
    socket.destroy()
  })
  server.listen(port, address)
  await once(server, 'listening')
  port = server.address().port
}
process.on('message', () => process.send?.(count))
process.on('disconnect', () => process.exit(0))
process.send?.(port)
