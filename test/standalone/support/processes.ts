import { readdirSync, readFileSync } from 'node:fs'

/** A zombie is dead: only whoever adopted it has not looked yet. */
export function isAlive(pid: number): boolean {
  return /^State:\s+[^ZX]/m.test(statusOf(pid))
}

/** /proc/PID/status, proc(5); empty where there is no such process. */
export function statusOf(pid: number): string {
  return read(pid, 'status')
}

/** The program and its arguments. */
export function commandOf(pid: number): string[] {
  return read(pid, 'cmdline').split('\0')
}

/** The process and all that it has started, whatever group they are in. */
export function processesOf(pid: number): number[] {
  const parents = new Map<number, number>()
  for (const name of readdirSync('/proc').filter((one) => /^\d+$/.test(one)))
    parents.set(Number(name), Number(/^PPid:\s+(\d+)/m.exec(statusOf(Number(name)))?.[1]))
  const all = [pid]
  // What is added is looked at too.
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
