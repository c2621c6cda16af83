import { type CheckedDevice, withHash } from '@akrijs/sdk/host'
import { describe, expect, it } from 'vitest'
import { listText } from './list-text.js'

const NOTHING = { devices: [], reasons: new Map() }

function text(devices: readonly Omit<CheckedDevice, 'hash'>[]): string[] {
  const all = devices.map((device) => withHash(device))
  const list = { devices: all, leftOut: NOTHING, problems: NOTHING, remarks: [] }
  return listText(list, 'text').split('\n')
}

describe('the text of a list', () => {
  it('has all that the containers of a device get, in 80 columns', () => {
    const lines = text([
      {
        id: '/dev/null',
        properties: { MY_SENSOR_DEVICE: '/dev/null', MY_SENSOR_KIND: 'block' },
        deviceSpecs: [{ hostPath: '/dev/null', containerPath: '/dev/null', permissions: 'rw' }],
        mounts: [
          { hostPath: '/etc/hostname', containerPath: '/run/sensor/hostname', readOnly: true },
          { hostPath: '/run/a\u001b', containerPath: '/run/a\u001b', readOnly: false },
        ],
      },
      {
        id: 'usb-1',
        properties: {},
        deviceSpecs: [{ hostPath: '/dev/a', containerPath: '/dev/b', permissions: 'r' }],
        mounts: [],
      },
    ])
    expect(lines.map((line) => line.replaceAll(/(?<=\S) {2,}/g, '  '))).toEqual([
      'ID  PROPERTIES  NODES',
      '/dev/null  MY_SENSOR_DEVICE=/dev/null MY_SENSOR_KIND=block  /dev/null:rw',
      '    mounts: /etc/hostname:/run/sensor/hostname:ro /run/a\ufffd:rw',
      'usb-1  /dev/a:/dev/b:r',
    ])
    for (const line of lines) expect(line.length).toBeLessThanOrEqual(80)
  })
  it('has devices that are not offered, each with its reason, also as JSON', () => {
    const reasons = new Map([
      ['HTTP status 401', 1],
      ['too far away', 1],
    ])
    const devices = [
      { id: '10.0.0.1', reason: 'HTTP status 401' },
      { id: '10.0.0.2', reason: 'too far away', detail: '90 m' },
    ]
    const leftOut = { devices, reasons }
    const list = { devices: [], leftOut, problems: NOTHING, remarks: ['it is dark'] }
    expect(JSON.parse(listText(list, 'json'))).toEqual({
      devices: [],
      leftOut: devices,
      problems: [],
      remarks: ['it is dark'],
    })
    expect(listText(list, 'text')).toMatch(
      new RegExp(
        '^nothing found\n\nit is dark\n\n' +
          '2 not offered: 1 x HTTP status 401, 1 x too far away\n' +
          'ID +REASON +DETAIL\n10\\.0\\.0\\.1 +HTTP status 401\n' +
          '10\\.0\\.0\\.2 +too far away +90 m$',
      ),
    )
  })
})

it.each(['text', 'json'] as const)(
  'shows no password of a URL in a list of devices: %s',
  (form) => {
    const url = 'http://me:hunter2@hub/'
    const reported = {
      devices: [{ id: url, reason: `no answer of ${url}`, detail: url }],
      reasons: new Map([['no answer', 1]]),
    }
    const list = {
      devices: [
        withHash({
          id: url,
          properties: { HUB_URL: `${url}1` },
          mounts: [],
          deviceSpecs: [],
        }),
      ],
      leftOut: reported,
      problems: reported,
      remarks: [`${url} was slow`],
    }
    const shown = listText(list, form)
    expect(shown).not.toContain('hunter2')
    expect(shown.match(/http:\/\/me:\*{3}@hub\//g)).toHaveLength(9)
  },
)
