import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import os from 'node:os'
import path from 'node:path'
import { silentLogger } from '@akrijs/sdk'
import { startStandalone } from '@akrijs/standalone'
import { expect, it } from 'vitest'
import { eventually } from '../../../test/support/eventually.js'

it('is loaded by the name of its package, and its sensors become Instances', async () => {
  const sensors = JSON.stringify([{ id: 'hall', url: 'http://hall/' }])
  const web = createServer(
    (_, response) => void response.writeHead(200, { connection: 'close' }).end(sensors),
  )
  await new Promise<void>((resolve) => web.listen(0, '127.0.0.1', resolve))
  const address = web.address()
  const port = typeof address === 'object' && address !== null ? address.port : 0
  const directory = await mkdtemp(path.join(os.tmpdir(), 'akri-sensor-'))
  const file = path.join(directory, 'sensors.yaml')
  const discoveryHandler = {
    name: 'http-sensor',
    discoveryDetails: `url: http://127.0.0.1:${port}/`,
  }
  await writeFile(
    file,
    JSON.stringify({
      apiVersion: 'akri.sh/v0',
      kind: 'Configuration',
      metadata: { name: 'sensors' },
      spec: { discoveryHandler },
    }),
  )
  const agent = await startStandalone({
    manifests: [file],
    stateDirectory: path.join(directory, 's'),
    node: 'node-a',
    handlers: ['@akrijs/example-http-sensor'],
    handlersFrom: import.meta.dirname,
    log: silentLogger,
  })
  try {
    await eventually(() =>
      expect(agent.cluster.instances.list().map(({ spec }) => spec.brokerProperties)).toEqual([
        { SENSOR_URL: 'http://hall/' },
      ]),
    )
  } finally {
    await agent.close()
    web.close()
    await rm(directory, { recursive: true, force: true })
  }
})
