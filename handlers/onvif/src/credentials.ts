import type { DiscoveryProperties, Logger } from '@akrijs/sdk'
import { DeviceCredentials, type PasswordCredential } from '@akrijs/sdk/network'
import { bareUuid } from './ws-discovery/index.js'

/** A user name and a password of a camera. */
export type Credential = Pick<PasswordCredential, 'username' | 'password'>

/**
 * The credentials of cameras by UUID. Names of properties have `_` for `-`, and UUIDs in either
 * case.
 */
export function cameraCredentials(properties: DiscoveryProperties, log: Logger): DeviceCredentials {
  return new DeviceCredentials(properties, {
    log,
    spelling: (uuid) => bareUuid(uuid).replaceAll('_', '-'),
  })
}
