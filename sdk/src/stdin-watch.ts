// Runs in a thread of its own (see end-with-stdin.ts): a handler cannot block this thread.
import { Socket } from 'node:net'

/** The time that the process has to end after SIGTERM, in milliseconds. */
const TERM_MS = 5000

const stdin = new Socket({ fd: 0 })
stdin.on('error', () => {
  // The close event follows.
})
stdin.once('close', () => {
  process.kill(process.pid, 'SIGTERM')
  setTimeout(() => process.kill(process.pid, 'SIGKILL'), TERM_MS)
})
stdin.resume()
