import { readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { signalGroup } from './broker-process.js'

interface LedgerEntry {
  /** Of the process that leads the group. */
  readonly pid: number
  /** When it started, in the kernel's ticks since boot: tells it from another one that got its number. */
  readonly started: string
}

/**
 * Which brokers run, in a file: an agent that is killed cannot end them, so the next one does. Nobody reads their output any
 * more, and their slots are to be given anew.
 */
export class BrokerLedger {
  readonly file: string
  readonly #entries = new Map<number, LedgerEntry>()

  constructor(file: string) {
    this.file = file
  }

  /** Ends what an agent that was killed has left running. @returns the pids */
  async endLeftovers(): Promise<number[]> {
    const left = (await this.#read()).filter(
      ({ pid, started }) => leads(pid, started) || outlives(pid, started),
    )
    for (const { pid } of left) signalGroup(pid, 'SIGKILL')
    return left.map(({ pid }) => pid)
  }

  /** Throws the system's error where the file cannot be written; then it is to be called again. */
  add(pid: number): void {
    const started = processAt(pid)?.started
    if (started === undefined) return
    this.#entries.set(pid, { pid, started })
    this.#write()
  }

  remove(pid: number): void {
    if (!this.#entries.delete(pid)) return
    try {
      this.#write()
    } catch {
      // No harm: by when it started, a process that is gone is told from any other.
    }
  }

  /** Ends what runs, at once. */
  kill(): void {
    for (const pid of this.#entries.keys()) signalGroup(pid, 'SIGKILL')
  }

  async #read(): Promise<LedgerEntry[]> {
    try {
      const entries: unknown = JSON.parse(await readFile(this.file, 'utf8'))
      return Array.isArray(entries) ? entries.filter(isEntry) : []
    } catch {
      // There is none, or it makes no sense: then nothing is known to be left.
      return []
    }
  }

  #write(): void {
    // Renamed into place: a kill in the middle must not lose what runs.
    const next = `${this.file}.next`
    writeFileSync(next, JSON.stringify([...this.#entries.values()]), { mode: 0o600 })
    renameSync(next, this.file)
  }
}

function isEntry(value: unknown): value is LedgerEntry {
  return (
    typeof value === 'object' &&
    value !== null &&
    'pid' in value &&
    'started' in value &&
    Number.isInteger(value.pid) &&
    Number(value.pid) > 1 &&
    typeof value.started === 'string'
  )
}

function leads(pid: number, started: string): boolean {
  const now = processAt(pid)
  return now !== undefined && now.state !== 'Z' && now.started === started
}

/**
 * Whether a group goes on without the process that led it. No process gets the number of a group that exists, so whoever is
 * in it and is no older than its leader came from there.
 */
function outlives(pid: number, started: string): boolean {
  const leader = processAt(pid)
  if (leader !== undefined && leader.started !== started) return false
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map((name) => processAt(Number(name)))
    .some(
      (one) =>
        one?.group === pid &&
        one.session === pid &&
        one.state !== 'Z' &&
        Number(one.started) >= Number(started),
    )
}

/** Fields of /proc/PID/stat, proc(5); the second one is in parentheses and may hold anything. */
function processAt(
  pid: number,
): { state: string; group: number; session: number; started: string } | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    const [state = '', , group, session] = fields
    return { state, group: Number(group), session: Number(session), started: fields[19] ?? '' }
  } catch {
    return undefined
  }
}
