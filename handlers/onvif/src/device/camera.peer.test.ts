import os from 'node:os'
import { describe, expect, it } from 'vitest'
import { DeviceService } from '../testing/device-service.js'
import { INFORMATION, policy, query } from '../testing/internal/camera-query.js'

describe('a camera', () => {
  const local = Object.entries(os.networkInterfaces()).flatMap(([zone, addresses]) =>
    (addresses ?? [])
      .filter(({ address }) => address.startsWith('fe80:'))
      .map(({ address }) => ({ zone, address })),
  )[0]

  it.skipIf(local === undefined)(
    'D2 may have a link-local address (needs an interface with one)',
    async () => {
      const { zone = '', address = '' } = local ?? {}
      await using camera = await DeviceService.start({ address, zone })
      const options = { policy: policy('fe80::/10') }
      expect(await query(camera.url, { zone, options })).toMatchObject(INFORMATION)
      expect(camera.requests[0]?.headers.host).toBe(`[${address}]:${camera.port}`)
    },
  )
})
