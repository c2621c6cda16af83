import { readdirSync, readFileSync } from 'node:fs'
import { type Clock, isRecord } from '@akrijs/runtime'
import { signalGroup } from './broker-process.js'
import { readJson, writeJson } from './json-file.js'

interface LedgerEntry {
  /** The process that leads the process group. */
  readonly pid: number
  /** When the process started, in ticks since boot: a later process can get the same pid. */
  readonly started: string
  /** The boot of the machine; undefined if the kernel does not show it. */
  readonly boot: string | undefined
  /** The key of the Instance. */
  readonly instance: string
}

/** The time between two looks at the brokers of another user, in milliseconds. */
const LOOK_MS = 1000

/** The pids of the brokers of a killed agent. */
interface Leftovers {
  readonly ended: readonly number[]
  /** Those of another user, which this agent may not end. */
  readonly left: readonly number[]
}

/**
 * A file with the brokers that run. An agent that is killed cannot end its brokers, so the next
 * agent does: no program reads their output. A broker of another user goes on: its Instance has no
 * other broker until it ends.
 */
export class BrokerLedger {
  readonly file: string
  readonly #entries = new Map<number, LedgerEntry>()
  /** Those of an earlier agent. */
  #left: readonly LedgerEntry[] = []

  constructor(file: string) {
    this.file = file
  }

  /** Ends the brokers of an agent that was killed. */
  async endLeftovers(): Promise<Leftovers> {
    const entries = await readJson(this.file)
    // Without a valid file there is no process to end.
    const leftovers = (Array.isArray(entries) ? entries.filter(isEntry) : []).filter(isPresent)
    const left = leftovers.filter(({ pid }) => !signalGroup(pid, 'SIGKILL'))
    // The agent after this one looks for them again.
    for (const entry of left) this.#entries.set(entry.pid, entry)
    this.#left = left
    const ended = leftovers.filter((entry) => !left.includes(entry))
    return { ended: ended.map(({ pid }) => pid), left: left.map(({ pid }) => pid) }
  }

  /** Whether an Instance has a broker of an earlier agent that goes on. */
  hasLeftover(instance: string): boolean {
    return this.#left.some((entry) => entry.instance === instance)
  }

  /** Waits until the brokers of an earlier agent that an Instance has have ended. */
  async untilEnded(instance: string, clock: Clock, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      for (const entry of this.#left) if (!isPresent(entry)) this.remove(entry.pid)
      this.#left = this.#left.filter(({ pid }) => this.#entries.has(pid))
      if (!this.hasLeftover(instance)) return
      await clock.sleep(LOOK_MS, signal).catch(() => undefined)
    }
  }

  /**
   * @param instance the key of the Instance
   * @throws the error of the system if the file cannot be written; the caller tries again
   */
  add(pid: number, instance: string): void {
    const started = processAt(pid)?.started
    if (started === undefined) return
    this.#entries.set(pid, { pid, started, boot: presentBoot(), instance })
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

  /** Ends all brokers at once. @returns the pids of those of another user, which go on */
  kill(): number[] {
    const present = [...this.#entries.values()].filter(isPresent)
    return present.map(({ pid }) => pid).filter((pid) => !signalGroup(pid, 'SIGKILL'))
  }

  #write(): void {
    writeJson(this.file, [...this.#entries.values()])
  }
}

function isEntry(value: unknown): value is LedgerEntry {
  if (!isRecord(value)) return false
  const { pid, started, instance } = value
  const isProcess = Number.isInteger(pid) && Number(pid) > 1 && typeof started === 'string'
  return isProcess && typeof instance === 'string'
}

/** Whether a process of the broker exists, and not only a later process with its pid. */
function isPresent({ pid, started, boot }: LedgerEntry): boolean {
  // A machine can start the same programs at the same ticks of each boot.
  if (boot !== presentBoot()) return false
  return leads(pid, started) || outlives(pid, started)
}

/** The id of the present boot, random(4); undefined if the kernel does not show it. */
function presentBoot(): string | undefined {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
  } catch {
    return undefined
  }
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
