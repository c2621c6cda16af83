import os from 'node:os'
import { silentLogger } from '@akrijs/runtime'
import { DiscoveryProperties, defineDiscoveryHandler } from '@akrijs/runtime/handler'
import { ManualClock } from '@akrijs/runtime/testing'
import { describe, expect, it } from 'vitest'
import { findHandler } from '../handler-source.js'
import { showLists } from './discover.js'

// Nothing is installed there.
const from = os.tmpdir()

it.each(['udef', 'ud'])('a misspelt name of a built-in handler, %s, names it', async (name) => {
  await expect(findHandler(name, from)).rejects.toThrow(
    `there is no handler ${name}; did you mean udev?`,
  )
})

it('a built-in handler that cannot be loaded is refused with the reason', async () => {
  await expect(findHandler('udev', from)).rejects.toMatchObject({
    code: 'AKRI_ERR_HANDLER_PACKAGE',
    message: expect.stringContaining('@akrijs/handler-udev'),
  })
})

it('a package that is not installed belongs into the working directory', async () => {
  await expect(findHandler('none-such', from)).rejects.toThrow(
    `not installed where ${process.cwd()} can find it; run npm install none-such`,
  )
})

describe('a handler without a list', () => {
  const endless = new Promise<never>(() => {})
  const handler = defineDiscoveryHandler({
    name: 'silent',
    shared: true,
    details: { '~standard': { version: 1, vendor: 'test', validate: (value) => ({ value }) } },
    async *discover() {
      yield await endless
    },
  })

  function show(options: { watch?: boolean; once?: boolean; load?: () => Promise<never> } = {}) {
    const clock = new ManualClock()
    const stop = new AbortController()
    const told: string[] = []
    const shown = showLists({
      watch: false,
      once: false,
      details: '',
      properties: new DiscoveryProperties(),
      log: silentLogger,
      signal: stop.signal,
      stop: () => stop.abort(),
      clock,
      load: async () => handler,
      show: () => expect.fail('there is a list'),
      tell: (_message, text) => void told.push(text),
      ...options,
    })
    shown.catch(() => undefined)
    return { clock, stop, told, shown }
  }

  it.each([
    ['without an option', {}],
    ['with --once', { once: true }],
    ['whose module waits without an end', { load: () => endless }],
  ])('is named after a while, and fails after a limit: %s', async (_title, options) => {
    const { clock, told, shown } = show(options)
    await clock.advance(9999)
    expect(told).toEqual([])
    await clock.advance(1)
    expect(told).toEqual([
      'no list yet: the handler has yielded nothing in 10 s; waiting 110 s more (--watch goes on)',
    ])
    await clock.advance(110_000)
    await expect(shown).rejects.toThrow(/^no list in 120 s: .* yields an empty list/)
    expect(clock.sleeping).toEqual([])
  })

  it('is waited for with --watch, until the program ends', async () => {
    const { clock, stop, told, shown } = show({ watch: true })
    await clock.advance(1_000_000)
    expect(told).toEqual(['no list yet: the handler has yielded nothing in 10 s; still waiting'])
    stop.abort()
    await shown
  })
})
