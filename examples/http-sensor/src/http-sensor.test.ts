import { createServer } from 'node:http'
import { serve, silentLogger } from '@akrijs/sdk'
import { SimulatedAgent } from '@akrijs/sdk/testing'
import { expect, it } from 'vitest'
import handler from './http-sensor.js'

async function withSensors(
  answer: () => [number, string],
  use: (agent: SimulatedAgent, details: string) => Promise<void>,
) {
  const web = createServer((_, response) => {
    const [code, body] = answer()
    response.writeHead(code, { connection: 'close' }).end(body)
  }).listen(0, '127.0.0.1')
  await new Promise((resolve) => web.once('listening', resolve))
  const address = web.address()
  const port = typeof address === 'object' && address !== null ? address.port : 0
  const agent = await SimulatedAgent.start()
  const server = await serve(handler, {
    directory: agent.directory,
    log: silentLogger,
    environment: {},
  })
  try {
    await use(agent, `url: http://127.0.0.1:${port}/\nintervalMs: 20`)
  } finally {
    await server.close()
    await agent.close()
    web.closeAllConnections()
    await new Promise((resolve) => web.close(resolve))
  }
}

it('follows the list of sensors', async () => {
  let sensors = [{ id: 'hall', url: 'http://hall/' }]
  await withSensors(
    () => [200, JSON.stringify(sensors)],
    async (agent, details) => {
      const session = await agent.discover('http-sensor', { details })
      expect(await session.next()).toMatchObject([
        { id: 'hall', properties: { SENSOR_URL: 'http://hall/' } },
      ])
      sensors = []
      expect(await session.next()).toEqual([])
    },
  )
})

it.each<[string, number, string]>([
  ['answers 500', 500, ''],
  ['more than 1048576', 200, 'x'.repeat(2_000_000)],
  ['JSON', 200, 'nonsense'],
])('ends its stream with a reason: %s', async (reason, code, body) => {
  await withSensors(
    () => [code, body],
    async (agent, details) => {
      await expect((await agent.discover('http-sensor', { details })).next()).rejects.toThrow(
        reason,
      )
    },
  )
})

it('refuses details without a URL', async () => {
  await withSensors(
    () => [200, '[]'],
    async (agent) => {
      await expect((await agent.discover('http-sensor')).next()).rejects.toThrow(
        /INVALID_ARGUMENT.*url/,
      )
    },
  )
})
