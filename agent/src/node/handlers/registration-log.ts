import { type Clock, type Logger, type LogMethod, TokenBucket } from '@akrijs/runtime'

/** The lines about registrations: a burst, then one in a second. */
const LINES = { burst: 100, refillMs: 1000 }

/**
 * The log of registrations. Its lines are bounded, because any process that may register causes
 * them.
 */
export function registrationLog(log: Logger, clock: Clock): Pick<Logger, 'info' | 'warn'> {
  const budget = new TokenBucket({ clock, ...LINES })
  let linesLeftOut = 0
  const bounded =
    (write: LogMethod): LogMethod =>
    (fields, message) => {
      if (budget.take() > 0) {
        linesLeftOut++
        return
      }
      write({ ...fields, ...(linesLeftOut > 0 && { linesLeftOut }) }, message)
      linesLeftOut = 0
    }
  return {
    info: bounded((fields, message) => log.info(fields, message)),
    warn: bounded((fields, message) => log.warn(fields, message)),
  }
}
