import { readdirSync, readFileSync } from 'node:fs'
import { isRecord } from '@akrijs/runtime'
import { signalGroup } from './broker-process.js'
import { readJson, writeJson } from './json-file.js'

interface LedgerEntry {
  /** The process that leads the process group. */
  readonly pid: number
  /** When the process started, in ticks since boot: a later process can get the same pid. */
  readonly started: string
}

/**
 * A file with the brokers that run. An agent that is killed cannot end its brokers, so the next
 * agent does: no program reads their output, and their slots are free.
 */
export class BrokerLedger {
  readonly file: string
  readonly #entries = new Map<number, LedgerEntry>()

  constructor(file: string) {
    this.file = file
  }

  /** Ends the brokers of an agent that was killed. @returns their pids */
  async endLeftovers(): Promise<number[]> {
    const entries = await readJson(this.file)
    // Without a valid file there is no process to end.
    const leftovers = (Array.isArray(entries) ? entries.filter(isEntry) : []).filter(
      ({ pid, started }) => leads(pid, started) || outlives(pid, started),
    )
    for (const { pid } of leftovers) signalGroup(pid, 'SIGKILL')
    return leftovers.map(({ pid }) => pid)
  }

  /** Throws the system's error if the file cannot be written; the caller tries again. */
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
      // A stale entry does no harm: its start time matches no other process.
    }
  }

  /** Ends all brokers at once. */
  kill(): void {
    for (const pid of this.#entries.keys()) signalGroup(pid, 'SIGKILL')
  }

  #write(): void {
    writeJson(this.file, [...this.#entries.values()])
  }
}

function isEntry(value: unknown): value is LedgerEntry {
  if (!isRecord(value)) return false
  const { pid, started } = value
  return Number.isInteger(pid) && Number(pid) > 1 && typeof started === 'string'
}

function leads(pid: number, started: string): boolean {
  const found = processAt(pid)
  return found !== undefined && found.state !== 'Z' && found.started === started
}

/**
 * Whether a process group outlives its leader. No process gets the pid of a group that exists, so
 * any process of the group that is no older than the leader belongs to the broker.
 */
function outlives(pid: number, started: string): boolean {
  const leader = processAt(pid)
  if (leader !== undefined && leader.started !== started) return false
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map((name) => processAt(Number(name)))
    .some(
      (member) =>
        member?.group === pid &&
        member.session === pid &&
        member.state !== 'Z' &&
        Number(member.started) >= Number(started),
    )
}

/** Fields of /proc/PID/stat, proc(5). The second field is in parentheses and can hold any text. */
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
