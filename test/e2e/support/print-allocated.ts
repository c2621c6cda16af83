import { listAllocated } from './allocated.js'

// A program whose argument is the path of the socket.

process.stdout.write(JSON.stringify(await listAllocated(process.argv[2] ?? '')))
