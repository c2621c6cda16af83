import { describe, expect, it } from 'vitest'
import {
  boundReports,
  DeviceReportCollector,
  deviceReports,
  leftOutSummary,
  problemsSummary,
} from './reported-devices.js'

describe('devices that a handler left out', () => {
  it('are taken once, each id once, and counted by reason', () => {
    const reports = new DeviceReportCollector()
    reports.add('a', 'filtered by scopes')
    reports.add('b', 'HTTP status 401', 'at 10.0.0.2')
    reports.add('c', 'HTTP status 401')
    reports.add('a', 'HTTP status 401')
    const taken = reports.take()
    expect(taken.devices).toEqual([
      { id: 'a', reason: 'filtered by scopes' },
      { id: 'b', reason: 'HTTP status 401', detail: 'at 10.0.0.2' },
      { id: 'c', reason: 'HTTP status 401' },
    ])
    expect(leftOutSummary(taken)).toBe('3 not offered: 2 x HTTP status 401, 1 x filtered by scopes')
    expect(reports.take()).toEqual({ devices: [], reasons: new Map() })
  })

  it('are limited in number, in reasons and in length, without control characters', () => {
    const reports = new DeviceReportCollector()
    reports.add('x'.repeat(10_000), 'r'.repeat(10_000), '\u001b[31m'.repeat(10_000))
    reports.add(undefined, null, {})
    for (let n = 0; n < 20_000; n++) reports.add(`device ${n}`, `reason ${n}`)
    const { devices, reasons } = reports.take()
    expect(devices).toHaveLength(200)
    expect([...reasons.values()].reduce((sum, count) => sum + count)).toBe(10_000)
    expect(reasons.size).toBe(21)
    const [first] = devices
    expect([first?.id.length, first?.reason.length, first?.detail?.length]).toEqual([301, 101, 501])
    expect(JSON.stringify(devices)).not.toContain('\\u001b')
  })

  it('have the texts of errors and of other objects', () => {
    const collector = new DeviceReportCollector()
    collector.add('a', new TypeError('no answer'), { code: 7 })
    collector.add(Object.create(null), Object.create(null))
    expect(collector.take().devices).toEqual([
      { id: 'a', reason: 'no answer', detail: '{ code: 7 }' },
      { id: 'a value without a text', reason: 'a value without a text' },
    ])
  })

  it('have no passwords of URLs in their texts, and their ids as they are', () => {
    const reports = new DeviceReportCollector()
    const url = 'http://me:hunter2@hub/'
    reports.add(url, `no answer of ${url}`, `${'x'.repeat(485)}${url}`)
    const { devices } = reports.take()
    expect(devices).toEqual([
      {
        id: url,
        reason: 'no answer of http://me:***@hub/',
        detail: `${'x'.repeat(485)}http://me:***@h…`,
      },
    ])
    expect(boundReports([{ reason: url, count: 1, ids: [url], listed: true }])).toMatchObject([
      { reason: 'http://me:***@hub/', ids: [url] },
    ])
  })
})

describe('the reports for an agent', () => {
  const collected = (...devices: readonly (readonly [id: string, reason: string])[]) => {
    const collector = new DeviceReportCollector()
    for (const [id, reason] of devices) collector.add(id, reason)
    return collector.take()
  }

  it('have reasons with examples, the same for devices in any order', () => {
    const leftOut = [
      ['c', 'filtered by scopes'],
      ['b', 'HTTP status 401'],
      ['a', 'HTTP status 401'],
    ] as const
    const problems = collected(['e', 'credential refused'], ['d', 'credential refused'])
    const remarks = ['no events arrive']
    const reports = deviceReports({ leftOut: collected(...leftOut), problems, remarks })
    expect(reports).toEqual([
      { reason: 'no events arrive', count: 0, ids: [], listed: false },
      { reason: 'credential refused', count: 2, ids: ['d', 'e'], listed: true },
      { reason: 'HTTP status 401', count: 2, ids: ['a'], listed: false },
      { reason: 'filtered by scopes', count: 1, ids: ['c'], listed: false },
    ])
    expect(
      deviceReports({ leftOut: collected(...leftOut.toReversed()), problems, remarks }),
    ).toEqual(reports)
    expect(problemsSummary(problems)).toBe('2 with a problem: 2 x credential refused')
  })

  it('are limited in number, in ids and in length, without control characters', () => {
    const report = { reason: '\u001b'.repeat(1000), count: 3, listed: false }
    const ids = Array.from({ length: 1000 }, (_, n) => `\u001b${n}`.repeat(1000))
    const hostile = Array.from({ length: 1000 }, () => ({ ...report, ids }))
    const kept = boundReports(hostile)
    expect(kept).toHaveLength(47)
    expect(kept.flatMap((each) => each.ids)).toHaveLength(100)
    expect(Buffer.byteLength(JSON.stringify(kept))).toBeLessThan(128 * 1024)
    expect(JSON.stringify(kept)).not.toContain('\\u001b')
  })
})
