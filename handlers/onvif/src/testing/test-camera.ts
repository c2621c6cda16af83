import { DiscoveryProperties, silentLogger } from '@akrijs/sdk'
import { readNetwork } from '@akrijs/sdk/network'
import { expect } from 'vitest'
import { cameraCredentials } from '../credentials.js'
import { type CameraOptions, type CameraRequest, readCamera } from '../device/camera.js'
import { NetworkPolicy } from '../network-policy.js'
import type { DeviceService } from './device-service.js'

const UUID = '5f5a69c2-e0ae-504f-829b-00fcdab169cc'

export const credential = { username: 'operator', password: 'correct horse' }

/** Of those networks only. */
export function policy(...networks: string[]): NetworkPolicy {
  return new NetworkPolicy(
    networks.map((text) => readNetwork(text) ?? expect.fail(`${text} is not a network`)),
  )
}

interface Asked extends Partial<Omit<CameraRequest, 'options'>> {
  readonly as?: { readonly username: string; readonly password: string }
  readonly options?: Partial<CameraOptions>
}

/** Asks a camera of this machine who it is; for longer than a program would, since a busy machine takes its time. */
export function ask(url: string, { as, options, ...more }: Asked = {}) {
  const properties = as ? { username_default: as.username, password_default: as.password } : {}
  return readCamera({
    url,
    uuid: UUID,
    credentials: cameraCredentials(DiscoveryProperties.fromTexts(properties), silentLogger),
    options: { policy: policy('127.0.0.0/8', '::1'), requestTimeoutMs: 15_000, ...options },
    signal: new AbortController().signal,
    log: silentLogger,
    ...more,
  })
}

/** What the camera tells of itself where it is not told another identity. */
export const INFORMATION = {
  manufacturer: 'Akri',
  model: 'Simulated camera',
  firmware: '1.10',
  serialNumber: '00000000000000000001',
  hardwareId: 'simulated',
}
export const NETWORK = { ipAddress: '127.0.0.1', macAddress: '02:00:00:00:00:01' }

/** Nothing of what the camera got must give the password away. */
export function expectNoPassword(
  { requests }: DeviceService,
  { username, password }: { username: string; password: string },
) {
  const sent = JSON.stringify(requests)
  for (const secret of [
    password,
    Buffer.from(password).toString('base64'),
    Buffer.from(`${username}:${password}`).toString('base64'),
  ]) {
    expect(sent).not.toContain(secret)
  }
}
