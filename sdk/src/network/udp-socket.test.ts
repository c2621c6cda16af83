import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { expect, it } from 'vitest'
import { type Datagram, UdpSocket } from './udp-socket.js'

const GROUP = '239.255.255.77'
const LOOPBACK = '127.0.0.1'

it('sends and receives, joins a group once, and ignores calls after it was closed', async () => {
  const received: Datagram[] = []
  const socket = await UdpSocket.open({
    family: 'IPv4',
    address: '0.0.0.0',
    onDatagram: (datagram) => received.push(datagram),
    onBroken: () => expect.fail(),
  })
  const peer = createSocket('udp4')
  try {
    peer.bind(0, LOOPBACK)
    await once(peer, 'listening')
    const message = once(peer, 'message')
    await socket.send(Buffer.from('hello'), peer.address().port, LOOPBACK)
    const [bytes, sender] = await message
    expect(String(bytes)).toBe('hello')
    peer.send('unicast', sender.port, LOOPBACK)
    expect([socket.join(GROUP, LOOPBACK), socket.join(GROUP, LOOPBACK)]).toEqual([true, false])
    await socket.send(Buffer.from('multicast'), sender.port, GROUP, LOOPBACK)
    const texts = () => received.map(({ bytes: text }) => String(text)).sort()
    await expect.poll(texts).toEqual(['multicast', 'unicast'])
    expect(received.find(({ port }) => port === peer.address().port)?.address).toBe(LOOPBACK)
    socket.leave(GROUP, LOOPBACK)
    expect(socket.join(GROUP, LOOPBACK)).toBe(true)
  } finally {
    socket.close()
    peer.close()
  }
  socket.close()
  socket.leave(GROUP, LOOPBACK)
  await socket.send(Buffer.from('late'), 9, LOOPBACK)
})

it('rejects with the error of the system if the address or port cannot be used', async () => {
  const options = { family: 'IPv4', onDatagram: () => {}, onBroken: () => {} } as const
  await expect(UdpSocket.open({ ...options, address: '192.0.2.77' })).rejects.toMatchObject({
    code: 'EADDRNOTAVAIL',
  })
})
