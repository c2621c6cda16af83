// The cost of Node.js itself, without our code: no program is faster or smaller.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { performance } from 'node:perf_hooks'
import { memoryOf } from './memory.mjs'

/** The time until a program of Node.js that does nothing runs, and its memory. */
export async function nodeAlone() {
  const begun = performance.now()
  const child = spawn(process.execPath, ['-e', 'console.log(0); setInterval(() => {}, 1e6)'], {
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  await once(child.stdout, 'data')
  const startMs = performance.now() - begun
  const memory = memoryOf(child.pid)
  child.kill()
  await once(child, 'exit')
  return { startMs, memory }
}
