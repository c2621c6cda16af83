import { getEventListeners } from 'node:events'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, it } from 'vitest'
import { withTimeLimit } from './time-limit.js'

const untilAborted = (signal: AbortSignal) =>
  new Promise<never>((_, reject) =>
    signal.addEventListener('abort', () => reject(signal.reason), { once: true }),
  )

/** Twice: what is only held weakly is let go of between two turns of the event loop. */
async function collectGarbage(): Promise<void> {
  setFlagsFromString('--expose-gc')
  const collect: () => void = runInNewContext('gc')
  for (let turn = 0; turn < 2; turn++) {
    await new Promise((resolve) => setImmediate(resolve))
    collect()
  }
}

it('work ends when its time is over, whatever garbage was collected meanwhile', async () => {
  const { signal } = new AbortController()
  const outcome = expect(withTimeLimit(500, signal, untilAborted)).rejects.toMatchObject({
    name: 'TimeoutError',
  })
  await collectGarbage()
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

it('work leaves nothing on a signal of a longer life, even if it listens on', async () => {
  const { signal } = new AbortController()
  const limits: WeakRef<AbortSignal>[] = []
  await withTimeLimit(60_000, signal, async (limited) => {
    limited.addEventListener('abort', () => {})
    limits.push(new WeakRef(limited))
  })
  await collectGarbage()
  expect(limits.map((limit) => limit.deref())).toEqual([undefined])
  expect(getEventListeners(signal, 'abort')).toEqual([])
})

it('work begins with an aborted signal if the signal is aborted already', async () => {
  const reason = new TypeError('stopped')
  const limited = await withTimeLimit(60_000, AbortSignal.abort(reason), async (inner) => inner)
  expect(limited.reason).toBe(reason)
})
