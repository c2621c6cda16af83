import path from 'node:path'
import {
  type DevicePluginOptions,
  DevicePluginService,
  type Empty,
  type ListAndWatchResponse,
  RegistrationClient,
} from '@akrijs/proto/device-plugin'
import {
  credentials,
  Server,
  ServerCredentials,
  type ServerWritableStream,
  type sendUnaryData,
} from '@grpc/grpc-js'
import { access } from '../../test/e2e/support/nodes.js'

/** Device plugins without an agent. */
export interface BarePlugins {
  readonly resources: readonly string[]
  close(): void
}

/** Where a node's kubelet and plugins serve. */
export function pluginDirectory(node: string): string {
  return path.join(access.kubeletDirectory(node), 'device-plugins')
}

/**
 * The least work of any owner of plugins, after a restart of the kubelet for example: it serves
 * each plugin on a socket of its own, and registers all at once. These plugins do not have to
 * notice the restart.
 * @param devices the ids that each plugin offers. @default none
 */
export async function openBarePlugins(
  node: string,
  count: number,
  devices: readonly string[] = [],
): Promise<BarePlugins> {
  const directory = pluginDirectory(node)
  const kubelet = new RegistrationClient(
    `unix:${path.join(directory, 'kubelet.sock')}`,
    credentials.createInsecure(),
  )
  const servers = Array.from({ length: count }, () => new Server())
  const close = () => {
    for (const server of servers) server.forceShutdown()
  }
  const resources = servers.map((_, index) => `bench.akri.sh/bare-${index}`)
  const list = devices.map((ID) => ({ ID, health: 'Healthy', topology: undefined }))
  const serveAndRegister = async (server: Server, index: number) => {
    const endpoint = `bench-bare-${index}.sock`
    server.addService(DevicePluginService, {
      // Newer kubelets ask for the options before they accept a plugin.
      getDevicePluginOptions: (_call: unknown, answer: sendUnaryData<DevicePluginOptions>) =>
        answer(null, { preStartRequired: false, getPreferredAllocationAvailable: false }),
      listAndWatch: (call: ServerWritableStream<Empty, ListAndWatchResponse>) =>
        call.write({ devices: list }),
    })
    await new Promise<void>((resolve, reject) => {
      const address = `unix:${path.join(directory, endpoint)}`
      server.bindAsync(address, ServerCredentials.createInsecure(), (error) =>
        error ? reject(error) : resolve(),
      )
    })
    const request = {
      version: 'v1beta1',
      endpoint,
      resourceName: resources[index] ?? '',
      options: undefined,
    }
    await new Promise<void>((resolve, reject) => {
      kubelet.register(request, (error) => (error ? reject(error) : resolve()))
    })
  }
  try {
    await Promise.all(servers.map(serveAndRegister))
  } catch (error) {
    close()
    throw error
  } finally {
    kubelet.close()
  }
  return { resources, close }
}
