import type { DiscoveryProperties, Logger } from '@akrijs/sdk'
import { DeviceCredentials, type PasswordCredential } from '@akrijs/sdk/network'

/** What a camera is logged in to with. */
export type Credential = Pick<PasswordCredential, 'username' | 'password'>

/** Credentials of cameras, by their UUIDs. Names of properties cannot have `-`, and UUIDs are written in either case. */
export function cameraCredentials(properties: DiscoveryProperties, log: Logger): DeviceCredentials {
  return new DeviceCredentials(properties, {
    log,
    spelling: (uuid) => uuid.toLowerCase().replaceAll('_', '-'),
  })
}
