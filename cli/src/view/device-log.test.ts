import { ObjectStore } from '@akrijs/agent'
import type { Configuration } from '@akrijs/api'
import { silentLogger } from '@akrijs/runtime'
import { expect, it } from 'vitest'
import { logDevices } from './device-log.js'

it('a Configuration without devices has its reason logged once for each kind of reason', () => {
  const configurations = new ObjectStore<Configuration>()
  const put = (devices: number, message: string) =>
    configurations.put({
      metadata: { name: 'cams', namespace: 'default' },
      status: {
        devices,
        conditions: [
          { type: 'Ready', reason: devices > 0 ? 'AllDevicesServed' : 'NoDevices', message },
        ],
      },
    } as unknown as Configuration)
  const lines: unknown[] = []
  const log = { ...silentLogger, info: (fields: object) => void lines.push(fields) }
  const none = (count: number) => `0 devices; ${count} not offered: (such as 10.0.0.${count})`
  put(0, none(1))
  logDevices({ restored: [], cluster: { configurations } }, log, new AbortController().signal)
  put(0, none(2))
  put(0, '0 devices; the handler saw none')
  put(1, '1 devices')
  put(0, '0 devices; the handler saw none')
  const configuration = 'default/cams'
  expect(lines).toEqual([
    { configuration, reason: none(1) },
    { configuration, reason: '0 devices; the handler saw none' },
    { configuration, reason: '0 devices; the handler saw none' },
  ])
})
