import { type Clock, type DiscoveryHandler, defineDiscoveryHandler, fitIntoList } from '@akrijs/sdk'
import {
  HostNames,
  machineAddresses,
  machineNetworks,
  passesFilter,
  plainAddress,
  readNetworks,
} from '@akrijs/sdk/network'
import { cameraCredentials } from './credentials.js'
import { type OnvifDetails, onvifDetails } from './details.js'
import { readCamera } from './device/camera.js'
import { describeCamera } from './device-description.js'
import { discoverCameras } from './discovery/camera-discovery.js'
import type { Announced, Camera } from './discovery/camera-set.js'
import { NetworkPolicy } from './network-policy.js'

export interface OnvifHandlerOptions {
  readonly clock: Clock
  /** From one round to the next, in milliseconds. @default 10000 */
  readonly intervalMs?: number
}

/** Finds IP cameras by WS-Discovery, and asks each who it is. */
export function defineOnvifHandler({
  clock,
  intervalMs = 10_000,
}: OnvifHandlerOptions): DiscoveryHandler<OnvifDetails> {
  // Of all Configurations together: most of them hear of the same cameras.
  const hostNames = new HostNames({ clock })
  return defineDiscoveryHandler({
    name: 'onvif',
    shared: true,
    details: onvifDetails,
    async *discover({ details, properties, signal, log }) {
      const credentials = cameraCredentials(properties, log)
      const { certificates, certificateAuthorities: authorities, mediaProfiles } = details
      const found = discoverCameras({
        identity: details.deviceId,
        secureFirst: certificates === 'verify',
        refreshMs: details.refreshSeconds * 1000,
        wanted: ({ uuid, scopes }) => isAnnouncedAsWanted({ uuid, scopes }, details),
        interfaces: details.interfaces,
        probeAddresses: details.probeAddresses,
        policyNow: () => policyFor(details, hostNames),
        read: (place, policy, readSignal) =>
          readCamera({
            ...place,
            credentials,
            options: { policy, certificates, authorities, mediaProfiles },
            signal: readSignal,
            log,
            clock,
          }),
        windowMs: details.discoveryTimeoutSeconds * 1000,
        intervalMs,
        clock,
        log,
        signal,
      })
      for await (const cameras of found) {
        const wanted = cameras.filter((camera) => answersAsWanted(camera, details))
        const { devices, leftOut } = fitIntoList(
          wanted.map((camera) => describeCamera(camera, details)),
        )
        if (leftOut > 0)
          log.warn(
            { offered: devices.length, leftOut },
            'more cameras were found than can be offered',
          )
        yield devices
      }
    },
  })
}

function isAnnouncedAsWanted(
  { uuid, scopes }: Pick<Announced, 'uuid' | 'scopes'>,
  details: OnvifDetails,
): boolean {
  return (
    passesFilter(details.uuids, uuid, { ignoreCase: true }) &&
    passesFilter(details.scopes, scopes.length > 0 ? scopes : undefined)
  )
}

function answersAsWanted({ facts }: Camera, details: OnvifDetails): boolean {
  return (
    passesFilter(details.ipAddresses, facts.ipAddress, { ignoreCase: true }) &&
    passesFilter(details.macAddresses, facts.macAddress, { ignoreCase: true })
  )
}

function policyFor(
  { allowedNetworks, probeAddresses, interfaces }: OnvifDetails,
  hostNames: HostNames,
): NetworkPolicy {
  const networks = allowedNetworks ?? machineNetworks({ only: interfaces })
  const directed = readNetworks(probeAddresses.map(plainAddress))
  return new NetworkPolicy([...networks, ...directed], {
    hostNames,
    ownAddresses: machineAddresses(),
  })
}
