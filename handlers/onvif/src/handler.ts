import {
  type Clock,
  type DiscoveryHandler,
  defineDiscoveryHandler,
  fitIntoList,
  systemClock,
} from '@akrijs/sdk'
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
import type { CameraAnnouncement } from './discovery/camera-entry.js'
import type { Camera } from './discovery/camera-set.js'
import { NetworkPolicy } from './network-policy.js'

/** For tests. */
export interface OnvifHandlerOptions {
  /** @default systemClock */
  readonly clock?: Clock
  /** From the start of a round to the start of the next, in milliseconds. @default 10000 */
  readonly intervalMs?: number
}

/** A handler that finds IP cameras by WS-Discovery and reads their facts by ONVIF. */
export function createOnvifHandler({
  clock = systemClock,
  intervalMs = 10_000,
}: OnvifHandlerOptions = {}): DiscoveryHandler<OnvifDetails> {
  // All Configurations share the names, because most of them hear of the same cameras.
  const hostNames = new HostNames({ clock })
  return defineDiscoveryHandler({
    name: 'onvif',
    shared: true,
    details: onvifDetails,
    async *discover({ details, properties, signal, log }) {
      const credentials = cameraCredentials(properties, log)
      const { certificates, certificateAuthorities: authorities, mediaProfiles } = details
      const lists = discoverCameras({
        identity: details.deviceId,
        secureFirst: certificates === 'verify',
        refreshMs: details.refreshSeconds * 1000,
        accepts: (announcement) => isAnnouncementAccepted(announcement, details),
        interfaces: details.interfaces,
        probeAddresses: details.probeAddresses,
        currentPolicy: () => policyFor(details, hostNames),
        read: (request, policy) => {
          const options = { policy, certificates, authorities, mediaProfiles }
          return readCamera({ ...request, credentials, options, log, clock })
        },
        windowMs: details.discoveryTimeoutSeconds * 1000,
        intervalMs,
        clock,
        log,
        signal,
      })
      for await (const cameras of lists) {
        const accepted = cameras.filter((camera) => isCameraAccepted(camera, details))
        const { devices, leftOut } = fitIntoList(
          accepted.map((camera) => describeCamera(camera, details)),
        )
        if (leftOut > 0)
          log.warn({ offered: devices.length, leftOut }, 'device list exceeded its limit')
        yield devices
      }
    },
  })
}

function isAnnouncementAccepted(
  { uuid, scopes }: CameraAnnouncement,
  details: OnvifDetails,
): boolean {
  return (
    passesFilter(details.uuids, uuid, { ignoreCase: true }) &&
    passesFilter(details.scopes, scopes.length > 0 ? scopes : undefined)
  )
}

function isCameraAccepted({ facts }: Camera, details: OnvifDetails): boolean {
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
  return new NetworkPolicy([...networks, ...readNetworks(probeAddresses.map(plainAddress))], {
    hostNames,
    ownAddresses: machineAddresses(),
  })
}
