// Runs in a thread of its own (see end-with-stdin.ts), which no handler can keep from seeing what happens.
import { Socket } from 'node:net'

/** How long the process may take to end when it is asked to, in milliseconds. */
const TERM_MS = 5000

const stdin = new Socket({ fd: 0 })
stdin.on('error', () => {
  // It is closed next.
})
stdin.once('close', () => {
  process.kill(process.pid, 'SIGTERM')
  setTimeout(() => process.kill(process.pid, 'SIGKILL'), TERM_MS)
})
stdin.resume()
