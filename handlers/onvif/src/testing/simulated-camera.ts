import { createHash, randomUUID } from 'node:crypto'
import type { AnnouncementText } from './device-messages.js'
import type { SimulatedIdentity } from './device-replies.js'
import { DeviceService, type DeviceServiceOptions } from './device-service.js'
import { type DiscoveryFaults, DiscoveryResponder } from './discovery-responder.js'

export interface SimulatedCameraOptions extends Omit<DeviceServiceOptions, 'zone'> {
  /** @default a random UUID */
  readonly uuid?: string
  /** The types that the camera announces. @default the two types of ONVIF cameras */
  readonly types?: readonly string[]
  /** The URLs that the camera announces. @default the URL of its device service */
  readonly xAddrs?: readonly string[]
  /**
   * The facts of the camera; it announces its scopes. @default as for the device service, with a
   * serial number and a hardware address that depend on the UUID
   */
  readonly identity?: Partial<SimulatedIdentity>
}

const TYPES = ['dn:NetworkVideoTransmitter', 'tds:Device']

/**
 * An ONVIF camera. It has WS-Discovery on port 3702, which any number of cameras on a machine
 * share, and device and media services by http or https. A handler finds the camera on the
 * interface of its address. For the loopback interface, the details of the handler must have
 * `interfaces: [lo]`.
 *
 * ```ts
 * const camera = await SimulatedCamera.start({ address: '127.0.0.1' })
 * await camera.hello()
 * ```
 */
export class SimulatedCamera {
  readonly uuid: string
  /**
   * The faults of its discovery; they may change at any time. For faults of its services see {@link
   * DeviceService.misbehave}.
   */
  readonly faults: DiscoveryFaults = {}
  readonly #options: StartOptions
  #service: DeviceService
  #responder: DiscoveryResponder | undefined
  #metadataVersion = 1

  private constructor(options: StartOptions, service: DeviceService) {
    this.#options = options
    this.#service = service
    this.uuid = options.uuid
  }

  /** Starts to answer. The camera sends no Hello by itself: see {@link hello}. */
  static async start(options: SimulatedCameraOptions = {}): Promise<SimulatedCamera> {
    const { address = '127.0.0.1', uuid = randomUUID() } = options
    const started = { ...options, uuid, identity: { ...identityOf(uuid), ...options.identity } }
    const camera = new SimulatedCamera(started, await startService(started, address))
    try {
      camera.#responder = await camera.#open(address)
    } catch (error) {
      await camera.close()
      throw error
    }
    return camera
  }

  get service(): DeviceService {
    return this.#service
  }

  /** The number of Probes that it received, without repetitions. */
  get probes(): number {
    return this.#responder?.probes ?? 0
  }

  /** Sends Hello, like a camera that is switched on. */
  async hello(): Promise<void> {
    await this.#responder?.hello()
  }

  /** Sends Bye, like a camera that shuts down. Then {@link close} it. */
  async bye(): Promise<void> {
    await this.#responder?.bye()
  }

  /** Moves to another address, as a DHCP server does it, and sends Hello there. */
  async move(address: string): Promise<void> {
    await this.close()
    this.#service = await startService(this.#options, address)
    this.#metadataVersion++
    this.#responder = await this.#open(address)
    await this.hello()
  }

  /** Stops without a Bye, like a camera whose power fails. */
  async close(): Promise<void> {
    this.#responder?.close()
    await this.#service.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  #open(address: string): Promise<DiscoveryResponder> {
    return DiscoveryResponder.open({
      address,
      announcement: () => this.#announcement(),
      faults: this.faults,
    })
  }

  #announcement(): AnnouncementText {
    const { types = TYPES, xAddrs = [this.#service.url] } = this.#options
    return {
      uuid: this.uuid,
      types,
      xAddrs,
      scopes: this.#service.identity.scopes,
      metadataVersion: this.#metadataVersion,
    }
  }
}

type StartOptions = SimulatedCameraOptions & { readonly uuid: string }

/** A serial number, and an address of the range that belongs to no manufacturer. */
function identityOf(uuid: string): Pick<SimulatedIdentity, 'serialNumber' | 'macAddress'> {
  const digits = createHash('sha256').update(uuid).digest('hex')
  return {
    serialNumber: digits.slice(0, 20).toUpperCase(),
    macAddress: `02:${(digits.slice(20, 30).match(/../g) ?? []).join(':')}`,
  }
}

function startService(options: SimulatedCameraOptions, address: string): Promise<DeviceService> {
  const [plain, zone] = address.split('%')
  return DeviceService.start({
    ...options,
    ...(plain !== undefined && { address: plain }),
    ...(zone !== undefined && { zone }),
  })
}
