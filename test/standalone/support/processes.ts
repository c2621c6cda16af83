import { readdirSync, readFileSync } from 'node:fs'

/** A zombie has ended; its parent has not reaped it yet. */
export function isAlive(pid: number): boolean {
  return /^State:\s+[^ZX]/m.test(statusOf(pid))
}

/** /proc/PID/status, proc(5); empty if there is no such process. */
export function statusOf(pid: number): string {
  return read(pid, 'status')
}

/** The program and its arguments. */
export function commandOf(pid: number): string[] {
  return read(pid, 'cmdline').split('\0')
}

/** The process and its descendants, in any process group. */
export function processesOf(pid: number): number[] {
  const parents = new Map<number, number>()
  for (const name of readdirSync('/proc').filter((name) => /^\d+$/.test(name)))
    parents.set(Number(name), Number(/^PPid:\s+(\d+)/m.exec(statusOf(Number(name)))?.[1]))
  const all = [pid]
  // The loop also visits added processes.
  for (const known of all)
    for (const [child, parent] of parents) if (parent === known) all.push(child)
  return all
}

function read(pid: number, file: string): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8')
  } catch {
    return ''
  }
}
