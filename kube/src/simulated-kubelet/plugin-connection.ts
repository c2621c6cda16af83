import {
  type AllocateResponse,
  DevicePluginClient,
  type ListAndWatchResponse,
  type PreferredAllocationResponse,
} from '@akrijs/proto/device-plugin'
import { NO_CHANNELZ } from '@akrijs/runtime'
import { type ClientReadableStream, credentials } from '@grpc/grpc-js'

/** The kubelet's connection to one device plugin. */
export class PluginConnection {
  readonly resourceName: string
  readonly #client: DevicePluginClient
  readonly #stream: ClientReadableStream<ListAndWatchResponse>
  readonly #preferred: boolean
  /** The health of each device id from the last list. */
  devices: ReadonlyMap<string, boolean> = new Map()
  connected = true

  constructor(
    resourceName: string,
    socket: string,
    preferredAllocation: boolean,
    onChange: () => void,
  ) {
    this.resourceName = resourceName
    this.#preferred = preferredAllocation
    this.#client = new DevicePluginClient(
      `unix:${socket}`,
      credentials.createInsecure(),
      NO_CHANNELZ,
    )
    this.#stream = this.#client.listAndWatch({})
    this.#stream.on('data', ({ devices }: ListAndWatchResponse) => {
      this.devices = new Map(devices.map(({ ID, health }) => [ID, health === 'Healthy']))
      onChange()
    })
    // A kubelet marks all devices of a lost plugin unhealthy.
    const disconnect = () => {
      if (!this.connected) return
      this.connected = false
      this.devices = new Map([...this.devices.keys()].map((id) => [id, false]))
      this.#client.close()
      onChange()
    }
    this.#stream.on('error', disconnect)
    this.#stream.on('end', disconnect)
  }

  get healthy(): string[] {
    return [...this.devices].filter(([, healthy]) => healthy).map(([id]) => id)
  }

  /** Chooses free ids: preferred ids first, then in their order. */
  async choose(available: readonly string[], size: number): Promise<string[]> {
    if (!this.#preferred) return available.slice(0, size)
    const containerRequests = [
      { availableDeviceIDs: [...available], mustIncludeDeviceIDs: [], allocationSize: size },
    ]
    const response = await new Promise<PreferredAllocationResponse>((resolve, reject) => {
      this.#client.getPreferredAllocation({ containerRequests }, (error, answer) =>
        error ? reject(error) : resolve(answer),
      )
    })
    const preferred = (response.containerResponses[0]?.deviceIDs ?? [])
      .filter((id) => available.includes(id))
      .slice(0, size)
    return [...preferred, ...available.filter((id) => !preferred.includes(id))].slice(0, size)
  }

  allocate(ids: readonly string[]): Promise<AllocateResponse> {
    return new Promise((resolve, reject) => {
      this.#client.allocate({ containerRequests: [{ devicesIDs: [...ids] }] }, (error, answer) =>
        error ? reject(error) : resolve(answer),
      )
    })
  }

  close(): void {
    this.connected = false
    this.#stream.cancel()
    this.#client.close()
  }
}
