// The cost of Node.js itself, without our code: no program is faster or smaller.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { performance } from 'node:perf_hooks'
import { memoryOf } from './memory.mjs'

/** The time in milliseconds and the memory (RSS) in MB of a Node.js process that does nothing. */
export async function nodeAlone(/** @type {readonly string[]} */ flags = []) {
  const begun = performance.now()
  const child = spawn(
    process.execPath,
    [...flags, '-e', 'console.log(0); setInterval(() => {}, 1000)'],
    {
      stdio: ['ignore', 'pipe', 'ignore'],
    },
  )
  await once(child.stdout, 'data')
  const startMs = performance.now() - begun
  const { resident } = memoryOf(child.pid)
  child.kill()
  await once(child, 'exit')
  return {
    start: { name: 'Node alone', value: startMs },
    memory: { name: 'Node alone', value: resident },
  }
}
