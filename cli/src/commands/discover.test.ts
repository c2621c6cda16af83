import os from 'node:os'
import type { ConfigurationSpec } from '@akrijs/api'
import { createDebugEcho } from '@akrijs/handler-debug-echo'
import { createMdnsHandler } from '@akrijs/handler-mdns'
import { createModbusHandler } from '@akrijs/handler-modbus'
import { createMqttHandler } from '@akrijs/handler-mqtt'
import { createOpcuaHandler } from '@akrijs/handler-opcua'
import { createSnmpHandler } from '@akrijs/handler-snmp'
import { createUdevHandler } from '@akrijs/handler-udev'
import { InvalidOptionError, silentLogger } from '@akrijs/runtime'
import { ManualClock } from '@akrijs/runtime/testing'
import {
  type DiscoveryHandler,
  type DiscoveryHandlerDefinition,
  DiscoveryProperties,
  defineDiscoveryHandler,
} from '@akrijs/sdk/handler'
import { describe, expect, it } from 'vitest'
import * as z from 'zod'
import { EXAMPLE_DETAILS } from '../built-in-handlers.js'
import { findHandler } from '../handler-source.js'
import { listText } from '../view/list-text.js'
import { checkDetails } from './configuration-details.js'
import { requestOf, showLists } from './discover.js'

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

it.each([
  [{ details: 'none-such.yaml' }, /^--details none-such\.yaml cannot be read: .*ENOENT/],
  [{ details: 'a', detailsText: 'b' }, /--details and --details-text/],
  [{ property: ['1=x'] }, /^--property "1=x" is not NAME=VALUE or NAME=@FILE/],
  [{ property: ['a=@none-such'] }, /^--property none-such cannot be read/],
  [{ property: ['a=@-', 'b=@-'] }, /--property a=@- and --property b=@- both read standard input/],
  [
    { details: '-', property: ['a=@-'] },
    /--details - and --property a=@- both read standard input/,
  ],
])('details and properties are refused with what is wrong: %j', async (options, message) => {
  const request = { details: undefined, detailsText: undefined, property: [], ...options }
  await expect(requestOf(request)).rejects.toThrow(InvalidOptionError)
  await expect(requestOf(request)).rejects.toThrow(message)
})

const definition = {
  name: 'mine',
  shared: true,
  details: { '~standard': { version: 1, vendor: 'test', validate: (value) => ({ value }) } },
  async *discover() {},
} satisfies DiscoveryHandlerDefinition<unknown>

/** Shows the lists of a handler, by a clock that the test moves. */
function show(
  discover: DiscoveryHandlerDefinition<unknown>['discover'],
  options: {
    watch?: boolean
    once?: boolean
    load?: () => Promise<DiscoveryHandler>
    handlerName?: string
  } = {},
) {
  const clock = new ManualClock()
  const stop = new AbortController()
  const told: string[] = []
  const lists: string[] = []
  const shown = showLists({
    watch: false,
    once: false,
    handlerName: 'mine',
    details: '',
    properties: new DiscoveryProperties(),
    log: silentLogger,
    signal: stop.signal,
    stop: () => stop.abort(),
    clock,
    load: async () => defineDiscoveryHandler({ ...definition, discover }),
    show: (list) => void lists.push(listText(list, 'text')),
    tell: (_message, text) => void told.push(text),
    ...options,
  })
  shown.catch(() => undefined)
  return { clock, stop, told, shown, lists }
}

describe('a handler whose first list is empty', () => {
  const nothing = expect.stringMatching(/^nothing found\n\nthe handler gives no reason: /)
  const waiting =
    'nothing found so far; waiting 5 s for another list (--watch goes on, --once does not wait)'

  it('has its next list shown', async () => {
    let release = () => {}
    const late = new Promise<void>((resolve) => {
      release = resolve
    })
    const { told, shown, lists } = show(async function* () {
      yield []
      await late
      yield [{ id: 'late' }]
    })
    await expect.poll(() => told).toEqual([waiting])
    release()
    await shown
    expect(lists).toEqual([expect.stringMatching(/^ID .*\nlate *$/)])
  })

  it('has it shown after a while if no other follows', async () => {
    const { clock, told, shown, lists } = show(async function* () {
      yield []
    })
    await expect.poll(() => told).toEqual([waiting])
    await clock.advance(4999)
    expect(lists).toEqual([])
    await clock.advance(1)
    await shown
    expect(lists).toEqual([nothing])
  })

  it('has it shown at once with --once', async () => {
    const discover = async function* () {
      yield []
      yield [{ id: 'late' }]
    }
    const { told, shown, lists } = show(discover, { once: true })
    await shown
    expect([told, lists]).toEqual([[], [nothing]])
  })
})

it('what a handler warns of in its details is shown before its list', async () => {
  const warnings = () => [{ path: 'rules[0]', message: 'it matches nothing' }]
  const discover = async function* () {
    yield [{ id: 'a' }]
  }
  const load = async () => defineDiscoveryHandler({ ...definition, discover, warnings })
  const { told, shown, lists } = show(discover, { load })
  await shown
  expect(told).toEqual(['warning: rules[0]: it matches nothing'])
  expect(lists).toHaveLength(1)
})

describe('a handler without a list', () => {
  const endless = new Promise<never>(() => {})
  const silent = async function* () {
    yield await endless
  }

  it.each([
    ['without an option', {}],
    ['with --once', { once: true }],
    ['whose module waits without an end', { load: () => endless }],
  ])('is named after a while, and fails after a limit: %s', async (_title, options) => {
    const { clock, told, shown, lists } = show(silent, options)
    await clock.advance(9999)
    expect(told).toEqual([])
    await clock.advance(1)
    expect(told).toEqual([
      'no list yet: the handler has yielded nothing in 10 s; waiting 110 s more (--watch goes on)',
    ])
    await clock.advance(110_000)
    await expect(shown).rejects.toThrow(/^no list in 120 s: .* yields an empty list/)
    expect([clock.sleeping, lists]).toEqual([[], []])
  })

  it('is waited for with --watch, until the program ends', async () => {
    const { clock, stop, told, shown, lists } = show(silent, { watch: true })
    await clock.advance(1_000_000)
    expect(told).toEqual(['no list yet: the handler has yielded nothing in 10 s; still waiting'])
    stop.abort()
    await shown
    expect(lists).toEqual([])
  })
})

it.each([
  [
    'udev',
    `for example: akri discover udev --details-text '{ udevRules: ["SUBSYSTEM==\\"net\\""] }'`,
  ],
  ['./mine.js', 'give the details by --details FILE or --details-text YAML'],
])('the handler %s, which needs details, tells what to give', async (handlerName, advice) => {
  const refusing = defineDiscoveryHandler({
    ...definition,
    details: z.strictObject({ model: z.string() }),
  })
  const load = async () => refusing as DiscoveryHandler
  const { shown } = show(definition.discover, { handlerName, load })
  await expect(shown).rejects.toThrow(
    `discoveryDetails: model: it is missing; write a text\n${advice}`,
  )
})

it('the examples of details are valid for their handlers', async () => {
  const handlers = [
    createDebugEcho(),
    createMdnsHandler(),
    createModbusHandler(),
    createMqttHandler(),
    createOpcuaHandler(),
    createSnmpHandler(),
    createUdevHandler(),
  ]
  for (const [name, discoveryDetails] of Object.entries(EXAMPLE_DETAILS)) {
    const load = async () => handlers.find((each) => each.name === name)
    const spec = { discoveryHandler: { name, discoveryDetails } } as ConfigurationSpec
    expect(await load()).toBeDefined()
    expect(await checkDetails(spec, load)).toEqual([])
  }
})
