import { currentClock, messageOf } from '@akrijs/sdk'
import { ANSWER_MS, ModbusConnection } from './connection.js'
import type { ModbusDetails } from './details.js'
import type { Identification } from './message.js'

const REASONS: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'connection refused',
  EHOSTUNREACH: 'no route to the address',
  ENETUNREACH: 'no route to the address',
  ECONNRESET: 'connection closed',
  EPIPE: 'connection closed',
}

/** Errors of a time limit: its own one, and that of Node.js for what the limit stops. */
const TIME_OVER = ['TimeoutError', 'AbortError']

interface Scan extends Pick<ModbusDetails, 'port' | 'units' | 'pauseMs'> {
  readonly address: string
  readonly signal: AbortSignal
  /** Takes what a unit says of itself; undefined if it answers, and cannot say that now. */
  found(unit: number, identification: Identification | undefined): void
  /** Takes why a unit does not answer. */
  silent(unit: number, reason: string): void
}

/** Asks all units of an address, one after the other, over one connection at a time. */
export async function scan(options: Scan): Promise<void> {
  const { units, pauseMs, signal } = options
  const clock = currentClock()
  let hasAsked = false
  const pause = async () => {
    if (hasAsked) await clock.sleep(pauseMs, signal)
    hasAsked = true
  }
  let connection: ModbusConnection | undefined
  try {
    for (const [index, unit] of units.entries()) {
      try {
        if (connection?.isOpen === false) connection = undefined
        connection ??= await ModbusConnection.open({ ...options, pause })
        options.found(unit, await connection.identify(unit))
      } catch (error) {
        signal.throwIfAborted()
        // Without a connection no unit of the address is asked in this round.
        const isReached = connection !== undefined
        for (const each of isReached ? [unit] : units.slice(index))
          options.silent(each, reasonOf(error))
        if (!isReached) return
      }
    }
  } finally {
    await connection?.close()
  }
}

function reasonOf(error: unknown): string {
  const { code = '', name } = error as NodeJS.ErrnoException
  if (TIME_OVER.includes(name)) return `no answer in ${ANSWER_MS / 1000} s`
  return REASONS[code] ?? messageOf(error)
}
