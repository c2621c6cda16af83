import { expect, it } from 'vitest'
import { configurationNamed, deviceNamed } from '../testing/memory-source.js'
import { shownItem } from './shown-item.js'

it('shows no secret of a device, and no password of a URL in any text', () => {
  const device = deviceNamed(
    'lab-000001',
    { HUB_TOKEN: 'hunter2', HUB_URL: 'http://me:hunter2@hub/' },
    { status: { brokerInfo: { page: 'http://me:hunter2@hub/' } } },
  )
  const broker = { phase: 'waiting', reason: 'no answer of http://me:hunter2@hub/' }
  const text = JSON.stringify(shownItem({ kind: 'device', object: device, broker }))
  expect(text).not.toContain('hunter2')
  expect(text.match(/http:\/\/me:\*{3}@hub\//g)).toHaveLength(3)
})

it('shows no secret of a Configuration', () => {
  const object = configurationNamed('lab', 'debugEcho')
  const discoveryProperties = [{ name: 'password_default', value: 'hunter2' }]
  const discoveryHandler = { ...object.spec.discoveryHandler, discoveryProperties }
  const spec = { ...object.spec, discoveryHandler }
  const shown = shownItem({ kind: 'configuration', object: { ...object, spec } })
  expect(JSON.stringify(shown)).not.toContain('hunter2')
})

it('shows no password of a URL in an Event or a problem of a file', () => {
  const message = 'no answer of http://me:hunter2@hub/'
  const time = '2026-11-01T08:00:00Z'
  const event = { type: 'Normal', reason: 'x', count: 1 } as const
  const events = [{ ...event, message, firstTimestamp: time, lastTimestamp: time }]
  const problems = [{ file: 'a.yaml', document: 1, path: '', message }]
  expect(JSON.stringify(shownItem({ kind: 'events', events }))).not.toContain('hunter2')
  expect(JSON.stringify(shownItem({ kind: 'problems', problems }))).not.toContain('hunter2')
})

it('shows no character that a browser obeys, in values and in names', () => {
  const obeyed = 'a\u202eb\u0000c\u2066'
  const object = deviceNamed('lab-000001', { NAME: obeyed, [obeyed]: 'value' })
  const text = JSON.stringify(shownItem({ kind: 'device', object }))
  expect(text).not.toMatch(/\u202e|\\u0000|\u2066/)
  expect(text).toContain('"NAME":"a\ufffdb\ufffdc\ufffd"')
  expect(text).toContain('"a\ufffdb\ufffdc\ufffd":"value"')
})

it('says why a Configuration has no devices, in the words of its condition', () => {
  const condition = (status: 'True' | 'False', reason: string, message: string) => ({
    conditions: [{ type: 'Ready' as const, status, reason, message, lastTransitionTime: '' }],
  })
  const none = configurationNamed('a', 'mdns', condition('True', 'NoDevices', 'no answer\n| more'))
  const wrong = configurationNamed('b', 'udev', condition('False', 'InvalidDetails', 'rule 1'))
  const words = [none, wrong].map((object) => shownItem({ kind: 'configuration', object }))
  expect(words[0]).toMatchObject({ shortage: 'no answer' })
  expect(words[1]).toMatchObject({ failure: 'InvalidDetails: rule 1' })
})
