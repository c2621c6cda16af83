import { DiscoveryProperties, silentLogger, systemClock } from '@akrijs/sdk'
import { readNetworks } from '@akrijs/sdk/network'
import { expect } from 'vitest'
import { type Credential, cameraCredentials } from '../../credentials.js'
import {
  type CameraOptions,
  type CameraRequest,
  type CameraTimeouts,
  readCamera,
} from '../../device/camera.js'
import { RefusedCredentials } from '../../device/refused-credentials.js'
import { NetworkPolicy } from '../../network-policy.js'
import type { DeviceService } from '../device-service.js'

const UUID = '5f5a69c2-e0ae-504f-829b-00fcdab169cc'

export const credential = { username: 'operator', password: 'correct horse' }

/** A policy that allows these networks only. */
export function policy(...networks: string[]): NetworkPolicy {
  return new NetworkPolicy(readNetworks(networks))
}

interface Query extends Partial<Omit<CameraRequest, 'options'>>, CameraTimeouts {
  /** The credential for all cameras. @default none */
  readonly as?: Credential
  readonly options?: Partial<CameraOptions>
}

/**
 * Reads the facts of a camera on this machine. Requests may take longer than in the handler, for a
 * busy machine.
 */
export function query(
  url: string,
  { as, options, requestTimeoutMs = 15_000, timeoutMs, ...request }: Query = {},
) {
  const properties = as ? { username_default: as.username, password_default: as.password } : {}
  return readCamera(
    {
      url,
      uuid: UUID,
      credentials: cameraCredentials(DiscoveryProperties.fromTexts(properties), silentLogger),
      refused: new RefusedCredentials({ forMs: 60_000, clock: systemClock }),
      options: { policy: policy('127.0.0.0/8', '::1'), ...options },
      signal: new AbortController().signal,
      log: silentLogger,
      clock: systemClock,
      ...request,
    },
    { requestTimeoutMs, ...(timeoutMs !== undefined && { timeoutMs }) },
  )
}

/** The facts of a simulated camera with the default identity. */
export const INFORMATION = {
  manufacturer: 'Akri',
  model: 'Simulated camera',
  firmware: '1.10',
  serialNumber: '00000000000000000001',
  hardwareId: 'simulated',
}
export const NETWORK = { ipAddress: '127.0.0.1', macAddress: '02:00:00:00:00:01' }

/** The camera must not have received the password in any form. */
export function expectNoPassword({ requests }: DeviceService, { username, password }: Credential) {
  const received = JSON.stringify(requests)
  for (const secret of [
    password,
    Buffer.from(password).toString('base64'),
    Buffer.from(`${username}:${password}`).toString('base64'),
  ]) {
    expect(received).not.toContain(secret)
  }
}
