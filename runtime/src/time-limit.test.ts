import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, it } from 'vitest'
import { withTimeLimit } from './time-limit.js'

const untilAborted = (signal: AbortSignal) =>
  new Promise<never>((_, reject) =>
    signal.addEventListener('abort', () => reject(signal.reason), { once: true }),
  )

it('work ends when its time is over, whatever garbage was collected meanwhile', async () => {
  setFlagsFromString('--expose-gc')
  const collectGarbage: () => void = runInNewContext('gc')
  const { signal } = new AbortController()
  const outcome = expect(withTimeLimit(500, signal, untilAborted)).rejects.toMatchObject({
    name: 'TimeoutError',
  })
  // Twice: what is only held weakly is let go of between two turns of the event loop.
  for (let turn = 0; turn < 2; turn++) {
    await new Promise((resolve) => setImmediate(resolve))
    collectGarbage()
  }
  await outcome
})

it('work ends with the signal that it is given, and has its outcome otherwise', async () => {
  const stop = new AbortController()
  const outcome = expect(withTimeLimit(60_000, stop.signal, untilAborted)).rejects.toThrow(
    'stopped',
  )
  stop.abort(new TypeError('stopped'))
  await outcome
  expect(await withTimeLimit(60_000, new AbortController().signal, async () => 'done')).toBe('done')
})
