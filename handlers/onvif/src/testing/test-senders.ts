import { randomUUID } from 'node:crypto'
import { setImmediate as turn } from 'node:timers/promises'
import { UdpSocket } from '@akrijs/sdk/network'
import {
  type AnnouncementText,
  DISCOVERY_GROUP,
  DISCOVERY_PORT,
  encodeHello,
} from '../discovery/message.js'

/** What a camera at this address of the loopback interface says, at a port that nobody answers on. */
export function announcementAt(
  address: string,
  more: Partial<AnnouncementText> = {},
): AnnouncementText {
  const xAddrs = [`http://${address}:1/onvif/device_service`]
  return {
    uuid: randomUUID(),
    types: ['dn:NetworkVideoTransmitter'],
    scopes: [],
    xAddrs,
    metadataVersion: 1,
    ...more,
  }
}

/** Each of these says Hello to the group, of a camera of its own. Gives who listens in this process the time to hear it. */
export async function sayHello(
  addresses: readonly string[],
  more: Partial<AnnouncementText> = {},
): Promise<void> {
  const nothing = () => {}
  for (const address of addresses) {
    const options = {
      family: 'IPv4',
      address,
      multicastInterface: '127.0.0.1',
      onDatagram: nothing,
      onBroken: nothing,
    } as const
    const socket = await UdpSocket.open(options)
    await socket.send(
      encodeHello(randomUUID(), announcementAt(address, more)),
      DISCOVERY_PORT,
      DISCOVERY_GROUP.IPv4,
    )
    socket.close()
    await turn()
  }
}

/** Hears what is sent to a port 3702 of this machine, that of the group by default. */
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
