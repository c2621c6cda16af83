import type { ReportedList } from '@akrijs/sdk/host'
import { describe, expect, it } from 'vitest'
import { listText } from './list-text.js'

const NOTHING = { devices: [], reasons: new Map() }

function text(devices: ReportedList['devices']): string[] {
  const list = { devices, leftOut: NOTHING, problems: NOTHING, remarks: [] }
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
})
