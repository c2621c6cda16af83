// What Node takes by itself, before any of our code: no program of it is quicker or smaller.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { performance } from 'node:perf_hooks'

/** How soon a Node that does nothing says so, in milliseconds, and how much memory it takes (RSS), in MB. */
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
  const megabytes =
    Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8'))?.[1]) / 1024
  child.kill()
  await once(child, 'exit')
  return {
    start: { name: 'Node alone', value: startMs },
    memory: { name: 'Node alone', value: megabytes },
  }
}
