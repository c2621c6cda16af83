import { listAllocated } from './allocated.js'

// A program for where the socket is, which is its argument.

process.stdout.write(JSON.stringify(await listAllocated(process.argv[2] ?? '')))
