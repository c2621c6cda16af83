import { describe, expect, it } from 'vitest'
import { type ShownItem, shownItem } from '../../server/shown-item.js'
import type { UiItem } from '../../source.js'
import { configurationNamed, deviceNamed } from '../../testing/memory-source.js'
import { configurationState, noticesOf } from './attention.js'
import { deviceState, slotsOf } from './device-use.js'
import { handlerUses } from './handler-use.js'
import { podLines } from './pod-lines.js'
import { NO_ITEMS, withChanges } from './store.js'
import { agoText } from './time-text.js'

type Of<Kind> = Extract<ShownItem, { kind: Kind }>

function shown<Item extends UiItem>(item: Item): Of<Item['kind']> {
  return shownItem(item) as Of<Item['kind']>
}

function configuration(
  name: string,
  devices: number,
  [status, reason, message]: readonly ['True' | 'False', string, string],
) {
  const condition = { type: 'Ready', status, reason, message, lastTransitionTime: '' } as const
  const object = configurationNamed(name, 'udev', { devices, conditions: [condition] })
  return shown({ kind: 'configuration', object })
}

const READY = ['True', 'Ready', ''] as const
const NONE = ['True', 'NoDevices', 'no devices: rule 1 matches none'] as const
const FEWER = ['True', 'DevicesLeftOut', '3 devices left out'] as const
const WRONG = ['False', 'InvalidDetails', 'udevRules[0]'] as const

describe('the overview', () => {
  it('has what needs attention: files, then Configurations, then devices', () => {
    const problem = { file: 'a.yaml', document: 1, path: 'spec', message: 'wrong' }
    const configurations = [
      configuration('good', 1, READY),
      configuration('none', 0, NONE),
      configuration('fewer', 2, FEWER),
      configuration('wrong', 0, WRONG),
    ]
    const failed = { phase: 'failed', reason: 'exit code 1' }
    const object = deviceNamed('good-000001', { UDEV_DEVNODE: '/dev/a' })
    const device = shown({ kind: 'device', object, broker: failed })
    const notices = noticesOf([problem], configurations, [device])
    expect(notices.map(({ subject, text }) => `${subject}: ${text}`)).toEqual([
      'a.yaml: spec: wrong',
      'Configuration fewer: 3 devices left out',
      'Configuration wrong: InvalidDetails: udevRules[0]',
      '/dev/a: broker failed: exit code 1',
    ])
    expect(notices.at(-1)?.href).toBe('/devices/plant/good-000001')
  })

  it('counts devices with problems beyond the first few', () => {
    const devices = Array.from({ length: 1000 }, (_, index) => {
      const object = deviceNamed(`lab-${index}`, { A: `device ${index}` })
      return shown({ kind: 'device', object, broker: { phase: 'failed', reason: 'x' } })
    })
    const notices = noticesOf([], [], devices)
    expect(notices).toHaveLength(11)
    expect(notices.at(-1)).toMatchObject({ subject: '990 more devices' })
  })

  it.each([
    [READY, 1, 'good', 'Ready'],
    [NONE, 0, 'quiet', 'no devices: rule 1 matches none'],
    [FEWER, 2, 'warn', '3 devices left out'],
    [WRONG, 0, 'bad', 'InvalidDetails: udevRules[0]'],
    [READY, 0, 'quiet', 'no devices found, and the handler gives no reason'],
  ] as const)('has the condition %j with %s devices in words', (condition, devices, tone, text) => {
    expect(configurationState(configuration('a', devices, condition))).toEqual({ tone, text })
  })

  it('says that a Configuration without a status is starting', () => {
    const item = shown({ kind: 'configuration', object: configurationNamed('a', 'udev') })
    expect(configurationState(item).text).toBe('starting')
  })
})

describe('a device', () => {
  const device = (more: Partial<Of<'device'>> = {}) => ({
    ...shown({ kind: 'device', object: deviceNamed('lab-000001', {}) }),
    ...more,
  })

  it.each([
    [undefined, 'good', ''],
    [{ phase: 'running', pid: 7 }, 'good', 'broker running'],
    [{ phase: 'completed' }, 'good', 'broker completed'],
    [{ phase: 'waiting', reason: 'starting' }, 'waiting', 'broker waiting: starting'],
    [{ phase: 'waiting', reason: 'for 1 of a' }, 'waiting', 'broker waiting: for 1 of a'],
    [{ phase: 'waiting', reason: 'exit code 1' }, 'wrong', 'broker waiting: exit code 1'],
    [{ phase: 'none', reason: 'no command' }, 'wrong', 'broker none: no command'],
  ])('with the broker %j is %s', (broker, health, text) => {
    expect(deviceState(device({ broker }))).toEqual({ health, text })
  })

  it('has its slots in their order, also claimed slots beyond its capacity', () => {
    const { object } = device()
    const deviceUsage = {
      'lab-000001-0': '',
      'lab-000001-1': 'C:3:node-b',
      'lab-000001-7': 'node-a',
    }
    const changed = { ...object, spec: { ...object.spec, deviceUsage } }
    expect(slotsOf(device({ object: changed }))).toEqual([
      { name: 'lab-000001-0', holder: '' },
      { name: 'lab-000001-1', holder: 'used on node-b, as any device of its kind' },
      { name: 'lab-000001-7', holder: 'used on node-a' },
    ])
    const users = { 'lab-000001-0': 'plant/gone', 'lab-000001-7': 'plant/reader' }
    expect(slotsOf(device({ object: changed, users })).map(({ holder }) => holder)).toEqual([
      '',
      'used on node-b, as any device of its kind',
      'used on node-a: plant/reader',
    ])
  })

  it.each([
    ['both', ['lab-000001', 'lab']],
    ['instance', ['lab-000001']],
    ['configuration', ['lab']],
  ] as const)('has the lines of a Pod for what nodes offer: %s', (offer, names) => {
    const { object } = configuration('lab', 1, READY)
    const offered = { ...object, spec: { ...object.spec, offer } }
    const lines = podLines(device(), shown({ kind: 'configuration', object: offered }))
    const texts = names.map((name) => `resources:\n  limits:\n    akri.sh/${name}: "1"\n`)
    expect(lines.map(({ text }) => text)).toEqual(texts)
  })
})

it('lists handlers with what uses them, also those that are not there', () => {
  const handler = (name: string) =>
    shown({ kind: 'handler', name, package: 'p 1', place: 'in the agent', isConnected: true })
  const items = withChanges(NO_ITEMS, [
    ['handler/udev', handler('udev')],
    ['handler/ssdp', handler('ssdp')],
    ['configuration/plant/a', configuration('a', 2, READY)],
    ['configuration/plant/b', configuration('b', 0, WRONG)],
    [
      'configuration/plant/c',
      shown({ kind: 'configuration', object: configurationNamed('c', 'modbus') }),
    ],
  ])
  expect(handlerUses(items)).toMatchObject([
    { name: 'modbus', state: 'absent', configurations: 1 },
    { name: 'ssdp', state: 'unused', devices: 0 },
    {
      name: 'udev',
      state: 'connected',
      devices: 2,
      problems: [{ configuration: 'plant/b', text: 'InvalidDetails: udevRules[0]' }],
    },
  ])
})

it('lists no handler of a Configuration that names none, and one whose state is unknown', () => {
  const unknown = { kind: 'handler', name: 'udev', place: '', isConnected: undefined } as const
  const items = withChanges(NO_ITEMS, [
    ['handler/udev', shown(unknown)],
    [
      'configuration/plant/a',
      shown({ kind: 'configuration', object: configurationNamed('a', '') }),
    ],
  ])
  expect(handlerUses(items)).toMatchObject([{ name: 'udev', state: 'unknown' }])
})

it('has what the source cannot read now', () => {
  const outages = { kind: 'outages', messages: ['no right'], unread: ['device'] } as const
  expect(withChanges(NO_ITEMS, [['outages/all', shown(outages)]]).outages).toEqual(outages)
})

it('applies changes, and leaves what has not changed as it is', () => {
  const object = deviceNamed('lab-000001', {})
  const before = withChanges(NO_ITEMS, [
    ['device/plant/lab-000001', shown({ kind: 'device', object })],
    ['device/plant/lab-000002', shown({ kind: 'device', object })],
  ])
  const after = withChanges(before, [['device/plant/lab-000001', null]])
  expect([...before.devices.keys()]).toEqual(['plant/lab-000001', 'plant/lab-000002'])
  expect([...after.devices.keys()]).toEqual(['plant/lab-000002'])
  expect(after.events).toBe(before.events)
})

it.each([
  [0, 'just now'],
  [59, 'just now'],
  [60, '1 minute ago'],
  [7200, '2 hours ago'],
  [86_400, 'yesterday'],
])('says a time of %s seconds ago as people do', (seconds, text) => {
  expect(agoText(new Date(0).toISOString(), seconds * 1000)).toBe(text)
  expect(agoText('no time', 0)).toBe('')
})
