import { link, rm, writeFile } from 'node:fs/promises'
import net from 'node:net'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { RegistrationHarness } from '../testing/registration-harness.js'
import { type RememberedHandler, rememberedHandlers } from './remembered-handlers.js'

let world: RegistrationHarness
let owner: string

beforeEach(async () => {
  world = await RegistrationHarness.start()
  owner = `user ${process.getuid?.()}`
})

afterEach(() => world.close())

const file = (name: string) => path.join(world.directory, name)
const handler = (name: string, more: Partial<RememberedHandler> = {}): RememberedHandler => ({
  name,
  socket: file(`${name}.sock`),
  shared: false,
  owner,
  ...more,
})
const names = () => world.registry.names

/** A socket that a killed process has left. */
async function leave(socket: string): Promise<void> {
  const server = net.createServer()
  await new Promise<void>((resolve) => server.listen(socket, resolve))
  await link(socket, `${socket}.left`)
  await new Promise((resolve) => server.close(resolve))
  // Node.js removes the socket of a server that closes.
  await rm(socket, { force: true })
  await link(`${socket}.left`, socket)
}

describe('the handlers that an agent remembers', () => {
  it('are those at sockets of its node, with what they registered last', async () => {
    await world.register('lab', await world.socket(file('lab.sock')), 0, false)
    await world.register('lab', file('lab.sock'), 0, true)
    await world.register('lab', 'http://10.0.0.7:10000', 1)
    expect(rememberedHandlers(world.registry)).toEqual([handler('lab', { shared: true })])
    expect(rememberedHandlers(world.registry, new Set(['lab']))).toEqual([])
  })

  it('A4 are registered at the start of the next agent if their sockets are served', async () => {
    await world.socket(file('lab.sock'))
    await leave(file('dead.sock'))
    await writeFile(file('text.sock'), '')
    await world.server.restore([
      ...['dead', 'text', 'away'].map((name) => handler(name)),
      handler('lab', { shared: true }),
    ])
    expect(rememberedHandlers(world.registry)).toEqual([handler('lab', { shared: true })])
  })

  it('are not registered for another user, by a loaded name, or elsewhere', async () => {
    const socket = await world.socket(file('lab.sock'))
    await world.serve({ names: { allBut: new Set(['udev']) } })
    await world.server.restore([
      handler('lab', { owner: 'user 4711' }),
      handler('udev', { socket }),
      handler('a b', { socket }),
      handler('lab', { socket: `${world.directory}/../x.sock` }),
    ])
    expect(names()).toEqual([])
  })

  it('are not registered beyond the number of endpoints', async () => {
    const socket = await world.socket(file('lab.sock'))
    const many = Array.from({ length: 300 }, (_, number) => handler(`h${number}`, { socket }))
    await world.server.restore(many)
    expect(world.registry.size).toBe(256)
  })

  it('do not replace a registration that came meanwhile', async () => {
    await world.register('lab', await world.socket(file('lab.sock')), 0, true)
    const [registered] = world.registry.endpoints('lab')
    await world.server.restore([handler('lab')])
    expect(world.registry.endpoints('lab')).toEqual([registered])
    expect(registered?.shared).toBe(true)
  })
})
