import { randomUUID } from 'node:crypto'
import { setImmediate as turn } from 'node:timers/promises'
import { UdpSocket } from '@akrijs/sdk/network'
import { DISCOVERY_GROUP, DISCOVERY_PORT } from '../../ws-discovery/message.js'
import { type AnnouncementText, encodeHello } from '../device-messages.js'

/**
 * The announcement of a camera at an address of the loopback interface. Nothing listens at its URL.
 */
export function announcementAt(
  address: string,
  fields: Partial<AnnouncementText> = {},
): AnnouncementText {
  return {
    uuid: randomUUID(),
    types: ['dn:NetworkVideoTransmitter'],
    scopes: [],
    xAddrs: [`http://${address}:1/onvif/device_service`],
    metadataVersion: 1,
    ...fields,
  }
}

/**
 * Sends a Hello of a camera from each address to the group. Listeners of this process get the time
 * to receive it.
 */
export async function sayHello(
  addresses: readonly string[],
  fields: Partial<AnnouncementText> = {},
): Promise<void> {
  const ignore = () => {}
  for (const address of addresses) {
    const socket = await UdpSocket.open({
      family: 'IPv4',
      address,
      multicastInterface: '127.0.0.1',
      onDatagram: ignore,
      onBroken: ignore,
    })
    await socket.send(
      encodeHello(randomUUID(), announcementAt(address, fields)),
      DISCOVERY_PORT,
      DISCOVERY_GROUP.IPv4,
    )
    socket.close()
    await turn()
  }
}

/** Receives the datagrams to port 3702 of an address of this machine, or of the group. */
export async function listen(
  onText: (text: string) => void,
  address: string = DISCOVERY_GROUP.IPv4,
): Promise<UdpSocket> {
  const socket = await UdpSocket.open({
    family: 'IPv4',
    address,
    port: DISCOVERY_PORT,
    shared: true,
    onDatagram: ({ bytes }) => onText(Buffer.from(bytes).toString()),
    onBroken: () => {},
  })
  if (address === DISCOVERY_GROUP.IPv4) socket.join(address, '127.0.0.1')
  return socket
}
