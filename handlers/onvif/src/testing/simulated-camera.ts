import { randomUUID } from 'node:crypto'
import type { AnnouncementText } from '../discovery/message.js'
import { DeviceService, type DeviceServiceOptions } from './device-service.js'
import { type DiscoveryFaults, DiscoveryResponder } from './discovery-responder.js'

export interface SimulatedCameraOptions extends Omit<DeviceServiceOptions, 'zone'> {
  /** @default a new one */
  readonly uuid?: string
  /** What it announces to be. @default both that ONVIF knows for a camera */
  readonly types?: readonly string[]
  /** The URLs that it announces. @default the one of its device service */
  readonly xAddrs?: readonly string[]
}

const TYPES = ['dn:NetworkVideoTransmitter', 'tds:Device']
const SCOPES = [
  'onvif://www.onvif.org/type/video_encoder',
  'onvif://www.onvif.org/Profile/Streaming',
]

/**
 * An ONVIF camera: WS-Discovery with Hello and Bye on port 3702, which any number of cameras on one machine share, and device and
 * media services over http or https. It is found on the interface that its address belongs to; for one on the loopback interface,
 * the details of the handler have to name that: `interfaces: [lo]`.
 *
 * ```ts
 * const camera = await SimulatedCamera.start({ address: '127.0.0.1' })
 * await camera.hello()
 * ```
 */
export class SimulatedCamera {
  readonly uuid: string
  /** What its discovery does wrong; may be changed at any time. What its services do wrong: see {@link DeviceService.misbehave}. */
  readonly faults: DiscoveryFaults = {}
  readonly #options: SimulatedCameraOptions
  #service: DeviceService
  #responder: DiscoveryResponder | undefined
  #metadataVersion = 1

  private constructor(options: SimulatedCameraOptions, service: DeviceService) {
    this.#options = options
    this.#service = service
    this.uuid = options.uuid ?? randomUUID()
  }

  /** Starts to answer. It says nothing by itself: see {@link hello}. */
  static async start(options: SimulatedCameraOptions = {}): Promise<SimulatedCamera> {
    const { address = '127.0.0.1' } = options
    const camera = new SimulatedCamera(options, await startService(options, address))
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

  /** How many different Probes it has heard. */
  get probes(): number {
    return this.#responder?.probes ?? 0
  }

  /** As when it is switched on. */
  async hello(): Promise<void> {
    await this.#responder?.hello()
  }

  /** As when it is shut down, but for {@link close}. */
  async bye(): Promise<void> {
    await this.#responder?.bye()
  }

  /** Gets another address, as from a DHCP server, and says Hello there. */
  async move(address: string): Promise<void> {
    await this.close()
    this.#service = await startService(this.#options, address)
    this.#metadataVersion++
    this.#responder = await this.#open(address)
    await this.hello()
  }

  /** As when its power fails: without a word. */
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
    const { types = TYPES, xAddrs = [this.#service.url], identity } = this.#options
    return {
      uuid: this.uuid,
      types,
      xAddrs,
      scopes: identity?.scopes ?? SCOPES,
      metadataVersion: this.#metadataVersion,
    }
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
